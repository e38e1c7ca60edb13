"""Which machine this is, as a file's name; and what else decided the numbers."""

import os
import platform
import re
from pathlib import Path
from typing import Any

import torch

from headway.training.preparation import describe_environment

CPU_INFORMATION = Path("/proc/cpuinfo")


def machine_name(device: torch.device) -> str:
    """`nvidia-h200`, or `amd-epyc-2-cores`."""
    if device.type == "cuda":
        return as_file_name(torch.cuda.get_device_name())
    return as_file_name(f"{processor()} {len(os.sched_getaffinity(0))} cores")


def as_file_name(text: str) -> str:
    """Small letters, digits and single hyphens: `AMD EPYC(tm) 9R14` is `amd-epyc-tm-9r14`."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def processor() -> str:
    """The processor's name as Linux tells it, else its kind."""
    if CPU_INFORMATION.exists():
        names = re.findall(r"^model name\s*:\s*(.+)$", CPU_INFORMATION.read_text(), re.MULTILINE)
        if names:
            return names[0]
    return platform.machine()


def circumstances(device: torch.device, command: list[str], commit: str | None) -> dict[str, Any]:
    """Versions, commit, device, threads and command; a `commit` that is told counts more than what git finds."""
    found = describe_environment(device, 0, command)
    del found["seed"]
    return {**found, "processor": processor(), "commit": f"{commit}, as told" if commit else found["commit"]}
