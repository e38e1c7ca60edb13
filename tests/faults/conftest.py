"""Trained toy runs for the short versions of the attacks."""

import pytest
from faults.forking import Commands
from faults.victims import Stage


@pytest.fixture(scope="session")
def stage(commands: Commands, tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return Stage(commands, tmp_path_factory.mktemp("stage"))
