CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1
CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8


def funcGetAttribute(attribute, function):
    return function.info.shared_static


def funcSetAttribute(function, attribute, value):
    function.max_dynamic_shared_size_bytes = value


def occupancyMaxActiveBlocksPerMultiprocessor(function, threads, shared):
    return 16
