"""Plants a fuse, or a broken function, in a new process: Python imports this module if its folder is on the path."""

import os
from importlib import import_module

from faults.fuse import plant

if "HEADWAY_FAULT_FUSE" in os.environ:
    length, _, once = os.environ["HEADWAY_FAULT_FUSE"].partition(":")
    plant(int(length), once=once)
if "HEADWAY_FAULT_PLANT" in os.environ:
    module, _, name = os.environ["HEADWAY_FAULT_PLANT"].partition(":")
    getattr(import_module(module), name)()
