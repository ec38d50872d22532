"""A child process that does what its second argument says, and ignores requests."""

import os
import struct
import subprocess
import sys
import time

from backwarp.devices.child import attach
from backwarp.devices.virtual.answers import CODEC

HOW = sys.argv[2]
channel = attach(CODEC)
connection = channel._connection
if HOW != "silent":
    channel.receive()
if HOW == "half a length":
    connection.sendall(b"\0\0\0")
elif HOW == "half a message":
    connection.sendall(struct.pack("=Q", 1000) + b"x" * 999)
elif HOW == "a drop at a time":
    connection.sendall(struct.pack("=Q", 1000))
    while True:
        connection.sendall(b"x")
        time.sleep(0.01)
elif HOW == "a promise of an exabyte":
    connection.sendall(struct.pack("=Q", 1 << 60))
elif HOW == "a gigabyte":
    connection.sendall(struct.pack("=Q", 1 << 30) + bytes(1 << 20))
elif HOW == "noise":
    connection.sendall(struct.pack("=Q", 40) + os.urandom(40))
elif HOW == "words":
    os.write(2, b"x" * (1 << 24))
elif HOW == "questions":
    while True:
        channel.send("ask", "more", ())
        channel.receive()
elif HOW == "another question":
    channel.send("ask", "__class__", ())
elif HOW == "children":
    pids = [subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid for _ in range(3)]
    channel.send("ok", pids)
elif HOW == "memory":
    held = [bytes(1) * (1 << 20) for _ in range(300)]
    for part in held:
        bytearray(part)
elif HOW == "holds memory":
    held = bytearray(150 << 20)
    channel.send("ok", len(held))
elif HOW == "time":
    while True:
        pass
time.sleep(600)
