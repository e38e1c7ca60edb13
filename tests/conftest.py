"""Every test runs with shapes and types checked at each call of headway, and on one thread."""

import torch
from hypothesis import settings
from jaxtyping import install_import_hook

import tests.typechecking  # noqa: F401  the hook below looks it up by name

install_import_hook("headway", "tests.typechecking.check")

torch.set_num_threads(1)

# The same cases on every machine, and no time limit for one of them: a shared machine is slow at times.
settings.register_profile("headway", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("headway")
