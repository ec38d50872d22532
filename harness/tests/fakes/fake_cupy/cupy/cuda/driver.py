CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1
CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8

attributes = {}


class CUDADriverError(RuntimeError):
    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


def funcGetAttribute(attribute, function):
    return attributes.get((attribute, function), 1024)


def funcSetAttribute(function, attribute, value):
    attributes[attribute, function] = value


def occupancyMaxActiveBlocksPerMultiprocessor(function, threads, shared):
    return 2048 // threads
