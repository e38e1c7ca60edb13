"""`python -m headway.testing package.module:Task`: run the contract checks on a task, without pytest."""

import sys
import traceback

from headway.errors import InputError
from headway.tasks import TASKS
from headway.testing import TASK_CHECKS


def main(arguments: list[str]) -> int:
    """Exit code: 0 if every check passes, 1 if one fails, 2 if there is no such task."""
    if len(arguments) != 1:
        print("usage: python -m headway.testing package.module:Task", file=sys.stderr)
        return 2
    try:
        cls = TASKS.get(arguments[0])
        task = cls(cls.Options())
    except InputError as error:
        print(f"headway.testing: {error}", file=sys.stderr)
        return 2
    failed = 0
    for check in TASK_CHECKS:
        try:
            check(task)
        except Exception as problem:
            failed += 1
            line = traceback.extract_tb(problem.__traceback__)[-1]
            print(f"fails: {check.__name__.replace('_', ' ')}\n  {line.line}  {str(problem).strip()}")
    print(f"{task.name}: {len(TASK_CHECKS) - failed} of {len(TASK_CHECKS)} checks pass")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
