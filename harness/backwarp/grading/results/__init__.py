"""A wrong result that is the right one, changed: naming.py compares it with what declared mistakes write (wrong_kernels.py), and with
a few changes that fit any kernel; other_inputs.py with what the right kernel computes from other inputs."""
