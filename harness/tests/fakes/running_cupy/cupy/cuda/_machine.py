"""The device and the errors that all parts share."""

from backwarp.devices.virtual.device import VirtualGPU

device = VirtualGPU("memory")
device.quick = True
pending = []  # the error that the next synchronisation reports
ERRORS = {
    "misaligned": (716, "cudaErrorMisalignedAddress: misaligned address"),
    "assert": (710, "cudaErrorAssert: device-side assert triggered"),
    "timeout": (702, "cudaErrorLaunchTimeout: the launch timed out and was terminated"),
}
ILLEGAL = 700, "cudaErrorIllegalAddress: an illegal memory access was encountered"


class CUDARuntimeError(RuntimeError):
    def __init__(self, status, text):
        super().__init__(text)
        self.status = status
