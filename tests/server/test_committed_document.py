"""The OpenAPI document that the web application is built with is what the server says."""

from __future__ import annotations

from pathlib import Path

from artelier.server.openapi import document

WEB = Path(__file__).resolve().parents[2] / "web"


def test_the_committed_document_is_that_of_the_server() -> None:
    committed = (WEB / "openapi.json").read_text()

    assert committed == document() + "\n", ".venv/bin/python -m artelier.server.openapi > web/openapi.json"
