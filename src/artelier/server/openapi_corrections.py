"""Corrections of the OpenAPI document: errors are JSON also where an answer is a file or a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastapi import FastAPI


ERROR = {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorAnswer"}}}


def install(app: FastAPI) -> None:
    """Let an app describe errors as JSON also where it answers with files or streams."""
    described = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.state.late.include()
            app.openapi_schema = _correct(described())
        return app.openapi_schema

    app.openapi = openapi


def _correct(schema: dict[str, Any]) -> dict[str, Any]:
    for methods in schema["paths"].values():
        for operation in methods.values():
            for status, answer in operation["responses"].items():
                if int(status) >= 400:
                    answer["content"] = ERROR
                else:
                    answer["content"] = _without_added_json(answer.get("content", {}))
    return schema


def _without_added_json(content: dict[str, Any]) -> dict[str, Any]:
    """Without the JSON that the framework adds to what is a file or a stream."""
    others = {kind: one for kind, one in content.items() if kind != "application/json"}
    has_schema = bool(content.get("application/json", {}).get("schema"))
    return content if has_schema or not others else others
