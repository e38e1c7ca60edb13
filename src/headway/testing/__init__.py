"""The contract of a task, as checks that other packages can run.

    import pytest
    from headway.testing import TASK_CHECKS
    from my_package.tasks import Reverse

    @pytest.mark.parametrize("check", TASK_CHECKS, ids=lambda check: check.__name__)
    def test_the_contract(check):
        check(Reverse(Reverse.Options()))

Each check takes a task and raises `AssertionError`; its name states the requirement.
"""

from headway.testing import examples, shown, tokens
from headway.testing.material import TASK_CHECKS, Check

__all__ = ["TASK_CHECKS", "Check", "examples", "shown", "tokens"]
