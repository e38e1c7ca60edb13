"""Every test runs with shapes and types checked at each call of headway, and on one thread."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Before torch is imported, and for every process that a test starts. Threads that wait for each other by counting take
# the cores from the other tests: a training on two threads beside other tests took three times its processor time.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["OMP_WAIT_POLICY"] = "passive"

import pytest
import torch
from faults.forking import Commands, forking
from hypothesis import settings

from tests.typechecking import check_package, test_number

check_package("headway")

torch.set_num_threads(1)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a script's background job ignores it

# The same cases on every machine, and no time limit for one of them: a shared machine is slow at times.
settings.register_profile("headway", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("headway")


SEED = int(os.environ.get("HEADWAY_TEST_SEED", "0"))
"""Of what tests draw without a seed of their own; no test may need a particular one."""


def pytest_runtest_setup() -> None:
    test_number[0] += 1
    torch.manual_seed(SEED)  # a test alone draws what it draws after others


@pytest.fixture(scope="session")
def commands() -> Iterator[Commands]:
    """Commands in forked processes that a test may kill."""
    with forking() as started:
        yield started


CHROMIUM = Path("/usr/bin/chromium")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A real browser. It ends with the module: a process can have one at a time, and its event loop disturbs others."""
    if not CHROMIUM.exists() and not os.environ.get("CI"):
        pytest.skip(f"no {CHROMIUM}: the page was not looked at in a browser")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield started
        started.close()
