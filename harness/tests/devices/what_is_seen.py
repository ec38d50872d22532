"""A confined process that says what it sees of the folder in which it was started."""

import json
import os

import numpy

from harness.devices.child import attach
from harness.devices.confine import confine, python_folders

connection = attach()
confine(python_folders())
try:
    os.listdir(".")
    readable = True
except OSError:
    readable = False
connection.send_bytes(json.dumps({"numpy": hasattr(numpy, "ndarray"), "folder": readable}).encode())
