"""`backwarp dap`: an editor goes forth and back through a recorded run. A thread is a thread of the kernel, and time a moment of
the record.

Source: Debug Adapter Protocol 1.71.
"""
