"""What a program asks, in the order of the numbers that host/shim.cpp uses, and the layout of its messages."""

from __future__ import annotations

import struct

VERBS = """
    HELLO BYE STOPPED SAID REFUSED LAUNCH MALLOC FREE COPY COPIED FILL SYMBOL NO_SYMBOL POINTER MEMORY
    STREAM STREAM_END STREAM_WAITS EVENT EVENT_END RECORD QUERY_STREAM QUERY_EVENT WAIT_STREAM WAIT_EVENT WAIT_ALL ELAPSED RESET
    ATTRIBUTE FUNCTION NO_DEVICE LIBRARY OVERRUN RECORDING ARRAY ARRAY_INFO ARRAY_PART IMAGE IMAGE_END
""".split()
FRAMES, WORDS, ANSWERS = 12, 10, 5
REQUEST = struct.Struct(f"=II{FRAMES}Q{WORDS}Q")
REPLY = struct.Struct(f"=iIII{ANSWERS}Q")
CHANGE = struct.Struct("=QQQ")
MOST = 1 << 20  # bytes that come with a request
