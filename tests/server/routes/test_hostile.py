"""Whatever an address, a query or a body holds: an answer in the one shape, and never a failure inside."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server.house import documented
from tests.server.routes.served import Served, play, serving

TAGS = frozenset(
    (
        "artifacts",
        "uploads",
        "sessions",
        "profiles",
        "agents",
        "memory",
        "skills",
        "worlds",
        "market",
        "ledger",
        "tenants",
    )
)

IDS = (
    "none",
    "..%2F..%2Fetc%2Fpasswd",
    "%2E%2E",
    "%00",
    "a%00b",
    "x" * 10_000,
    "%2F",
    "a%2F%2Fb",
    "%ff%fe",
    "id@1",
    "id@99999999999999999999",
    "id%23part",
    "main:x",
    "b:x",
    "artifact:x",
    "'%20OR%201=1--",
    "%F0%9F%92%A9",
    "a%0d%0aX-Y:1",
    "%25",
    "*",
    "{}",
    "-1",
    "agent:x",
)

BODIES: tuple[Any, ...] = (
    None,
    {},
    [],
    5,
    "text",
    {"unknown": 1},
    {"id": None},
    {"id": 5, "content": {}},
    {"id": "\0", "kind": "\0", "content": "\ud800"},
    {"text": "\ud800"},
    {"text": "x", "branch": "\0"},
    {"turn": 2**70, "variant": -1},
    {"turn": 1, "variant": 2**60},
    {"turn": "1"},
    {"count": 2**80},
    {"expected_version": 2**53, "content": None},
    {"expected_version": 1, "access": {"allow": 5}},
    {"id": "ok", "kind": "document", "content": "x", "access": {"policy": ["x"]}},
    {"id": "ok", "kind": "document", "content": "x", "prices": {"read": -1}},
    {"id": "ok", "kind": "document", "content": "x", "metadata": {"a": "\ud800"}},
    {"id": "ok", "kind": "nothing", "content": "x"},
    {"args": {"self": 1, "id": 2, "\0": 3}, "price_max": 0},
    {"args": {"a": "\ud800"}},
    {"hash": "x" * 64, "note": "\ud800"},
    {"tag": "\0", "id": "\0"},
    {"session_id": "../x"},
    {"profile": {"operations": [{"operation_id": "\ud800"}]}},
    {"profile": "\ud800"},
    {"model": "offline", "char": {"name": "\ud800"}},
    {"model": "\ud800"},
    {"ticks": 0},
    {"id": "w\0", "world": {"agents": [{"id": "\ud800"}]}},
    {"artifacts": {"\ud800": 1}},
    {"settings": {"seed": "x"}},
    {"text": "x", "to": ["\ud800"]},
    {"at": 2**60},
)

BROKEN = (b"{", b"\xff", b"[" * 5_000, b'{"a":NaN}', b'{"a":1e999}', b"")

QUERIES = (
    {"after": "\0"},
    {"after": "x" * 599},
    {"after": "..|..|.."},
    {"limit": "0"},
    {"limit": "x"},
    {"q": "\0 '\" %"},
    {"kind": "\0"},
    {"owner": "x" * 512},
    {"world": "../x"},
    {"world": "\0"},
    {"version": "99999999999999999999"},
    {"version": "0"},
    {"a": "1", "b": "2"},
    {"branch": "\0"},
    {"run_id": "c/r999999"},
    {"run_id": "\0"},
    {"run_id": "x" * 500},
    {"before": "1"},
    {"from_tick": "9007199254740992"},
    {"agent": "\0"},
    {"kind": "no.such.kind"},
    {"tick": "7"},
    {"account": "\0"},
    {"run": "\0"},
    {"days": "3660"},
    {"closed": "maybe"},
    {"status": "x"},
)


def _addresses() -> list[tuple[str, str]]:
    """Method and path of every operation of these resources."""
    return [
        (method.upper(), path.removeprefix("/api/v1"))
        for path, operations in documented().items()
        for method, operation in operations.items()
        if operation["tags"][0] in TAGS
    ]


def _check(answer: httpx.Response, what: str) -> None:
    assert answer.status_code < 500, f"{what}: {answer.status_code} {answer.text[:300]}"
    if answer.status_code >= 400:
        error = answer.json()["error"]
        assert set(error) - {"errors"} == {"code", "message", "expected", "got", "hint"}, what
        assert len(answer.content) < 20_000, what
        for word in ("Traceback", "site-packages", "sqlite", '.py"'):
            assert word not in answer.text, what


def _url(path: str) -> httpx.URL:
    """Exactly this path, whatever a client would make of its dots and signs."""
    return httpx.URL("http://localhost").copy_with(raw_path=f"/api/v1{path}".encode())


async def _prepared(served: Served) -> None:
    """Something of each resource, called `ok`, for verbs to be wrong about."""
    body = {"id": "ok", "kind": "document", "content": "text"}
    await served.ada.post("/artifacts", json=body)
    await served.ada.post("/sessions", json={"id": "ok", "model": "m"})
    await served.ada.post("/worlds", json={"id": "ok"})
    await served.kernel.memory.for_agent("default", "ok").remember("x", key="k")


@pytest.mark.slow
def test_hostile_ids_are_refused_in_the_one_shape(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            for method, path in _addresses():
                if "{" not in path:
                    continue
                for id in IDS:
                    url = _url(re.sub(r"\{\w+\}", lambda _, id=id: id, path))
                    body = {} if method in ("POST", "PATCH", "PUT") else None
                    answer = await served.ada.request(method, url, json=body)
                    _check(answer, f"{method} {path} {id[:60]}")
                    assert answer.status_code >= 400 or id == "none", f"{method} {path} {id[:60]}"

    play(scenario(), within_s=300)


@pytest.mark.slow
def test_hostile_bodies_are_refused_in_the_one_shape(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            await _prepared(served)
            for method, path in _addresses():
                if method not in ("POST", "PATCH", "PUT"):
                    continue
                where = re.sub(r"\{\w+\}", "ok", path)
                for raw in (*(json.dumps(body).encode() for body in BODIES), *BROKEN):
                    headers = {"content-type": "application/json"}
                    answer = await served.ada.request(method, where, content=raw, headers=headers)
                    _check(answer, f"{method} {path} {raw[:80]!r}")

    play(scenario(), within_s=300)


@pytest.mark.slow
def test_hostile_queries_are_refused_in_the_one_shape(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            await _prepared(served)
            for method, path in _addresses():
                if method != "GET":
                    continue
                where = re.sub(r"\{\w+\}", "ok", path)
                for query in QUERIES:
                    answer = await served.ada.get(where, params=query)
                    _check(answer, f"{path} {str(query)[:80]!r}")

    play(scenario(), within_s=300)
