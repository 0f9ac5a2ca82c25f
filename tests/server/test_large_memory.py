"""Memory of large content goes back to the system: what a process holds is not what it once held."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import sys
from pathlib import Path
from artelier.garbage import give_large_back

def held_mb():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20

if sys.argv[1] == "give":
    give_large_back()
before, small = held_mb(), []
for size_mb in (31, 30, 29, 28):
    large = [bytes(size_mb * 2**20) for _ in range(4)]
    small.append([bytes(2_000) for _ in range(100)])  # it stands behind them
    del large
print(round(held_mb() - before))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a matter of glibc")
def test_freed_memory_of_large_content_goes_back() -> None:
    held = {}
    for how in ("keep", "give"):
        told = subprocess.run(
            [sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=True
        )
        held[how] = int(told.stdout)

    assert held["give"] < 20 < held["keep"]
