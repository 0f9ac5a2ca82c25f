"""Facts about the machine of a benchmark: a figure without its machine says little."""

from __future__ import annotations

import os
import platform
import sqlite3
from pathlib import Path
from typing import Any

MEMORY_FILESYSTEMS = frozenset(("tmpfs", "ramfs"))
"""Where an fsync costs nothing and a durable commit proves nothing."""


def machine_facts(directory: Path) -> dict[str, Any]:
    filesystem = filesystem_of(directory)
    return {
        "platform": platform.platform(),
        "processor": _processor(),
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "load_1_min": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "directory": str(directory),
        "filesystem": filesystem,
        "in_memory": filesystem in MEMORY_FILESYSTEMS,
    }


def filesystem_of(directory: Path) -> str:
    """Type of the file system that holds a directory; `unknown` where the system does not tell."""
    try:
        mounts = Path("/proc/mounts").read_text().splitlines()
    except OSError:
        return "unknown"
    place, best, found = directory.resolve(), -1, "unknown"
    for line in mounts:
        _, mount, kind, *_ = line.split()
        # The last line for a mount point is the one on top.
        if place.is_relative_to(mount) and len(mount) >= best:
            best, found = len(mount), kind
    return found


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"
