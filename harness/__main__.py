"""`backwarp`, and `python -m harness`."""

import signal


def main() -> None:
    # until all modules are loaded, Ctrl-C ends it at once and without a word
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    from .cli import main

    signal.signal(signal.SIGINT, before)
    main()


if __name__ == "__main__":
    main()
