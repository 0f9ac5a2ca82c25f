"""The document that clients are generated from: stable names, described, the same for the same code."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from artelier.server.openapi import document
from artelier.server.wire.base import ResponseModel, describe_record
from tests.server.house import house


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    return json.loads(document())


def operations(schema: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (path, method, spec) for path, methods in schema["paths"].items() for method, spec in methods.items()
    ]


def test_operation_ids_are_the_resource_and_a_verb(schema: dict[str, Any]) -> None:
    names = [spec["operationId"] for _, _, spec in operations(schema)]

    assert len(names) == len(set(names))
    assert {"runs_list", "runs_pause", "events_page", "approvals_list", "auth_me"} <= set(names)
    for _, _, spec in operations(schema):
        assert spec["operationId"].startswith(spec["tags"][0].replace("-", "_") + "_")


def test_every_operation_is_described_and_says_its_errors_in_the_one_shape(schema: dict[str, Any]) -> None:
    for path, method, spec in operations(schema):
        assert spec.get("description"), (path, method)
        for status, answer in spec["responses"].items():
            if int(status) >= 400:
                shape = answer["content"]["application/json"]["schema"]
                assert shape == {"$ref": "#/components/schemas/ErrorAnswer"}, (path, status)


def test_every_answer_in_json_has_a_model(schema: dict[str, Any]) -> None:
    for path, method, spec in operations(schema):
        for status, answer in spec["responses"].items():
            content = answer.get("content", {})
            if int(status) < 300 and "application/json" in content and path.count("prompt") == 0:
                assert content["application/json"].get("schema"), (path, method)


def test_the_document_is_printed_the_same_each_time(schema: dict[str, Any]) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "artelier.server.openapi"], capture_output=True, text=True, check=True
    )

    assert json.loads(ran.stdout) == schema
    assert ran.stdout == document() + "\n"


def test_the_document_is_made_once_however_many_ask_and_never_on_the_event_loop(
    tmp_path: Path, schema: dict[str, Any]
) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as made:
            making, threads = made.app.openapi, list[int]()

            def spied() -> dict[str, Any]:
                threads.append(threading.get_ident())
                return making()

            made.app.openapi = spied
            asked = (made.client.get("/api/v1/openapi.json") for _ in range(20))
            answers = await asyncio.gather(*asked, made.client.get("/api/v1/openapi.json"))
            later = await made.client.get("/api/v1/openapi.json")

            assert {answer.status_code for answer in answers} == {200}
            assert all(answer.json() == schema for answer in (answers[0], later))
            assert later.headers["Content-Type"] == "application/json"
            assert len(threads) == 1
            assert threads[0] != threading.get_ident()

    asyncio.run(scenario())


def test_a_document_that_could_not_be_made_is_made_when_it_is_asked_for_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as made:
            making, failures = made.app.openapi, [MemoryError("once")]

            def fails_once() -> dict[str, Any]:
                if failures:
                    raise failures.pop()
                return making()

            made.app.openapi = fails_once
            assert (await made.client.get("/api/v1/openapi.json")).status_code == 500
            assert (await made.client.get("/api/v1/openapi.json")).status_code == 200

    asyncio.run(scenario())


def test_a_mounted_application_names_its_own_address_in_the_document(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as made:
            mounted = httpx.ASGITransport(app=made.app, root_path="/desk")
            headers = dict(made.client.headers) | {
                "Cookie": "; ".join(f"{cookie.name}={cookie.value}" for cookie in made.client.cookies.jar)
            }
            async with httpx.AsyncClient(
                transport=mounted, base_url=str(made.client.base_url), headers=headers
            ) as client:
                answer = await client.get("/desk/api/v1/openapi.json")

            assert answer.json()["servers"] == [{"url": "/desk"}]
            assert "servers" not in (await made.client.get("/api/v1/openapi.json")).json()

    asyncio.run(scenario())


class _Leg(NamedTuple):
    km: int
    """None where nobody has measured it."""


class _Way(NamedTuple):
    name: str
    legs: tuple[_Leg, ...]
    sums: Mapping[str, int] | None
    secret: str
    kind: str


@describe_record(_Leg)
class _LegOut(ResponseModel):
    """A leg."""


@describe_record(_Way, without=("secret",))
class _WayOut(ResponseModel):
    """A way."""

    kind: str | None
    """Said here."""
    more: int = 0


def test_a_model_has_the_fields_of_its_record_and_what_it_says_itself() -> None:
    properties = _WayOut.model_json_schema()["properties"]
    way = _Way("home", (_Leg(3), _Leg(4)), None, "s", "road")

    assert list(properties) == ["name", "legs", "sums", "kind", "more"]
    assert properties["kind"]["description"] == "Said here."
    assert _LegOut.model_json_schema()["properties"]["km"]["description"].startswith("null where nobody")
    assert _WayOut.model_validate(way).model_dump() == {
        "name": "home",
        "legs": [{"km": 3}, {"km": 4}],
        "sums": None,
        "kind": "road",
        "more": 0,
    }
