"""`/schedules`: goals that are worked on again and again, by whoever may say so."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from artelier.server.event_encoder import Encoder
from tests.server.routes.served import Served, at, good, play, refused, serving

NIGHTLY = {"id": "nightly", "goal": "Say done.", "cron": "0 3 * * *", "model": "m", "solo": True}


async def until_ended(served: Served, name: str = "nightly") -> dict[str, Any]:
    """The newest firing, once it has ended."""
    while True:
        last = good(await served.ada.get(at("schedules", name)))["last_run"]
        if last is not None and not last["is_open"]:
            return last
        await asyncio.sleep(0.01)


def test_a_schedule_is_made_looked_at_and_removed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            ada = served.ada
            made = good(await ada.post("/schedules", json=NIGHTLY), 201)
            assert (made["created_by"], made["timezone"]) == ("user:ada", "UTC")
            assert made["next_due_us"] > made["created_us"]
            refused(await ada.post("/schedules", json=NIGHTLY), 409, "conflict")

            listed = good(await ada.get("/schedules", params={"status": "active"}))["items"]
            assert [one["id"] for one in listed] == ["nightly"]
            assert good(await ada.get(at("schedules", "nightly")))["runs"] == []

            assert good(await ada.delete(at("schedules", "nightly"))) == {"id": "nightly"}
            refused(await ada.get(at("schedules", "nightly")), 404, "not_found")

    play(scenario())


def test_the_worker_of_the_server_starts_what_is_fired(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            good(await served.ada.post("/schedules", json=NIGHTLY), 201)
            fired = good(await served.ada.post(at("schedules", "nightly", "fire"), json={}))

            last = await until_ended(served)

            assert (last["run_id"], last["by"]) == (fired["run_id"], "user:ada")
            run = good(await served.ada.get(at("runs", fired["run_id"])))
            assert (run["status"], run["goal"]) == ("completed", "Say done.")

    play(scenario())


def test_the_worker_of_the_server_fires_in_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            body = {**NIGHTLY, "cron": None, "every": "1s"}
            good(await served.ada.post("/schedules", json=body), 201)

            last = await until_ended(served)

            assert (last["by"], last["status"]) == ("schedule:nightly", "completed")
            good(await served.ada.post(at("schedules", "nightly", "pause"), json={}))

    play(scenario())


def test_a_schedule_is_changed_paused_and_resumed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            ada, where = served.ada, at("schedules", "nightly")
            made = good(await ada.post("/schedules", json=NIGHTLY), 201)
            same = good(await ada.patch(where, json={}))
            assert same["changed_us"] == made["changed_us"]

            changed = good(await ada.patch(where, json={"every": "2h", "budget_usd": "0.25"}))
            assert (changed["cron"], changed["every"]) == (None, "2h")
            assert changed["budget_usd"] == "0.25"
            refused(await ada.patch(where, json={"goal": None}), 422, "invalid_request")
            refused(await ada.patch(where, json={"overlap": "odd"}), 422)

            held = good(await ada.post(f"{where}/pause", json={"note": "for now"}))
            assert (held["status"], held["next_due_us"]) == ("paused", None)
            refused(await ada.post(f"{where}/pause", json={}), 409, "conflict")
            assert good(await ada.post(f"{where}/resume", json={}))["status"] == "active"

    play(scenario())


@pytest.mark.parametrize(
    "wrong",
    [
        {"cron": "61 * * * *"},
        {"cron": None},
        {"every": "1h"},
        {"timezone": "Mars"},
        {"goal": ""},
        {"goal": " "},
        {"budget_usd": "0"},
        {"budget_usd": "x"},
        {"id": "a/b"},
        {"id": ""},
        {"surprise": 1},
        {"model": "no:such"},
        {"max_failures": -1},
        {"overlap": "pile"},
    ],
)
def test_what_cannot_work_is_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            answer = await served.ada.post("/schedules", json={**NIGHTLY, **wrong})

            assert 400 <= answer.status_code < 500
            refused(answer, answer.status_code)
            assert good(await served.ada.get("/schedules"))["items"] == []

    play(scenario())


def test_viewers_look_and_change_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            good(await served.ada.post("/schedules", json=NIGHTLY), 201)
            vic, where = served.vic, at("schedules", "nightly")

            assert good(await vic.get(where))["id"] == "nightly"
            refused(await vic.post("/schedules", json={**NIGHTLY, "id": "x"}), 403)
            refused(await vic.patch(where, json={"every": "1s"}), 403)
            for verb in ("pause", "resume", "fire"):
                refused(await vic.post(f"{where}/{verb}", json={}), 403)
            refused(await vic.delete(where), 403)

    play(scenario())


def test_users_schedule_nothing_outside_of_the_servers_workspace(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            refused(await served.ada.post("/schedules", json={**NIGHTLY, "workspace": "/etc"}), 403)
            good(await served.ada.post("/schedules", json=NIGHTLY), 201)
            moved = await served.ada.patch(at("schedules", "nightly"), json={"workspace": "/etc"})
            refused(moved, 403)

    play(scenario())


def test_live_events_say_what_a_schedule_is_about(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            good(await served.ada.post("/schedules", json=NIGHTLY), 201)
            body = {"note": "for now"}
            good(await served.ada.post(at("schedules", "nightly", "pause"), json=body))

            encoder = Encoder(served.kernel.store, "default")
            events = [await encoder.encode(e) for e in await encoder.read(after=0, limit=100)]

            told = {one.kind: one.body.decode() for one in events}
            assert "Say done." in told["schedule.added"]
            assert "for now" in told["schedule.paused"]

    play(scenario())
