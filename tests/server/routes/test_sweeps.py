"""`/sweeps`: real processes that pass real worlds, are stopped, killed and resumed; bounds and tenants."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from artelier.server import sweep_process, sweeps
from artelier.server.sweeps import AGENTS_MAX, KEPT_MAX, POINTS_MAX, WORLD_BYTES_MAX
from tests.processes import PATIENCE_S, WarmPython, children, killed_at_last, run_warm
from tests.server.routes.served import good, play, refused, serving
from tests.server.test_up import ended, up

RULES: dict[str, Any] = {
    "world": {"seed": 7, "start_balance": 50},
    "settle": False,
    "agents": [{"id": "idle_{n}", "count": 3, "policy": "nobody"}],
}
"""A world whose agents do nothing, so that ticks are cheap."""

SMALL: dict[str, Any] = {"world": RULES, "params": {"agents": [2, 3]}, "seeds": 2, "ticks": 3}
LONG: dict[str, Any] = {"world": RULES, "ticks": 10_000, "processes": 1}
"""One that nobody waits for."""

USERS = (
    ("ada", "operator", "default"),
    ("bob", "operator", "default"),
    ("cat", "operator", "default"),
    ("vic", "viewer", "default"),
    ("eve", "operator", "other"),
    ("fay", "operator", "third"),
    ("gus", "operator", "third"),
)


def sweeping(folder: Path, **settings: Any) -> Any:
    return serving(folder, sweeps_folder=folder / "sweeps", users=USERS, **settings)


async def _until(client: httpx.AsyncClient, id: str, holds: Callable[[Any], bool]) -> dict[str, Any]:
    """Ask until something holds; the scenario's own bound ends it."""
    while not holds(found := good(await client.get(f"/sweeps/{id}"))):
        await asyncio.sleep(0.05)
    return found


async def _at_work(before: set[int]) -> set[int]:
    """The processes of a sweep, once there are some."""
    while not (found := children() - before):
        await asyncio.sleep(0.02)
    return found


async def _done(client: httpx.AsyncClient, body: dict[str, Any]) -> dict[str, Any]:
    begun = good(await client.post("/sweeps", json=body), 202)
    return await _until(client, begun["id"], lambda one: one["status"] != "working")


def rows_of(answer: httpx.Response) -> list[dict[str, str]]:
    assert answer.status_code == 200, answer.text
    return list(csv.DictReader(io.StringIO(answer.text)))


def swept_by_command(folder: Path, body: dict[str, Any]) -> bytes:
    """The table that the command line makes of the same."""
    from artelier.world.genesis import read_world_text

    folder.mkdir()
    text = 'settle = false\n[world]\nseed = 7\nstart_balance = 50\n[[agents]]\nid = "idle_{n}"\ncount = 3\n'
    text += 'policy = "nobody"\n'
    (folder / "w.toml").write_text(text)
    assert read_world_text(text) == RULES
    words = [f"--param={name}={','.join(map(str, values))}" for name, values in body["params"].items()]
    words += ["--seeds", str(body["seeds"]), "--ticks", str(body["ticks"]), "--out", "r.csv"]
    command = [sys.executable, "-m", "artelier", "world", "sweep", "w.toml", *words]
    run_warm(command, cwd=folder, check=True, timeout=PATIENCE_S, capture_output=True)
    return (folder / "r.csv").read_bytes()


