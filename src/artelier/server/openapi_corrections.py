"""Corrections of the OpenAPI document: the names of its schemas, and errors that are JSON beside files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from fastapi import FastAPI


REFS = "#/components/schemas/"
ERROR = {"application/json": {"schema": {"$ref": f"{REFS}ErrorAnswer"}}}


def install(app: FastAPI) -> None:
    """Let an app name schemas by their titles, and describe errors as JSON also beside files and streams."""
    described = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.state.late.include()
            app.openapi_schema = _correct(described())
        return app.openapi_schema

    app.openapi = openapi


def _correct(schema: dict[str, Any]) -> dict[str, Any]:
    _rename_schemas(schema)
    for methods in schema["paths"].values():
        for operation in methods.values():
            for status, answer in operation["responses"].items():
                if int(status) >= 400:
                    answer["content"] = ERROR
                else:
                    answer["content"] = _without_added_json(answer.get("content", {}))
    return schema


def _rename_schemas(schema: dict[str, Any]) -> None:
    """Give each schema the name of its title; the framework has called it after its class."""
    schemas: dict[str, Any] = schema["components"]["schemas"]
    titles = {name: re.sub(r"[^a-zA-Z0-9.\-_]", "_", one.get("title", name)) for name, one in schemas.items()}
    assert len(set(titles.values())) == len(titles), "two wire models have the same title"
    _rename_refs(schema, {REFS + name: REFS + title for name, title in titles.items() if name != title})
    renamed = sorted(((titles[name], one) for name, one in schemas.items()), key=lambda pair: pair[0])
    schema["components"]["schemas"] = dict(renamed)


def _rename_refs(node: dict[str, Any] | list[Any], names: dict[str, str]) -> None:
    if isinstance(node, dict) and node.get("$ref") in names:
        node["$ref"] = names[node["$ref"]]
    for one in node.values() if isinstance(node, dict) else node:
        if isinstance(one, dict | list):
            _rename_refs(cast("dict[str, Any] | list[Any]", one), names)


def _without_added_json(content: dict[str, Any]) -> dict[str, Any]:
    """Without the JSON that the framework adds to what is a file or a stream."""
    others = {kind: one for kind, one in content.items() if kind != "application/json"}
    has_schema = bool(content.get("application/json", {}).get("schema"))
    return content if has_schema or not others else others
