"""Modules of PTX, and kernels."""

import os
import sys

from backwarp.errors import KernelFault
from tests.fakes.streams import queued

from ._machine import ERRORS, ILLEGAL, CUDARuntimeError, device, pending
from .runtime import tick


class Module:
    def load(self, ptx):
        self.module = device.load_ptx(ptx.decode())

    def get_function(self, name):
        return Function(self.module.get_function(name))

    def get_global_var(self, name):
        return self.module.variables_owner.start + self.module.lowered.variables[name][0]


class Function:
    def __init__(self, kernel):
        self.ptr, self.kernel = kernel, kernel

    @queued
    def __call__(self, grid, block, args, shared_mem=0, enable_cooperative_groups=False):
        tick()
        try:
            launch = self.kernel(grid, block, args, shared_mem)
        except KernelFault as fault:
            pending.append(CUDARuntimeError(*ERRORS.get(fault.kind, ILLEGAL)))
            if fault.kind == "assert":
                told = (
                    f"kernel.cu:{fault.line}: void k(): block: [0,0,0], thread: [0,0,0] {fault.headline}.\n"
                )
                os.write(2, told.encode())
            return
        sys.stdout.write(launch.stdout + "and more\n" * launch.stdout_dropped)
        sys.stdout.flush()
