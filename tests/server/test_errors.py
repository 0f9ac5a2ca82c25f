"""Every route that can fail does so in one shape, whatever is asked, and never with what is inside."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from artelier import errors
from artelier.errors import ArtelierError, Corrupt, CorruptStore, StoreFull
from artelier.kernel.steps.failures import RecordedError
from artelier.server.errors import STATUSES, status_of, wire_of
from artelier.server.settings import ServerSettings
from artelier.testing import ManualClock
from tests.server.house import asking, assert_fault, documented, house, spoken

HOSTILE = (
    "nobody",
    "..%2F..%2Fetc%2Fpasswd",
    "%00",
    "%FF%FE",
    "x" * 10_000,
    "'%20OR%201=1--",
    "%F0%9F%92%A9",
    "a%2523b",
)
BROKEN = [b"", b"null", b"[]", b"{", b'{"x": 1e999}', b'"\\ud800"', b"\xff", b"[" * 50_000]


def operations() -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (path, method, spec)
        for path, methods in documented().items()
        for method, spec in methods.items()
        if not path.endswith(("/login", "/logout"))
    ]


def test_every_route_answers_a_hostile_id_in_the_one_shape(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as home:
            await asking(home.kernel, "m1")
            for path, method, _ in operations():
                if "{" not in path:
                    continue
                for id_ in HOSTILE:
                    address = re.sub(r"\{[^}]*\}", id_, path)
                    answer = await home.client.request(method, address, json={})
                    assert 400 <= answer.status_code < 500, (method, address[:80], answer.text)
                    assert_fault(answer, answer.status_code, answer.json()["error"]["code"])

    asyncio.run(scenario())


@pytest.mark.parametrize("body", BROKEN)
def test_every_route_answers_a_broken_body_in_the_one_shape(tmp_path: Path, body: bytes) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as home:
            headers = {"Content-Type": "application/json"}
            for path, method, spec in operations():
                if method == "get" or "application/json" not in str(spec.get("requestBody")):
                    continue
                address = path.replace("{", "").replace("}", "")
                answer = await home.client.request(method, address, content=body, headers=headers)
                if answer.status_code < 400:
                    continue
                assert answer.status_code in (404, 409, 413, 422), (method, path, answer.text)
                assert_fault(answer, answer.status_code, answer.json()["error"]["code"])

    asyncio.run(scenario())


def test_a_misfit_names_the_field_and_does_not_repeat_what_came(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as home:
            asked = {"step": "s", "answer": "perhaps-canary", "extra": "canary"}
            answer = await home.client.post("/api/v1/runs/m1/reconcile", json=asked)
            error = assert_fault(answer, 422, "invalid_request")
            assert "body.answer" in error["message"] and "body.extra" in error["message"]
            assert "canary" not in answer.text
            page = await home.client.get("/api/v1/runs", params={"limit": "many", "after": -1})
            assert "query.limit" in assert_fault(page, 422, "invalid_request")["message"]

    asyncio.run(scenario())


def test_the_router_s_own_refusals_have_the_shape_too(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as home:
            for path in ("/api/v1/nothing", "/api/v1", "/api/", "/api/v1/runs/", "/api/v2/runs"):
                assert_fault(await home.client.get(path), 404, "not_found")
            wrong = await home.client.delete("/api/v1/runs")
            assert_fault(wrong, 405, "method_not_allowed")

    asyncio.run(scenario())


def test_what_nobody_expected_is_answered_without_a_word_of_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A clock that breaks stands for any mistake of ours."""

    class Broken(ManualClock):
        is_broken = False

        def now_us(self) -> int:
            if self.is_broken:
                raise RuntimeError(f"canary in {__file__}")
            return super().now_us()

    async def scenario() -> None:
        clock = Broken()
        async with house(tmp_path, clock=clock) as home:
            clock.is_broken = True
            answer = await home.client.get("/api/v1/runs")
            clock.is_broken = False
            assert_fault(answer, 500, "internal")
            assert "canary" not in answer.text and ".py" not in answer.text
            assert answer.headers["x-content-type-options"] == "nosniff"
        assert "canary" in caplog.text, "the server's own log has it"

    asyncio.run(scenario())


def test_what_the_store_says_names_no_file() -> None:
    for error in (
        StoreFull("disk full", got="/home/ada/.artelier/state.db"),
        CorruptStore("chain of /home/ada/state.db broken", got="x", hint="/home/ada"),
    ):
        assert "/home" not in str(wire_of(error))
        assert wire_of(error)["error"]["code"] == error.code


def test_every_error_has_the_status_of_its_family() -> None:
    """One of no family tells of code that failed; only what is ours to mend is a server error."""
    families = [kind for kind, _ in STATUSES if kind is not ArtelierError]
    known = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    for kind in known:
        if issubclass(kind, ArtelierError) and kind is not ArtelierError:
            assert any(issubclass(kind, family) for family in families), kind
            assert (status_of(kind("x")) == 500) == issubclass(kind, Corrupt)
    assert status_of(RecordedError("x")) == 409


@pytest.mark.corrupts
def test_a_damaged_store_is_told_without_its_path(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path, "hello") as home:
            await spoken(home.kernel, "m1", "hi")
            db = sqlite3.connect(tmp_path / "state.db")
            db.execute("UPDATE blobs SET content = x'00'")
            db.commit()
            db.close()
            answer = await home.client.get("/api/v1/runs/m1/prompt", params={"step": "1"})
            assert_fault(answer, 500, "corrupt_store")
            assert str(tmp_path) not in answer.text

    asyncio.run(scenario())


def test_settings_hold_what_the_documentation_says() -> None:
    settings = ServerSettings()
    assert (settings.body_max_bytes, settings.upload_max_bytes) == (1024**2, 64 * 1024**2)
    assert settings.names == {"localhost", "127.0.0.1", "::1"}