def test_a_sweep_gives_the_table_of_the_command_line(tmp_path: Path) -> None:
    async def scenario() -> bytes:
        async with sweeping(tmp_path) as served:
            begun = good(await served.ada.post("/sweeps", json=SMALL), 202)
            assert (begun["status"], begun["runs"], begun["by"]) == ("working", 4, "user:ada")
            assert begun["turns"] == (2 + 3) * 2 * 3
            assert begun["limits"]["points_max"] == POINTS_MAX
            ended = await _until(served.ada, begun["id"], lambda one: one["status"] != "working")
            assert (ended["status"], ended["done"], ended["failed"]) == ("done", 4, None), ended
            assert not list((tmp_path / "sweeps").rglob("state.db*"))
            listed = good(await served.ada.get("/sweeps"))
            assert [one["id"] for one in listed["items"]] == [begun["id"]] and listed["limits"]
            parquet = await served.ada.get(f"/sweeps/{begun['id']}/table", params={"format": "parquet"})
            assert parquet.content[:4] == b"PAR1"
            table = await served.ada.get(f"/sweeps/{begun['id']}/table")
            refused(await served.ada.post(f"/sweeps/{begun['id']}/resume", json={}), 409, "conflict")
            assert (await served.ada.delete(f"/sweeps/{begun['id']}")).status_code == 204
            refused(await served.ada.get(f"/sweeps/{begun['id']}"), 404, "not_found")
            assert not [*(tmp_path / "sweeps" / "default").iterdir()]
            return table.content

    assert play(scenario()) == swept_by_command(tmp_path / "cli", SMALL)


def test_a_stopped_sweep_keeps_what_is_done_and_goes_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with sweeping(tmp_path) as served:
            ada, before = served.ada, children()
            id = good(await ada.post("/sweeps", json={**SMALL, "ticks": 150}), 202)["id"]
            refused(await ada.delete(f"/sweeps/{id}"), 409, "conflict")
            some = await _until(ada, id, lambda one: one["done"] >= 1)
            assert some["status"] == "working" and some["left_s"] is not None
            stopped = good(await ada.post(f"/sweeps/{id}/stop", json={}))
            assert stopped["status"] == "stopped" and 1 <= stopped["done"] < 4
            assert children() <= before
            kept = rows_of(await ada.get(f"/sweeps/{id}/table"))
            assert len(kept) == stopped["done"]
            assert good(await ada.post(f"/sweeps/{id}/stop", json={}))["status"] == "stopped"

            assert good(await ada.post(f"/sweeps/{id}/resume", json={}), 202)["done"] >= len(kept) > 0
            refused(await ada.post(f"/sweeps/{id}/resume", json={}), 409, "conflict")
            ended = await _until(ada, id, lambda one: one["status"] != "working")
            rows = rows_of(await ada.get(f"/sweeps/{id}/table"))
            assert (ended["status"], len(rows)) == ("done", 4)
            assert all(row in rows for row in kept)

    play(scenario())


def test_a_sweep_ends_with_its_server_and_is_resumed_by_the_next(tmp_path: Path) -> None:
    async def scenario() -> None:
        before = children()
        async with sweeping(tmp_path) as served:
            id = good(await served.ada.post("/sweeps", json=LONG), 202)["id"]
            await _at_work(before)
        assert children() <= before
        async with sweeping(tmp_path) as served:
            shown = good(await served.ada.get(f"/sweeps/{id}"))
            assert (shown["status"], shown["left_s"], shown["failed"]) == ("interrupted", None, None)
            assert children() <= before  # nothing begins unasked
            again = good(await served.ada.post(f"/sweeps/{id}/resume", json={}), 202)
            assert again["status"] == "working"

    play(scenario())


@contextmanager
def signed_in(link: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=link.partition("/?")[0], timeout=PATIENCE_S) as client:
        assert client.get("/", params={"token": link.partition("token=")[2]}).status_code == 303
        client.headers["X-CSRF-Token"] = client.get("/api/v1/me").json()["csrf_token"]
        yield client


def _processes_of(pid: int) -> set[int]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return {int(one) for task in tasks for one in (task / "children").read_text().split()}


def _is_alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


