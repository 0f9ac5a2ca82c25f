"""A dependency earns its place: each one is named, with its reason, in decision 0001."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from tests.repository.sources import ROOT

_NAME = re.compile(r"^[A-Za-z0-9._-]+")


def requirements(project: dict[str, Any]) -> set[str]:
    """Names of all packages that a `pyproject.toml` asks for: needed, optional, for work and to build."""
    table = project["project"]
    wanted: list[str] = [*table.get("dependencies", []), *project["build-system"]["requires"]]
    for group in table.get("optional-dependencies", {}).values():
        wanted += group
    for group in project.get("dependency-groups", {}).values():
        wanted += [item for item in group if isinstance(item, str)]
    return {match[0].lower() for item in wanted if (match := _NAME.match(item))}


def unexplained(project: dict[str, Any], decision: str) -> list[str]:
    """Packages without a row of their own in a table of the decision."""
    explained = {name.lower() for row in _first_cells(decision) for name in row}
    sources = project.get("tool", {}).get("uv", {}).get("sources", {})
    own = {project["project"]["name"], *(name for name, one in sources.items() if "workspace" in one)}
    return sorted(requirements(project) - explained - own)


def _first_cells(text: str) -> list[list[str]]:
    rows = (line.split("|") for line in text.splitlines() if line.startswith("|"))
    return [re.findall(r"`([^`]+)`", cells[1]) for cells in rows if len(cells) > 2]


def test_every_dependency_has_a_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    decision = (ROOT / "docs/decisions/0001-dependencies.md").read_text(encoding="utf-8")

    assert unexplained(project, decision) == []


def test_a_dependency_without_a_reason_is_found() -> None:
    project = {
        "build-system": {"requires": ["hatchling>=1"]},
        "project": {
            "name": "artelier",
            "dependencies": ["msgspec>=0.20", "leftpad"],
            "optional-dependencies": {"x": ["slim[openai]>=2", "artelier[y]"]},
        },
        "dependency-groups": {"dev": ["pytest>=8", {"include-group": "more"}]},
    }
    decision = "| package | why |\n|---|---|\n| `msgspec` | fast |\n| `pytest` | `leftpad` |\n"

    assert unexplained(project, decision) == ["hatchling", "leftpad", "slim"]
