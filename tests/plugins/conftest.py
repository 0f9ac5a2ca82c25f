"""Distributions that are planted on the path, as an installer would leave them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from artelier import plugins
from tests.cli.conftest import shell

__all__ = ["install", "shell"]

Install = Callable[..., str]

SHOUT = '''
"""A model, a tool, a kind of operation, an embedder and a command."""

import typer

from artelier import ModelReply, Price, tool
from artelier.cli.call import CliCall
from artelier.cli.command import alone, command
from artelier.operations.kinds import OperationKind, OperationResult
from artelier.operations.profile.definition import Params


class Shout:
    price = Price(input=0, output=0)

    async def complete(self, request):
        return ModelReply(text=request.messages[-1].content.upper())


@tool(side_effect=False)
def shout(text: str) -> str:
    """Say a text loudly."""
    return text.upper()


class LoudParams(Params):
    text: str


async def _run(call):
    return OperationResult(value=call.params.text.upper())


LOUD = OperationKind(name="loud", params=LoudParams, run=_run)


class Letters:
    name = "letters"
    dims = 2

    async def embed(self, texts, /):
        import numpy as np

        return [np.array([1.0, 0.0], dtype=np.float32) for _ in texts]


app = alone()


@command(app, example="artelier shout hello")
def say(call: CliCall, text: str) -> None:
    """Say a text loudly."""
    call.screen.line(text.upper())
'''

POINTS = {
    "artelier.models": {"acme": "acme_shout:Shout"},
    "artelier.tools": {"shout": "acme_shout:shout"},
    "artelier.operation_kinds": {"loud": "acme_shout:LOUD"},
    "artelier.embedders": {"letters": "acme_shout:Letters"},
    "artelier.commands": {"shout": "acme_shout:app"},
}


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """`install("Acme_Shout")` puts a distribution on the path; its entry points and modules may be given."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setattr(plugins, "_active", plugins.Plugins())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    planted: set[str] = set()

    def put(
        name: str = "Acme_Shout",
        points: Mapping[str, Mapping[str, str]] = POINTS,
        modules: Mapping[str, str] | None = None,
    ) -> str:
        for module, text in (modules if modules is not None else {"acme_shout": SHOUT}).items():
            (site / f"{module}.py").write_text(text, encoding="utf-8")
            planted.add(module)
        info = site / f"{name.lower()}-1.2.dist-info"
        info.mkdir()
        about = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\nSummary: Says things loudly.\n"
        (info / "METADATA").write_text(about, encoding="utf-8")
        lines = [
            line
            for group, entries in points.items()
            for line in (f"[{group}]", *(f"{key} = {value}" for key, value in entries.items()))
        ]
        (info / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        plugins.installed.cache_clear()
        return plugins.normalised(name)

    plugins.installed.cache_clear()
    yield put
    plugins.installed.cache_clear()
    import sys

    for module in planted:
        sys.modules.pop(module, None)


def loaded(name: str) -> Any:
    """The module, if something has imported it."""
    import sys

    return sys.modules.get(name)
