"""The state of a page: folded by the server, it is what the page itself makes of the same events.

The fold of the page is run as it is, by Node: over what really happened to goals, and over random events with
fields of any type.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from artelier import Kernel
from artelier.log import registered
from artelier.server.event_encoder import Encoder
from artelier.server.graph import keeper, records
from artelier.server.graph.keeper import TenantGraph, fold_event
from artelier.server.graph.records import Graph, SeenEvent, encode_graph, pack_graph, unpack_piece
from artelier_lab.bench.server.goals import goal_model, work_on_goals
from tests.repository.sources import ROOT
from tests.server.house import assert_fault, house

WEB = ROOT / "web"
ROLLDOWN = WEB / "node_modules/.bin/rolldown"
AS_GIVEN = ("by_model", "held", "caps", "newest", "asked", "ticks", "details")
"""Fields whose keys are ids."""


@pytest.fixture(scope="session")
def page_fold(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fold of the page as one script."""
    if not ROLLDOWN.exists() or shutil.which("node") is None:
        told = "needs Node and the packages of the page (make setup)"
        if os.environ.get("CI"):
            pytest.fail(told)
        pytest.skip(told)
    path = tmp_path_factory.mktemp("fold") / "fold.mjs"
    arguments = ["tests/foldEvents.ts", "--format", "esm", "--platform", "node", "--file", str(path)]
    subprocess.run([str(ROLLDOWN), *arguments], cwd=WEB, check=True, capture_output=True)
    return path


def folded_by_page(script: Path, histories: Sequence[Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    told = "".join(f"{json.dumps(events)}\n" for events in histories)
    done = subprocess.run(["node", str(script)], input=told, capture_output=True, text=True, check=True)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    for graph in found:
        del graph["pulse"]["position"]
    return found


def folded_by_server(events: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The graph as a page would hold it, which it read as JSON."""
    graph = Graph()
    for event in events:
        fold_event(graph, msgspec.convert(event, SeenEvent))
    kept = Graph()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "SLICE", 2)
        for name, packed in pack_graph(graph):
            unpack_piece(kept, name, packed)
        return as_held(b"".join(encode_graph(kept, window_from=0)))


def as_held(body: bytes) -> dict[str, Any]:
    held = _named(json.loads(body))
    del held["windowFrom"]
    for name, rows in held.items():
        if isinstance(rows, list):
            held[name] = {row["id"]: row for row in rows}
    for row in held["membranes"].values():
        row["members"].sort()
        row["shared"].sort()
    for row in held["runs"].values():
        row["waits"].sort()
    return held


def _named(value: Any) -> Any:
    if isinstance(value, list):
        return [_named(one) for one in value]
    if not isinstance(value, dict):
        return value
    found: dict[str, Any] = {}
    for field, one in value.items():
        name = re.sub("_([a-z])", lambda match: match[1].upper(), field)
        as_given = field in AS_GIVEN
        found[name] = {key: _named(row) for key, row in one.items()} if as_given else _named(one)
    return found


def differences(page: dict[str, Any], server: dict[str, Any]) -> list[str]:
    return [f"{name}: {page[name]} is {server.get(name)}" for name in page if page[name] != server.get(name)]


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


def test_random_events_come_to_the_same_on_the_server_and_on_the_page(page_fold: Path) -> None:
    histories = [random_history(seed) for seed in range(300)]

    shown = folded_by_page(page_fold, histories)

    for seed, (events, page) in enumerate(zip(histories, shown, strict=True)):
        server = folded_by_server(events)
        assert not (wrong := differences(page, server)), f"seed {seed}: {wrong}"
    whole = [graph for graph in shown if all(graph[name] for name in ("tasks", "edges", "membranes"))]
    assert len(whole) > 200


# What really happened


async def _events(kernel: Kernel) -> list[dict[str, Any]]:
    encoder = Encoder(kernel.store, "default")
    stored = await encoder.read(after=0, limit=100_000)
    return [json.loads(event.body) async for event in encoder.encode_all(stored)]


def test_a_graph_of_any_moment_is_what_the_page_folds_up_to_it(
    tmp_path: Path, page_fold: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "CHECKPOINT_EVENTS", 100)
    monkeypatch.setattr(keeper, "WINDOW_EVENTS", 150)
    monkeypatch.setattr(keeper, "CHECKPOINTS_MAX", 4)

    async def play() -> tuple[list[dict[str, Any]], list[bytes]]:
        with Kernel.open(tmp_path / "log.db", models={"scripted": goal_model()}, environ={}) as kernel:
            graph = TenantGraph(kernel.store, Encoder(kernel.store, "default"))
            await graph.read(at=None)
            await work_on_goals(kernel, goals=1)
            events = await _events(kernel)
            moments = [None, *(event["position"] for event in events[50::100])]
            return events, [await graph.read(at=at) for at in moments]

    events, bodies = asyncio.run(play())
    found = [as_held(body) for body in bodies]

    histories = [[one for one in events if one["position"] <= graph["position"]] for graph in found]
    assert len(found) > 3 and len(histories[0]) == len(events)
    for page, server in zip(folded_by_page(page_fold, histories), found, strict=True):
        assert not differences(page, server)
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
