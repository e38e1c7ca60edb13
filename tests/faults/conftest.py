"""Trained toy runs for the short versions of the attacks."""

import pytest
from faults.forking import Commands
from faults.victims import Stage

from tests.sweeps.conftest import small_disk  # noqa: F401  a test that needs root is skipped without it


@pytest.fixture(scope="session")
def stage(commands: Commands, tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return Stage(commands, tmp_path_factory.mktemp("stage"))
