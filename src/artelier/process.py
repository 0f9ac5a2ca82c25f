"""Names of processes in leases, and what one machine knows of its processes: who is gone, what time it is.

Wall clocks of two processes may differ (a clock of their own, a step of the machine's clock). The time since
the machine was started is the same for all its processes, so leases among them end by that.
"""

from __future__ import annotations

import errno
import os
import socket
import time
from functools import cache
from hashlib import sha256
from pathlib import Path

from artelier.ids import fresh_secret

_LIVE: set[str] = set()
"""Names that kernels of this process hold leases under, until they are closed."""


@cache
def _boot() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8]
        return f"{boot}.{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise  # it is there, and would be taken for another machine from here on
        return "-"


def _state(pid: int) -> tuple[str, str]:
    """Return the state of a process, and when it was started, so that a reused pid is not taken for the old
    process; "-" for both if that cannot be read, which says nothing of the process.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return fields[0], fields[19]
    except (OSError, IndexError):
        return "-", "-"


def _born(pid: int) -> str:
    return _state(pid)[1]


def holder() -> str:
    """Return a name for this process in leases, unique per kernel. Its kernel gives it up with `retire`."""
    pid = os.getpid()
    name = "|".join((socket.gethostname(), _boot(), str(pid), _born(pid), fresh_secret(6).hex()))
    _LIVE.add(name)
    return name


def retire(holder: str) -> None:
    """Declare a kernel of this process closed: it drives nothing any more, whatever leases say."""
    _LIVE.discard(holder)


def _local(holder: str) -> list[str] | None:
    """Return the parts of a holder's name if it is of this machine and its present boot."""
    parts = holder.partition("/")[0].split("|")
    is_local = len(parts) == 5 and parts[0] == socket.gethostname() and parts[1] == _boot()
    return parts if is_local else None


def uptime_us(holder: str) -> int | None:
    """Return the microseconds since this machine was started; None if the holder is of another one.

    Resolution: 10 ms. Read from /proc, which no library can present with a shifted clock.
    """
    parts = _local(holder)
    if parts is None or parts[1] == "-":
        return None
    try:
        return round(float(Path("/proc/uptime").read_text().split()[0]) * 1_000_000)
    except (OSError, ValueError, IndexError):
        return time.monotonic_ns() // 1000


def is_dead(holder: str) -> bool:
    """Return whether the holder is known to be gone: its process, or its kernel in this process.

    Of other machines nothing is known.
    """
    parts = _local(holder)
    if parts is None:
        return False
    pid = int(parts[2])
    if pid == os.getpid() and parts[3] == _born(pid):
        return holder.partition("/")[0] not in _LIVE
    return _is_over(pid, _number(parts[3]))


# Names of processes in events


def process_numbers(holder: str) -> tuple[int, ...]:
    """Return a holder as numbers: its machine, process, the process's start, and kernel.

    They stand in events for ever and travel in exports, so they tell nothing of a machine but that it is
    the same one.
    """
    host, boot, pid, born, kernel = holder.partition("/")[0].split("|")
    return (_machine(host, boot), int(pid), _number(born), int(kernel, 16))


@cache
def _machine(host: str, boot: str) -> int:
    return int.from_bytes(sha256(f"{host}|{boot}".encode()).digest()[:6], "big")


def _number(born: str) -> int:
    return int(born) if born.isdecimal() else 0


def is_own(process: tuple[int, ...]) -> bool:
    """Return whether the numbers are those of a kernel of this process, open or closed."""
    pid = os.getpid()
    return process[:3] == (_machine(socket.gethostname(), _boot()), pid, _number(_born(pid)))


def has_ended(process: tuple[int, ...]) -> bool:
    """Return whether a process is known to have ended. Of other machines and boots nothing is known."""
    if len(process) != 4 or process[0] != _machine(socket.gethostname(), _boot()):
        return False
    _, pid, born, _ = process
    return _is_over(pid, born)


# Processes of this machine


def _is_over(pid: int, born: int) -> bool:
    """Return whether the process of this id and start is known to have ended, also as a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    state, started = _state(pid)
    is_another = born > 0 and started.isdecimal() and int(started) != born
    return is_another or (state in "ZX" and _has_one_thread(pid))


def _has_one_thread(pid: int) -> bool:
    """Return whether nothing of a zombie is left but its entry, which its parent has not taken away yet."""
    try:
        return len(os.listdir(f"/proc/{pid}/task")) <= 1
    except OSError:
        return False
