"""Which process holds a lease: enough to see on the same machine that it is gone."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from artelier.ids import fresh_secret


def _boot() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8]
        return f"{boot}.{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return "-"


def _born(pid: int) -> str:
    """When a process was started, so that a reused pid is not taken for the old process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
    except (OSError, IndexError):
        return "-"


def holder() -> str:
    """A name for this process in leases, unique per kernel."""
    pid = os.getpid()
    return "|".join((socket.gethostname(), _boot(), str(pid), _born(pid), fresh_secret(6).hex()))


def is_dead(holder: str) -> bool:
    """Whether the process of a holder on this machine is gone; unknown for other machines."""
    parts = holder.partition("/")[0].split("|")
    if len(parts) != 5 or parts[0] != socket.gethostname() or parts[1] != _boot():
        return False
    pid = int(parts[2])
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return _born(pid) != parts[3]
