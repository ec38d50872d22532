"""`backwarp`, and `python -m harness`."""

import signal


def main() -> None:
    before = signal.signal(
        signal.SIGINT, signal.SIG_DFL
    )  # Ctrl-C ends it at once until all modules are loaded
    from .cli import main

    signal.signal(signal.SIGINT, before)
    main()


if __name__ == "__main__":
    main()
