"""Plants a fuse in a worker process: Python imports this module at its start if its folder is on the module path."""

import os

from faults.fuse import plant

if "HEADWAY_FAULT_FUSE" in os.environ:
    length, _, once = os.environ["HEADWAY_FAULT_FUSE"].partition(":")
    plant(int(length), once=once)
