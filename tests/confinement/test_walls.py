"""The second walls: native code in a helper process reaches nothing, and each wall alone stops its part.

Run with `-s` to see the table of which wall stops what.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from artelier.child import Child, HelperFailure
from artelier.confinement import WALLS, ConfinementPlan, landlock_abi, module_arguments, standing
from tests.repository.sources import ROOT

HOSTILE = "tests.confinement.hostile.__main__"
VARIABLE = "ARTELIER_SECRET_OF_TESTS"
CANARY = ctypes.create_string_buffer(b"canary!!")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the walls are those of Linux")

STOPS: dict[str, set[str]] = {
    "limits": {"map 8 GiB", "open 2,000 descriptors", "write a new file"},
    "namespaces": {
        "connect by TCP",
        "ask the kernel by netlink",
        "trace the server",
        "connect to an abstract socket",
        "read the server's memory by process_vm_readv",
        "read the server's memory by /proc",
        "read the server's environment",
        "go back to the host's namespaces",
    },
    "privileges": {"mount", "chroot"},
    "landlock": {
        "read /etc/passwd",
        "read a file of the user",
        "list a folder",
        "write a new file",
        "append to a file of the user",
        "make a folder",
        "make a link",
        "rename a file",
        "delete a file",
        "read the server's environment",
        "read the server's memory by /proc",
        "read the server's memory by process_vm_readv",
        "trace the server",
        "list the server's descriptors",
        "start a program",
        "become another program",
        *(("connect by TCP", "listen on TCP") if landlock_abi() >= 4 else ()),
        *(("connect to an abstract socket",) if landlock_abi() >= 6 else ()),
        *(("send the server a signal by kill",) if landlock_abi() >= 6 else ()),
    },
    "seccomp": {
        "write a new file",
        "append to a file of the user",
        "make a folder",
        "make a link",
        "rename a file",
        "delete a file",
        "read the server's memory by process_vm_readv",
        "trace the server",
        "take a descriptor of the server by pidfd",
        "fork",
        "start a program",
        "become another program",
        "send the server a signal by kill",
        "send the server a signal by tgkill",
        "have a pipe signal the server",
        "change the server's limits",
        "connect by TCP",
        "listen on TCP",
        "send by UDP",
        "connect to an abstract socket",
        "connect to a socket in a folder",
        "ask the kernel by netlink",
        "io_uring_setup",
        "userfaultfd",
        "bpf",
        "perf_event_open",
        "mount",
        "setns",
        "unshare",
        "keyctl",
        "open_by_handle_at",
        "chroot",
        "shmget",
        "kexec_load",
        "init_module",
        "process_madvise",
        "quotactl",
        "go back to the host's namespaces",
    },
}
"""What each wall stops alone, at the least."""

ALWAYS = {"find a descriptor of the server in this process", "find a key of the server in the environment"}
"""What a helper has not, because of how it is started."""


class Stage:
    """A server with secrets: files, a listening port, sockets, a variable and something in its memory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.secret = folder / "secret.txt"
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.abstract, self.unix = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
        self.name = f"artelier-test-{os.getpid()}-{folder.name}"
        self.abstract.bind("\0" + self.name)
        self.unix.bind(str(folder / "s"))
        for one in (self.abstract, self.unix):
            one.listen()

    def facts(self) -> dict[str, Any]:
        (self.folder / "program").write_bytes(b"\0 of no format")
        (self.folder / "program").chmod(0o755)
        for name in ("doomed", "spare"):
            (self.folder / name).write_text("x")
        self.secret.write_text("a secret of the user")
        for made in ("owned", "spare.x", "link"):
            (self.folder / made).unlink(missing_ok=True)
        if (self.folder / "made").exists():
            (self.folder / "made").rmdir()
        return {
            "server": os.getpid(),
            "address": ctypes.addressof(CANARY),
            "variable": VARIABLE,
            "secret": str(self.secret),
            "folder": str(self.folder),
            "spare": str(self.folder / "spare"),
            "doomed": str(self.folder / "doomed"),
            "port": self.tcp.getsockname()[1],
            "abstract": self.name,
            "program": str(self.folder / "program"),
            "socket": str(self.folder / "s"),
        }

    def close(self) -> None:
        for one in (self.tcp, self.abstract, self.unix):
            one.close()


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    monkeypatch.setenv(VARIABLE, "a key")
    found = Stage(tmp_path)
    inherited = os.open(_secret_of(found), os.O_RDONLY)
    os.set_inheritable(inherited, True)  # as a careless library of the server leaves one
    yield found
    os.close(inherited)
    found.close()


