"""Every test runs with shapes and types checked at each call of headway, and on one thread."""

import os

# Before torch is imported, and for every process that a test starts. Threads that wait for each other by counting take
# the cores from the other tests: a training on two threads beside other tests took three times its processor time.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["OMP_WAIT_POLICY"] = "passive"

import torch
from hypothesis import settings

from tests.typechecking import check_package

check_package("headway")

torch.set_num_threads(1)

# The same cases on every machine, and no time limit for one of them: a shared machine is slow at times.
settings.register_profile("headway", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("headway")
