"""`artelier up` as people start it: a process, its link, Ctrl-C, and what is there after a restart."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from artelier.app import Kernel
from artelier.cli.call import name_of
from artelier.server.http_server import bind
from tests.cli.conftest import Shell, shell
from tests.processes import PATIENCE_S, WarmPython, killed_at_last
from tests.server.house import asking

__all__ = ["shell"]


@contextmanager
def up(
    folder: Path, *words: str, environ: Mapping[str, str] | None = None
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server of its own process; its link."""
    command = [sys.executable, "-m", "artelier", "up", "--port", "0", "--json", *words]
    own = {name: value for name, value in os.environ.items() if not name.startswith("ARTELIER")}
    process = WarmPython(
        command,
        cwd=folder,
        env={**own, **(environ or {})},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with killed_at_last(process):
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate(timeout=PATIENCE_S)[1]
        yield process, json.loads(line)["url"]


def ended(process: subprocess.Popen[str], how: signal.Signals = signal.SIGINT) -> str:
    """What it says when it is told to end."""
    process.send_signal(how)
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, said
    return said


@pytest.mark.slow
def test_a_link_opens_the_server_and_the_session_is_there_after_a_restart(tmp_path: Path) -> None:
    async def ask() -> None:
        with Kernel.open(tmp_path / ".artelier/state.db", environ={}) as kernel:
            await asking(kernel, "m1/mail")

    with up(tmp_path) as (process, link), httpx.Client(timeout=PATIENCE_S) as client:
        address = link.partition("/?")[0]
        assert client.get(link).status_code in (303, 503)
        me = client.get(f"{address}/api/v1/me").json()
        assert me["actor"] == "operator"
        asyncio.run(ask())  # another process's work is seen
        approvals = client.get(f"{address}/api/v1/approvals").json()["items"]
        assert [one["run_id"] for one in approvals] == ["m1/mail"]
        cookies = dict(client.cookies.items())
        said = ended(process)
        assert f"head {_head(tmp_path)}" in said
        assert "Traceback" not in said

    secret = tmp_path / ".artelier/state.db.sessions"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    with up(tmp_path) as (process, link), httpx.Client(timeout=PATIENCE_S) as client:
        address = link.partition("/?")[0]
        header = {"Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items())}
        me = client.get(f"{address}/api/v1/me", headers=header).json()
        header["X-CSRF-Token"] = me["csrf_token"]
        given = client.post(f"{address}/api/v1/runs/m1%2Fmail/approve", json={}, headers=header)
        assert given.json()["effect"] == "approval.given"
        ended(process, signal.SIGTERM)


def _head(folder: Path) -> str:
    async def read(kernel: Kernel) -> str:
        return await kernel.head()

    with Kernel.open(folder / ".artelier/state.db", environ={}) as kernel:
        return asyncio.run(read(kernel))


@pytest.mark.slow
def test_a_goal_whose_mission_has_ended_is_said_not_to_go_on(tmp_path: Path) -> None:
    goal = "Write a report about the trip to Rome."

    async def plan() -> str:
        (tmp_path / ".artelier").mkdir()
        with Kernel.open(tmp_path / ".artelier/state.db", environ={}) as kernel:
            desk = kernel.for_tenant()
            await desk.plan(goal, mission_id=name_of(goal), model="offline")  # there is nothing to read
            return (await desk.show(name_of(goal)))["status"]

    assert asyncio.run(plan()) == "failed"
    with up(tmp_path, "--goal", goal) as (process, link), httpx.Client(timeout=PATIENCE_S) as client:
        client.get(link)  # it serves
        said = ended(process)

    assert f"mission {name_of(goal)} had this goal and is failed (" in said
    assert "goes on" not in said


@pytest.mark.slow
def test_an_open_stream_does_not_hold_up_the_end(tmp_path: Path) -> None:
    with up(tmp_path, "--no-worker") as (process, link), httpx.Client(timeout=PATIENCE_S) as client:
        client.get(link)
        address = link.partition("/?")[0]
        with client.stream("GET", f"{address}/api/v1/events/stream") as answer:
            pieces = answer.iter_text()
            assert "retry" in next(pieces)
            said = ended(process)
        assert "Traceback" not in said and "graceful" not in said


@pytest.mark.slow
def test_enter_prints_another_link_and_each_works_once(tmp_path: Path) -> None:
    master, terminal = pty.openpty()
    process = WarmPython(
        [sys.executable, "-m", "artelier", "up", "--port", "0"],
        cwd=tmp_path,
        text=True,
        stdin=terminal,
        stderr=terminal,
        stdout=subprocess.PIPE,
    )
    with killed_at_last(process), httpx.Client(timeout=PATIENCE_S) as client:
        assert process.stdout is not None
        first = process.stdout.readline().strip()
        address = first.partition("/?")[0]
        assert client.get(f"{address}/api/v1/me").status_code == 401  # it serves, so it listens
        os.write(master, b"\n")
        second = process.stdout.readline().strip()
        assert second != first and second.startswith(address)
        for link in (first, second):
            with httpx.Client(timeout=PATIENCE_S) as browser:
                assert browser.get(link).status_code == 303
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0
    os.close(terminal)
    os.close(master)


INTERRUPTED_AT = """
import os, runpy, signal, sys

how, when = signal.Signals[sys.argv.pop(1)], sys.argv.pop(1)
left = [how]

def seen(event, told):
    if event in ("import", "open", "sqlite3.connect", "socket.bind") and left:
        if when in f"{event} {told[0]}":
            os.kill(os.getpid(), left.pop())

sys.addaudithook(seen)
runpy.run_module("artelier", run_name="__main__", alter_sys=True)
"""
"""Runs the command line, which gets a signal as it imports or opens something."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "when"),
    [
        ("SIGINT", "import artelier.errors"),
        ("SIGINT", "import typer"),
        ("SIGTERM", "import artelier.app"),
        ("SIGINT", "socket.bind"),
        ("SIGTERM", "sqlite3.connect"),
        ("SIGINT", "state.db.sessions"),
    ],
)
def test_a_signal_before_it_serves_ends_it_quietly(tmp_path: Path, how: str, when: str) -> None:
    command = [sys.executable, "-c", INTERRUPTED_AT, how, when, "up", "--port", "0"]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        text=True,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with killed_at_last(process):
        _, said = process.communicate(timeout=PATIENCE_S)

    assert (process.returncode, "Traceback" in said) == (130, False), said
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)  # no child outlives it


def test_a_port_that_is_taken_is_named(shell: Shell) -> None:
    taken = bind("127.0.0.1", 0)
    port = taken.getsockname()[1]

    ran = shell("up", "--port", str(port), "--json")

    taken.close()
    assert (ran.code, ran.error["code"]) == (2, "invalid_config")
    assert str(port) in ran.error["message"]


@pytest.mark.parametrize("words", [("--host", "0.0.0.0"), ("--host", "nobody.invalid")])
def test_others_do_not_reach_a_server_without_users(shell: Shell, words: tuple[str, ...]) -> None:
    ran = shell("up", *words, "--json")

    assert (ran.code, ran.error["code"]) == (2, "invalid_config")
    assert "--auth" in ran.error["expected"]


def test_a_server_with_users_replaces_personal_data_and_needs_the_key(shell: Shell) -> None:
    from artelier.server.security.users import token_hash

    shell.write(
        "users.toml",
        '[[users]]\nname = "ada"\nrole = "admin"\ntenants = ["default"]\n'
        f'tokens = ["{token_hash("a token")}"]\n',
    )

    ran = shell("up", "--port", "0", "--auth", "users.toml", "--json")

    assert (ran.code, ran.error["code"]) == (2, "invalid_config")
    assert "ARTELIER_VAULT_KEY" in str(ran.error)
    assert not list(shell.folder.rglob("*.db"))


@pytest.mark.slow
def test_a_server_with_users_and_a_key_keeps_no_value(tmp_path: Path) -> None:
    from artelier.server.security.users import token_hash

    (tmp_path / "users.toml").write_text(
        '[[users]]\nname = "ada"\nrole = "admin"\ntenants = ["default"]\n'
        f'tokens = ["{token_hash("a token")}"]\n'
    )
    environ = {"ARTELIER_VAULT_KEY": "a vault key for tests"}
    with up(tmp_path, "--auth", "users.toml", environ=environ) as (process, link):
        with httpx.Client(timeout=PATIENCE_S) as client:
            client.headers["Authorization"] = "Bearer a token"
            made = client.post(
                f"{link}api/v1/artifacts",
                json={"id": "memo", "kind": "document", "content": "call ana.lopez@example.org"},
            )
            assert made.status_code == 201, made.text
        ended(process)

    held = b"".join(file.read_bytes() for file in tmp_path.rglob("state.db*"))
    assert held and b"ana.lopez" not in held


ACME = '[[users]]\nname = "ada"\nrole = "admin"\ntenants = ["acme"]\n'


@pytest.mark.slow
def test_a_server_with_users_serves_their_tenant_and_makes_no_other(tmp_path: Path) -> None:
    from artelier.server.security.users import token_hash

    (tmp_path / "users.toml").write_text(f'{ACME}tokens = ["{token_hash("a token")}"]\n')
    environ = {"ARTELIER_VAULT_KEY": "a vault key for tests"}
    words = ("--auth", "users.toml", "--no-worker", "--goal", "Which region sold most?")
    with up(tmp_path, *words, environ=environ) as (process, link):
        headers = {"Authorization": "Bearer a token"}
        me = httpx.get(f"{link}api/v1/me", headers=headers, timeout=PATIENCE_S)
        assert me.status_code == 200, me.text
        said = ended(process)

    async def tenants() -> list[str]:
        with Kernel.open(tmp_path / ".artelier/state.db", environ=environ) as kernel:
            return [one["id"] for one in await kernel.tenants.list()]

    assert "; tenant acme; drives no runs" in said
    assert "default" not in said
    assert asyncio.run(tenants()) == ["acme"]


def test_a_tenant_that_no_user_may_open_is_not_served(shell: Shell) -> None:
    from artelier.server.security.users import token_hash

    shell.write("users.toml", f'{ACME}tokens = ["{token_hash("a token")}"]\n')

    ran = shell("up", "--port", "0", "--auth", "users.toml", "--tenant", "beta", "--json")

    assert (ran.code, ran.error["expected"], ran.error["got"]) == (2, "acme", "beta")


def test_hashes_for_the_file_of_users_are_printed(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    monkeypatch.setattr(sys, "stdin", io.StringIO("correct horse\n"))
    line = shell("up", "--hash-password").out
    token, of_token = shell("up", "--new-token").out.splitlines()
    shell.write(
        "users.toml", f'[[users]]\nname = "ada"\nrole = "admin"\ntenants = ["default"]\n{line}{of_token}\n'
    )

    from artelier.server.security.users import Users

    users = Users.load(shell.folder / "users.toml")
    assert users.with_password("ada", "correct horse") is not None
    assert users.with_token(token) is not None


def test_doctor_says_what_is_there_and_shows_no_key(shell: Shell) -> None:
    shell.set("OPENAI_API_KEY", "sk-canary")

    ran = shell("doctor", "--port", "0", "--json")

    found: dict[str, dict[str, Any]] = {one["what"]: one for one in ran.json["findings"]}
    assert (ran.code, ran.json["ok"]) == (0, True)
    assert set(found) == {
        "python",
        "database",
        "vault key",
        "personal data",
        "disk",
        "model",
        "keys",
        "models",
        "rates",
        "approvals",
        "http_json",
        "sandbox",
        "confinement",
        "web",
        "port",
        "plugin",
    }
    assert found["keys"]["said"] == "OPENAI_API_KEY"
    assert "sk-canary" not in ran.out + ran.err


def test_doctor_fails_where_the_database_or_the_model_cannot_be_used(shell: Shell) -> None:
    shell.write("broken/state.db", "this is no database, but long enough to be looked at" * 50)
    broken = shell("doctor", "--port", "0", "--db", "broken/state.db", "--json")
    shell.set("ARTELIER_MODEL", "openai:gpt-5")
    keyless = shell("doctor", "--port", "0", "--json")

    for ran, what in ((broken, "database"), (keyless, "model")):
        wrong = [one["what"] for one in ran.json["findings"] if one["status"] == "wrong"]
        assert (ran.code, wrong) == (1, [what])
