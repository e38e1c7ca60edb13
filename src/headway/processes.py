"""For processes that another one started."""

import functools
import os
import threading
import time

GLANCE = 0.2
"""Seconds between looks at whether the parent is still there."""


@functools.cache
def end_with_parent() -> None:
    """From now on this process ends when the one that started it does, killed or not: nobody waits for its work."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(GLANCE)
        os._exit(3)

    threading.Thread(target=watch, daemon=True).start()
