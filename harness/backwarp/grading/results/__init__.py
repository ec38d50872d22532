"""A wrong result that is the right one, changed: naming.py compares it with what declared mistakes write (wrong_kernels.py), and with
a few changes that fit any kernel."""
