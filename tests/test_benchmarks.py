"""`make bench` at toy size: it runs, prints a ratio for each comparison, and writes nothing."""

import re
import subprocess
import sys
from pathlib import Path

import headway

ROOT = Path(headway.__file__).parents[2]


def test_the_benchmark_prints_its_ratios(tmp_path: Path) -> None:
    program = [sys.executable, str(ROOT / "benchmarks" / "throughput.py"), "--seconds", "0.01", "--repeats", "1"]
    printed = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    rows = re.findall(r"^(training|scoring): .+? +(\d+\.\d\d) ", printed, re.MULTILINE)
    assert [name for name, _ in rows] == ["training", "scoring", "scoring"]
    assert list(tmp_path.iterdir()) == []
