"""What holds where a wall is missing, required, or switched off; and that a server hides its memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from artelier.confinement import WALLS, standing
from tests.repository.sources import ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the walls are those of Linux")

WITHOUT_LANDLOCK = """
import ctypes, errno, struct
# A kernel without Landlock, for this process and what it starts: its first call is not known.
rules = [(0x20, 0, 0, 0), (0x15, 0, 1, 444), (0x06, 0, 0, 0x50000 | errno.ENOSYS), (0x06, 0, 0, 0x7FFF0000)]
code = b"".join(struct.pack("=HBBI", *one) for one in rules)
class Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(Program(len(rules), code)), 0, 0) == 0
"""
ASK = """
import asyncio, json
from artelier.child import Child
from artelier.confinement import standing
from artelier.errors import ArtelierError
from artelier.sandbox import MontySandbox
found = {"walls": standing()}
try:
    child = Child()
    asked = {"ask": "match", "pattern": "a", "text": "a", "hits_max": 1}
    found["child"] = child.ask(asked, answer=dict, timeout_s=30)["hits"]
    child.close()
except ArtelierError as error:
    found["child"] = f"{error.code}: {error}"
async def run():
    sandbox = MontySandbox()
    try:
        return (await sandbox.run("6 * 7")).value
    finally:
        await sandbox.close()
try:
    found["code"] = asyncio.run(run())
except ArtelierError as error:
    found["code"] = f"{error.reason}: {error}"
print(json.dumps(found))
"""


def python(code: str, **variables: str) -> Any:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), **variables}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environ)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_without_a_wall_everything_works_and_the_wall_is_named() -> None:
    found = python(WITHOUT_LANDLOCK + ASK)

    assert "no Landlock" in found["walls"]["landlock"]
    assert (found["child"], found["code"]) == ([[1, "a", 1]], 42)


def test_where_walls_are_required_and_one_is_missing_nothing_untrusted_is_run() -> None:
    found = python(WITHOUT_LANDLOCK + ASK, ARTELIER_CONFINEMENT="required")

    assert found["child"].startswith("tool_failed: ")
    for refused in (found["child"], found["code"]):
        assert "no landlock: the kernel has no Landlock" in refused
        assert "artelier doctor" in refused


def test_where_walls_are_required_and_stand_all_works() -> None:
    if missing := {wall: why for wall, why in standing().items() if why}:
        pytest.skip(f"this machine lacks {missing}")

    found = python(ASK, ARTELIER_CONFINEMENT="required")

    assert (found["child"], found["code"]) == ([[1, "a", 1]], 42)


def test_an_unknown_mode_is_an_error_that_names_the_variable() -> None:
    with pytest.raises(AssertionError, match="ARTELIER_CONFINEMENT"):
        python(ASK, ARTELIER_CONFINEMENT="perhaps")


def test_walls_can_be_switched_off() -> None:
    found = python(ASK, ARTELIER_CONFINEMENT="off")

    assert (found["child"], found["code"]) == ([[1, "a", 1]], 42)


WORKERS = """
import asyncio, json, pathlib
from artelier.sandbox import MontySandbox
async def run():
    sandbox = MontySandbox()
    await sandbox.run("1")
    found = []
    for task in pathlib.Path("/proc/self/task").iterdir():
        for pid in (task / "children").read_text().split():
            at = pathlib.Path("/proc") / pid
            status = dict(line.split(":", 1) for line in (at / "status").read_text().splitlines())
            found.append({
                "name": status["Name"].strip(), "seccomp": status["Seccomp"].strip(),
                "privileges": status["NoNewPrivs"].strip(), "capabilities": int(status["CapEff"], 16),
                "environ": (at / "environ").read_text(),
                "descriptors": sorted(one.name for one in (at / "fd").iterdir()),
            })
    await sandbox.close()
    return found
print(json.dumps(asyncio.run(run())))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may look into a confined process")
def test_the_interpreter_runs_behind_the_walls_with_nothing_of_the_server() -> None:
    if missing := {wall: why for wall, why in standing().items() if why}:
        pytest.skip(f"this machine lacks {missing}")

    found = python(WORKERS, ARTELIER_SECRET_OF_TESTS="a key")

    assert [one["name"] for one in found] == ["monty"]
    for one in found:
        assert (one["seccomp"], one["privileges"], one["capabilities"]) == ("2", "1", 0)
        assert one["environ"] == ""
        assert one["descriptors"] == ["0", "1", "2"]


SERVER = """
import json, os, subprocess, sys
from artelier.confinement import ConfinementPlan, confine, hide_memory, module_arguments
# As a user that may not do everything, so that root's rights do not answer instead.
confine(ConfinementPlan(walls=("privileges",)))
if {hidden}:
    assert hide_memory()
code = '''
import os, sys
for what in ("environ", "mem"):
    try:
        open("/proc/" + sys.argv[1] + "/" + what, "rb").close()
        print(what)
    except OSError:
        pass
'''
done = subprocess.run([sys.executable, "-c", code, str(os.getpid())], capture_output=True, text=True)
print(json.dumps(done.stdout.split()))
"""


def test_a_server_that_hides_its_memory_is_not_read_by_its_own_user() -> None:
    assert python(SERVER.format(hidden=False)) == ["environ", "mem"]
    assert python(SERVER.format(hidden=True)) == []


def test_commands_hide_their_memory(tmp_path: Path) -> None:
    """A process of the command line holds keys, whatever it does."""
    code = (
        "import ctypes, sys\n"
        "sys.argv = ['artelier', 'doctor', '--settings', '--json']\n"
        "from artelier.cli import main\n"
        "main()\n"
        "print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)

    assert done.stdout.strip().splitlines()[-1] == "0"


DOCTOR = """
import sys
sys.argv = ['artelier', 'doctor', '--port', '0', '--db', 'none.db', '--json']
from artelier.cli import main
main()
"""


def test_doctor_says_which_walls_stand() -> None:
    told = python(DOCTOR)

    walls = {one["wall"]: one for one in told["walls"]}
    assert list(walls) == list(WALLS)
    assert {wall: one["why"] for wall, one in walls.items()} == standing()
    assert all(one["stands"] == (not one["why"]) for one in walls.values())
    [found] = [one for one in told["findings"] if one["what"] == "confinement"]
    assert found["status"] == ("note" if any(standing().values()) else "ok")
    assert all(wall in found["said"] for wall in WALLS)


def test_doctor_fails_where_required_walls_are_missing() -> None:
    found = python(WITHOUT_LANDLOCK + DOCTOR, ARTELIER_CONFINEMENT="required")

    [said] = [one for one in found["findings"] if one["what"] == "confinement"]
    assert said["status"] == "wrong" and "no landlock" in said["said"]
    assert not found["ok"]