async def _wait(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await asyncio.sleep(0.05)


def test_a_server_that_is_killed_takes_its_processes_along_and_the_next_goes_on(tmp_path: Path) -> None:
    body = {**SMALL, "ticks": 150}

    async def scenario() -> bytes:
        with up(tmp_path, environ={"OPENAI_API_KEY": "sk-secret"}) as (process, link):
            with signed_in(link) as client:
                begun = client.post("/api/v1/sweeps", json=body).json()
                at = f"/api/v1/sweeps/{begun['id']}"
                await _wait(lambda: 1 <= client.get(at).json()["done"] < 4)
                at_work = _processes_of(process.pid)
                told = {Path(f"/proc/{one}/environ").read_bytes() for one in at_work}
                assert at_work and not any(b"sk-secret" in one for one in told)
                nice = {Path(f"/proc/{one}/stat").read_text().split()[18] for one in at_work}
                assert nice == {"19"}
            os.kill(process.pid, signal.SIGKILL)
            process.communicate(timeout=PATIENCE_S)
        await _wait(lambda: not any(map(_is_alive, at_work)))
        done = {path: path.stat().st_ino for path in tmp_path.rglob("row.json")}
        assert 1 <= len(done) <= 4

        with up(tmp_path) as (process, link), signed_in(link) as client:
            shown = client.get(at).json()
            assert (shown["status"], shown["done"]) == ("interrupted", len(done))
            assert client.post(f"{at}/resume", json={}).status_code == 202
            await _wait(lambda: client.get(at).json()["status"] != "working")
            shown = client.get(at).json()
            assert (shown["status"], shown["done"]) == ("done", 4), shown
            assert {path: path.stat().st_ino for path in done} == done
            table = client.get(f"{at}/table").content
            ended(process)
            return table

    assert play(scenario(), within_s=240) == swept_by_command(tmp_path / "cli", body)


def test_a_process_that_dies_fails_the_sweep_and_says_how_to_go_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with sweeping(tmp_path) as served:
            before = children()
            id = good(await served.ada.post("/sweeps", json=LONG), 202)["id"]
            (process,) = await _at_work(before)
            os.kill(process, signal.SIGKILL)
            ended = await _until(served.ada, id, lambda one: one["status"] != "working")
            assert ended["status"] == "failed" and ended["failed"]["code"] == "external"
            assert str(tmp_path) not in msgspec.json.encode(ended).decode()
            assert good(await served.ada.post(f"/sweeps/{id}/resume", json={}), 202)["status"] == "working"

    play(scenario())


def test_a_run_whose_store_cannot_be_written_names_no_file(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with sweeping(tmp_path) as served:
            id = good(await served.ada.post("/sweeps", json=SMALL), 202)["id"]
            good(await served.ada.post(f"/sweeps/{id}/stop", json={}))
            place = tmp_path / "sweeps" / "default" / id
            for run in msgspec.json.decode((place / "sweep.json").read_bytes())["runs"]:
                (place / run["id"] / "state.db").mkdir(parents=True, exist_ok=True)
            good(await served.ada.post(f"/sweeps/{id}/resume", json={}), 202)
            ended = await _until(served.ada, id, lambda one: one["status"] != "working")
            for blocked in place.glob("*/state.db"):
                blocked.rmdir()
            assert ended["status"] == "failed" and "cannot be written" in ended["failed"]["message"]
            assert str(tmp_path) not in msgspec.json.encode(ended).decode()

    play(scenario())


def test_a_user_has_one_sweep_at_work_a_tenant_two_and_the_server_three(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with sweeping(tmp_path) as served:
            first = good(await served.ada.post("/sweeps", json=LONG), 202)["id"]
            refused(await served.ada.post("/sweeps", json=SMALL), 429, "too_many_at_once")
            good(await served.client("bob").post("/sweeps", json=LONG), 202)
            refused(await served.client("cat").post("/sweeps", json=SMALL), 429, "too_many_at_once")
            good(await served.eve.post("/sweeps", json=LONG), 202)
            refused(await served.client("fay").post("/sweeps", json=SMALL), 503, "queue_full")
            good(await served.client("bob").post(f"/sweeps/{first}/stop", json={}))
            asked = [served.client("fay").post("/sweeps", json=LONG) for _ in range(4)]
            told = await asyncio.gather(*asked)
            assert sorted(one.status_code for one in told) == [202, 429, 429, 429]
            assert len(good(await served.client("fay").get("/sweeps"))["items"]) == 1
            refused(await served.ada.post(f"/sweeps/{first}/resume", json={}), 503, "queue_full")

    play(scenario())


def test_a_tenant_keeps_only_so_many_sweeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = {"world": {"settle": False}, "ticks": 1}

    async def scenario() -> None:
        async with sweeping(tmp_path) as served:
            made: list[str] = []
            for _ in range(KEPT_MAX):
                made.append(good(await served.ada.post("/sweeps", json=body), 202)["id"])
                good(await served.ada.post(f"/sweeps/{made[-1]}/stop", json={}))
            said = refused(await served.ada.post("/sweeps", json=body), 507, "quota_reached")
            assert said["got"] == KEPT_MAX and "Remove" in said["hint"]
            page = good(await served.ada.get("/sweeps", params={"limit": 4}))
            rest = good(await served.ada.get("/sweeps", params={"after": page["next"]}))
            assert [one["id"] for one in (*page["items"], *rest["items"])] == made[::-1]
            assert (await served.ada.delete(f"/sweeps/{made[0]}")).status_code == 204
            monkeypatch.setattr(sweeps, "KEPT_BYTES_MAX", 1_000)
            refused(await served.ada.post("/sweeps", json=body), 507, "quota_reached")

    play(scenario())


def test_a_sweep_that_takes_too_long_stops_and_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeps, "SECONDS_MAX", 0.5)

    async def scenario() -> None:
        async with sweeping(tmp_path) as served:
            ended = await _done(served.ada, LONG)
            assert (ended["status"], ended["failed"]["code"]) == ("stopped", "limit_reached")
            good(await served.ada.post(f"/sweeps/{ended['id']}/resume", json={}), 202)

    play(scenario())


def test_viewers_look_and_other_tenants_find_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with sweeping(tmp_path) as served:
            id = (await _done(served.ada, SMALL))["id"]
            assert good(await served.vic.get(f"/sweeps/{id}"))["done"] == 4
            assert len(rows_of(await served.vic.get(f"/sweeps/{id}/table"))) == 4
            refused(await served.vic.post("/sweeps", json=SMALL), 403)
            refused(await served.vic.post(f"/sweeps/{id}/stop", json={}), 403)
            refused(await served.vic.post(f"/sweeps/{id}/resume", json={}), 403)
            refused(await served.vic.delete(f"/sweeps/{id}"), 403)
            assert good(await served.eve.get("/sweeps"))["items"] == []
            for other in (id, f"../default/{id}", "x" * 16, "0" * 16, "%00", f"{id}/../{id}"):
                path = f"/sweeps/{other.replace('/', '%2F')}"
                refused(await served.eve.get(path), 404, "not_found")
                refused(await served.eve.get(f"{path}/table"), 404, "not_found")
                refused(await served.eve.post(f"{path}/stop", json={}), 404, "not_found")
                refused(await served.eve.post(f"{path}/resume", json={}), 404, "not_found")
                refused(await served.eve.delete(path), 404, "not_found")

    play(scenario())


MANY = [{"id": "a_{n}", "count": AGENTS_MAX + 1, "policy": "nobody"}]
NOTE = {"id": "note", "kind": "document", "owner": "ana"}
THINKER = [{"id": "ana", "defaults": False}]


BROKEN: list[tuple[dict[str, Any], int, str]] = [
    ({"world": RULES, "params": {"agnts": [1]}}, 422, "no parameter 'agnts'"),
    ({"world": RULES, "params": {"agents": []}}, 422, "agents"),
    ({"world": RULES, "params": {"agents": ["many"]}}, 422, "agents"),
    ({"world": RULES, "params": {"agents": [1.5]}}, 422, "agents"),
    ({"world": RULES, "params": {"seed": [1]}}, 422, "seeds"),
    ({"world": RULES, "params": {"model": ["\ud800"]}}, 422, ""),
    ({"world": RULES, "params": {"agents": [*range(60)], "mint.every": [1, 2]}}, 413, "combinations"),
    ({"world": RULES, "params": {"agents": [1, 2]}, "seeds": 501}, 413, "runs"),
    ({"world": RULES, "params": {"agents": [AGENTS_MAX + 1]}}, 413, "agents"),
    ({"world": {"agents": MANY}}, 413, "agents"),
    ({"world": RULES, "seeds": 1_000, "ticks": 10_000}, 413, "agents times ticks"),
    ({"world": RULES, "seeds": 0}, 422, "seeds"),
    ({"world": RULES, "seeds": 1_001}, 422, "seeds"),
    ({"world": RULES, "ticks": 10_001}, 422, "ticks"),
    ({"world": RULES, "processes": 3}, 422, "processes"),
    ({"world": RULES, "tick": 5}, 422, "ticks"),
    ({"world": {"agents": [{"id": "x" * WORLD_BYTES_MAX}]}}, 413, "bytes of JSON"),
    ({"world": {"artifacts": [{**NOTE, "content": "\ud800"}]}}, 422, "Unicode"),
    ({"world": {"world": {"collect": {"column": "wealth > 1"}}}}, 422, "column"),
    ({"world": {"agents": THINKER, "world": {"model": "openai:gpt-4o-mini"}}}, 403, "offline"),
    ({"world": {"agents": [{"id": "ana", "model": "gpt-4o-mini"}]}}, 403, "offline"),
    ({"world": {"agents": THINKER}, "params": {"model": ["offline", "gpt-4o-mini"]}}, 403, "offline"),
    ({"toml": "[world\n"}, 422, "TOML"),
    ({"toml": '[[artifacts]]\nid = "a"\nkind = "document"\nowner = "o"\nfile = "/etc/passwd"'}, 422, "file"),
    ({"template": "none"}, 404, "none"),
    ({"template": "market", "world": RULES}, 422, "one way"),
]


def test_what_cannot_be_swept_is_said_and_nothing_begins(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with sweeping(tmp_path) as served:
            before = children()
            for body, status, said in BROKEN:
                content = json.dumps(body).encode()  # half a character, too
                headers = {"content-type": "application/json"}
                answer = await served.ada.post("/sweeps", content=content, headers=headers)
                refused(answer, status)
                assert said in answer.text, (said, answer.text)
            assert good(await served.ada.get("/sweeps"))["items"] == []
            assert children() <= before and not (tmp_path / "sweeps").exists()

    play(scenario())


def test_agents_with_the_offline_model_think_and_cost_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with sweeping(tmp_path) as served:
            body = {"world": {"settle": False, "agents": THINKER}, "ticks": 2}
            ended = await _done(served.ada, body)
            assert ended["status"] == "done", ended
            (row,) = rows_of(await served.ada.get(f"/sweeps/{ended['id']}/table"))
            assert int(row["tokens"]) > 0 and row["model_cost_microusd"] == "0"

    play(scenario())


def test_a_server_without_a_folder_has_no_sweeps(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            refused(await served.ada.post("/sweeps", json=SMALL), 403, "access_denied")
            assert good(await served.ada.get("/sweeps"))["items"] == []
            refused(await served.ada.get(f"/sweeps/{'0' * 16}"), 404, "not_found")

    play(scenario())


def test_a_store_of_a_run_has_a_bound() -> None:
    """The bound of the process: one that was not set would be that of this one."""
    code = f"import {sweep_process.MODULE} as one, resource; one.main()"
    command = [sys.executable, "-c", code]
    with WarmPython(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        with killed_at_last(process):
            limits = Path(f"/proc/{process.pid}/limits")
            while str(sweep_process.STORE_BYTES_MAX) not in (text := limits.read_text()):
                assert process.poll() is None
            assert str(sweep_process.MEMORY_BYTES_MAX) in text
