"""`backwarp`, and `python -m backwarp`."""

import signal
import sys

from .system import elsewhere


def main() -> None:
    if says := elsewhere():
        print(says, file=sys.stderr)
        sys.exit(2)
    # while modules are still loading, Ctrl-C ends the process at once and silently
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    again = sys.argv[1:2] == ["grade"]
    if again:
        from . import resident  # no other verb needs sockets

        again = resident.wanted(sys.argv[1:])
    if again and (status := resident.run(sys.argv[1:])) is not None:
        sys.exit(status)
    from .cli import main

    signal.signal(signal.SIGINT, before)
    try:
        main()
    finally:
        if again:
            resident.start()


if __name__ == "__main__":
    main()
