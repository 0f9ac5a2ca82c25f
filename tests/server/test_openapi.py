"""The document that clients are generated from: stable names, described, the same for the same code."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from artelier.server.openapi import document


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