def _secret_of(stage: Stage) -> Path:
    stage.secret.write_text("a secret of the user")
    return stage.secret


def attack(stage: Stage, *walls: str) -> dict[str, list[Any]]:
    """What native code reaches behind these walls: `{attempt: [reached, what]}`."""
    command = [sys.executable, "-P", "-s", *module_arguments(ConfinementPlan(walls=walls), HOSTILE)]
    environ = {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    done = subprocess.run(
        command, input=json.dumps(stage.facts()) + "\n", capture_output=True, text=True, env=environ, cwd="/"
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def reached(found: dict[str, list[Any]]) -> set[str]:
    return {name for name, (was, _) in found.items() if was}


@cache
def missing() -> dict[str, str]:
    return {wall: why for wall, why in standing().items() if why}


def needs(*walls: str) -> None:
    if absent := {wall: missing()[wall] for wall in walls if wall in missing()}:
        pytest.skip(f"this machine lacks {absent}")


def test_without_walls_the_attempts_reach_what_they_try(stage: Stage) -> None:
    """Else the tests below would prove nothing."""
    found = reached(attack(stage))

    everywhere = STOPS["landlock"] | STOPS["limits"] | {"fork"}
    assert everywhere - found <= {
        # Only where the user may trace, which Yama may forbid.
        "trace the server",
        "read the server's memory by process_vm_readv",
        "read the server's memory by /proc",
    }
    assert {"connect by TCP", "send by UDP", "send the server a signal by kill", "setns"} <= found
    assert not found & ALWAYS
    if os.geteuid() == 0:
        assert STOPS["seccomp"] - found <= {"open_by_handle_at", "kexec_load", "init_module"}


@pytest.mark.parametrize("wall", WALLS)
def test_each_wall_alone_stops_its_part(stage: Stage, wall: str) -> None:
    needs(wall)

    found = reached(attack(stage, wall))

    assert found & (STOPS[wall] | ALWAYS) == set()


def test_behind_all_walls_native_code_reaches_nothing(stage: Stage) -> None:
    needs(*WALLS)

    found = attack(stage, *WALLS)

    assert reached(found) == set()
    assert stage.secret.read_text() == "a secret of the user"
    assert (stage.folder / "doomed").exists() and (stage.folder / "spare").exists()


def test_a_helper_process_is_started_behind_all_walls(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    needs(*WALLS)
    monkeypatch.syspath_prepend(str(ROOT))
    child = Child(module=HOSTILE)

    found = child.ask(stage.facts(), answer=dict[str, Any], timeout_s=60)

    child.close()
    assert not isinstance(found, HelperFailure)
    assert reached(found) == set()


def test_table_of_what_each_wall_stops(stage: Stage) -> None:
    """Each attempt is stopped by at least one wall; those that are, by which."""
    columns = [(), *((wall,) for wall in WALLS if wall not in missing()), WALLS]
    found = [attack(stage, *walls) for walls in columns]
    names = ["none", *(walls[0] for walls in columns[1:-1]), "all"]

    lines = [f"{'':50}" + "".join(f"{name:>12}" for name in names)]
    for attempt in found[0]:
        cells = ["reached" if one[attempt][0] else one[attempt][1] for one in found]
        lines.append(f"{attempt:50}" + "".join(f"{cell:>12}" for cell in cells))
    sys.stdout.write("\n" + "\n".join(lines) + "\n")

    if not missing():
        assert reached(found[-1]) == set()
