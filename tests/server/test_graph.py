"""The rows of a page, as the server folds them: of now, of any moment, and those that change between two.

What the fold makes of each event is tested as the page reads it: `web/src/projection/fold.test.ts`.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from artelier import Kernel
from artelier.log import registered
from artelier.server.event_encoder import Encoder
from artelier.server.graph import keeper, records
from artelier.server.graph.keeper import RowChanges, TenantGraph, fold_event
from artelier.server.graph.records import Graph, SeenEvent, encode_graph, pack_graph, unpack_piece
from artelier_lab.bench.server.goals import goal_model, work_on_goals
from tests.server.house import PATIENCE_S, assert_fault, house


def held(body: bytes) -> dict[str, Any]:
    """The tables of a graph by name, as a page holds them: rows by id."""
    told = json.loads(body)
    tables: dict[str, Any] = {name: rows for name, rows in told.items() if not isinstance(rows, list)}
    tables |= {
        name: {row["id"]: row for row in rows} for name, rows in told.items() if isinstance(rows, list)
    }
    for name in ("costs", "pulse"):
        tables |= tables.pop(name)
    del tables["window_from"]
    return tables


def put(before: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """What a page holds after a change: rows in the place of those before, without those that are gone."""
    after = dict(before)
    for name, rows in change.items():
        is_table = isinstance(rows, dict) and name != "total"
        after[name] = {**before[name], **rows} if is_table else rows
        if is_table:
            after[name] = {id_: row for id_, row in after[name].items() if row is not None}
    return after


def whole(graph: Graph) -> dict[str, Any]:
    return held(b"".join(encode_graph(graph, window_from=0)))


TABLES = tuple(Graph().tables())


# Random events


IDS = ("m", "m/a", "m/b", "m/c", "f", "town", "town/ada", "chat/r000001", "room")
WORDS = ("", "m", "m/a", "m/b", "m/c", "f", "room", "done", "failed", "blocked", "waiting", "usd", "mission")
FIELDS: dict[str, Sequence[Any]] = {
    "id": IDS,
    "kind": ("agent", "task", "membrane", "document"),
    "task": IDS,
    "agent": ("", "m/a", "m/b"),
    "mission": ("m", ""),
    "origin": IDS,
    "at": (0, 1, 3, 9),
    "group": ("room", "m"),
    "principal": ("m/a", "m/b"),
    "loop": ("mission", "task", ""),
    "status": ("done", "failed", "blocked", "waiting", "paused", "nonsense"),
    "reason": ("", "stuck", "missing_input", "dependency_failed"),
    "iteration": (0, 1, 2, 3),
    "iterations": (0, 1, 2, 3),
    "max_iterations": (0, 2, 5),
    "depends_on": ([], ["m/a"], ["m/b", "m/c"], "m/a", [7]),
    "inputs": ([], ["m/a@1"], None),
    "read": ([], ["room@2", "m/b#part"]),
    "derived_from": ([], ["m/a@1"]),
    "counts": ([["run:m/a", "usd", 70]], [["run:m", "usd", -3]], [["x"]], {}),
    "parts": ([{"src": ["m/a@1", 3]}, 7], [], "x"),
    "access": ({"allow": {"read": ["membrane:room", "operator"]}}, {"allow": []}, None, "open"),
    "prices": ({"read": 3}, {"read": True}, 9),
    "key": ("k", "l"),
    "name": ("", "timer", "look"),
    "cost": (0, 5, 2**60, 1.0, True, "5"),
    "cap": (None, 100, 3.5),
    "budget": (None, 7),
    "unit": ("usd", "tokens"),
    "scope": ("tenant", "run:m"),
    "queued": (True, False),
    "passed": (True, False, "yes"),
    "is_error": (True, False),
    "accepted": (True, False),
    "stopped": (True, False),
    "unpriced": (True, False),
    "tick": (1, 2),
    "branch": ("main",),
    "action": ("invoke", "read", "write"),
    "by": ("", "m/a"),
    "run_id": ("", "m/a"),
    "owner": ("m/a", "operator"),
    "version": (1, 2),
    "input_tokens": (1, 10),
    "model": ("", "x"),
}
TEXTS = {
    "content": ('{"name":"Ada","role":"reader","goal":"g"}', "{…", '["a"]'),
    "metadata": ('{"title":"T"}', ""),
    "decision": ('{"reason":"because"}', '{"reason":7}'),
    "verdict": ('{"summary":"well"}', "null"),
    "question": ('{"question":"Go?","details":{"n":1}}', "plain"),
    "message": ("no",),
    "note": ("hm",),
    "mistakes": ("many",),
    "goal": ("a goal",),
}
STREAMS = ("run:", "run:", "run:", "artifact:", "tenant:", "session:", "world:")
KINDS = sorted({kind for kind, _ in registered() if not kind.startswith(("bench.", "test."))})
TOLD = [kind for kind in KINDS if kind.startswith(("run.", "task.", "decision.", "artifact.", "group."))]


BEGUN = [("artifact:", "task.created"), ("run:", "run.started"), ("artifact:", "artifact.written")] * 8


def random_history(seed: int) -> list[dict[str, Any]]:
    """Events that no kernel would write, in any order, after runs and tasks that some of them are about."""
    rng = random.Random(seed)
    found: list[dict[str, Any]] = []
    for position in range(1, 161):
        stream, kind = rng.choice(STREAMS), rng.choice(rng.choice((KINDS, TOLD, TOLD)))
        if position <= len(BEGUN):
            stream, kind = rng.choice(BEGUN)
        data = {name: rng.choice(values) for name, values in FIELDS.items() if rng.random() < 0.6}
        texts = {name: rng.choice(values) for name, values in TEXTS.items() if rng.random() < 0.5}
        found.append(
            {
                "position": position,
                "stream": stream + rng.choice(IDS),
                "space": rng.choice(("main", "main", "main", "world:town")),
                "seq": rng.randrange(1, 10),
                "kind": kind,
                "at_us": 1_790_000_000_000_000 + rng.randrange(1000),
                "actor": rng.choice(("system", "user:ada")),
                "cause": None,
                "data": data,
                "texts": texts,
            }
        )
    return found


def test_rows_that_changed_are_the_difference_between_any_two_moments() -> None:
    for seed in range(100):
        graph, changes, rng = Graph(), RowChanges(), random.Random(seed)
        moments: list[tuple[int, dict[str, Any]]] = [(0, whole(graph))]
        events = random_history(seed)
        while events:
            some, events = events[: (size := rng.randrange(1, 9))], events[size:]
            for event in some:
                fold_event(graph, msgspec.convert(event, SeenEvent))
            changes.note(graph)
            now = whole(graph)
            for position, before in moments[-5:]:
                part = whole(graph.part(changes.after(position)))
                after = put(before, part)
                assert after == now, f"seed {seed}: {position} to {graph.position}"
                assert [[*after[name]] for name in TABLES] == [[*now[name]] for name in TABLES], (
                    "another order"
                )
            again = [
                f"{name} {id_}"
                for name in TABLES
                for id_, row in part[name].items()
                if row is not None and row == before[name].get(id_)
            ]
            assert not again, f"seed {seed}: sent though nothing has changed: {again}"
            moments.append((graph.position, now))


def test_a_packed_graph_is_the_same_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "SLICE", 2)
    for seed in range(50):
        graph, kept = Graph(), Graph()
        for event in random_history(seed):
            fold_event(graph, msgspec.convert(event, SeenEvent))

        for name, packed in pack_graph(graph):
            unpack_piece(kept, name, packed)

        assert whole(kept) == whole(graph) and kept.index == graph.index


def test_a_page_from_before_the_changes_that_are_remembered_begins_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(keeper, "CHANGES_MAX", 5)
    graph, changes = Graph(), RowChanges()
    for event in random_history(1):
        fold_event(graph, msgspec.convert(event, SeenEvent))
        changes.note(graph)

    assert 0 < changes.since < graph.position
    assert sum(map(len, changes.after(changes.since).values())) <= 5


# What really happened


async def _events(kernel: Kernel) -> list[dict[str, Any]]:
    encoder = Encoder(kernel.store, "default")
    stored = await encoder.read(after=0, limit=100_000)
    return [json.loads(event.body) async for event in encoder.encode_all(stored)]


def test_a_graph_of_any_moment_is_the_fold_up_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "CHECKPOINT_EVENTS", 100)
    monkeypatch.setattr(keeper, "WINDOW_EVENTS", 150)
    monkeypatch.setattr(keeper, "CHECKPOINTS_MAX", 4)

    async def play() -> tuple[list[dict[str, Any]], list[bytes], list[bytes]]:
        with Kernel.open(tmp_path / "log.db", models={"scripted": goal_model()}, environ={}) as kernel:
            graph = TenantGraph(kernel.store, Encoder(kernel.store, "default"))
            await graph.read(at=None)
            await work_on_goals(kernel, goals=1)
            events = await _events(kernel)
            moments = [None, *(event["position"] for event in events[50::100])]
            head = events[-1]["position"]
            bodies = [await graph.read(at=at) for at in moments]
            return events, bodies, [(await graph.follow(after=at or 0, upto=head))[1] for at in moments]

    events, bodies, frames = asyncio.run(play())

    found = [held(body) for body in bodies]
    assert len(found) > 3
    for then, frame in zip(found, frames, strict=True):
        graph = Graph()
        for event in events:
            if event["position"] <= then["position"]:
                fold_event(graph, msgspec.convert(event, SeenEvent))
        assert whole(graph) == then
        change = json.loads(frame.partition(b"data: ")[2])
        if then is not found[0]:
            assert put(then, held(json.dumps(change["graph"]).encode())) == found[0]
            assert change["items"] == [one for one in events if one["position"] > then["position"]]
    assert found[0]["tasks"]["goal-0/t9"]["status"] == "done"
    assert 150 <= len(events) - sum(one["position"] <= _window(bodies[0]) for one in events) <= 350


def _window(body: bytes) -> int:
    return json.loads(body)["window_from"]


# Over HTTP


def test_the_graph_follows_the_log_and_forgets_what_is_erased(tmp_path: Path) -> None:
    async def play() -> None:
        async with house(tmp_path, environ={"ARTELIER_VAULT_KEY": "a vault key for tests"}) as home:

            async def graph(**wanted: Any) -> dict[str, Any]:
                answer = await home.client.get("/api/v1/graph", params=wanted)
                assert answer.status_code == 200, answer.text
                return answer.json()

            async def goals(**wanted: Any) -> list[str]:
                return [run["goal"] for run in (await graph(**wanted))["runs"]]

            async with home.desk.run("of-ben", goal="Ask Ben.") as run:
                run.finish("yes")
            between = (await graph())["position"]
            async with home.desk.run("of-ana", goal="Ask Ana.", subject="ana") as run:
                run.finish("yes")

            assert await goals() == ["Ask Ben.", "Ask Ana."]
            assert await goals(at=between) == ["Ask Ben."]
            await home.desk.erase(subject="ana")
            assert await goals() == ["Ask Ben.", "[erased]"]

    asyncio.run(play())


def test_a_page_gets_what_changes_and_begins_anew_after_an_erasure(tmp_path: Path) -> None:
    async def play() -> None:
        async with house(tmp_path, environ={"ARTELIER_VAULT_KEY": "a vault key for tests"}) as home:
            async with home.desk.run("of-ana", goal="Ask Ana.", subject="ana") as run:
                run.finish("yes")
            before = (await home.client.get("/api/v1/graph")).json()
            frames = await home.app.state.hub.stream_rows("default", after=before["position"])

            async def change() -> dict[str, Any]:
                while b"data: " not in (frame := await asyncio.wait_for(anext(frames), PATIENCE_S)):
                    pass
                return json.loads(frame.partition(b"data: ")[2])

            first = await change()
            assert (first["items"], first["graph"]["runs"]) == ([], [])
            assert first["graph"]["position"] == before["position"]
            async with home.desk.run("of-ben", goal="Ask Ben.") as run:
                run.finish("yes")
            changed: list[dict[str, Any]] = []
            while not changed or changed[-1]["status"] != "completed":
                changed += (await change())["graph"]["runs"]
            assert {one["id"] for one in changed} == {"of-ben"}

            await home.desk.erase(subject="ana")
            told = await change()
            while "anew" not in told:
                told = await change()
            assert [frame async for frame in frames] == []
            late = await home.app.state.hub.stream_rows("default", after=before["position"])
            assert [await anext(late), await anext(late)][1] == keeper.ANEW
            await late.aclose()

    asyncio.run(play())


def test_a_tenant_is_shown_its_own_graph_alone(tmp_path: Path) -> None:
    async def play() -> None:
        async with house(tmp_path) as home:
            async with home.kernel.for_tenant("other").run("theirs") as run:
                run.finish("yes")
            async with home.desk.run("ours") as run:
                run.finish("yes")

            shown = (await home.client.get("/api/v1/graph")).json()

            assert [run["id"] for run in shown["runs"]] == ["ours"]
            answer = await home.client.get("/api/v1/graph", params={"at": -1})
            assert_fault(answer, 422, "invalid_request")

    asyncio.run(play())
