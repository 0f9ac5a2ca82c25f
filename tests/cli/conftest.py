"""A shell in an empty folder: commands run through the real entry point, free of the machine's settings."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from artelier.cli import main
from artelier.testing.faults import ServerStep
from artelier.testing.openai_server import OpenAIServer

FOREIGN = ("ARTELIER_", "OPENAI_", "ANTHROPIC_", "GROQ_", "MISTRAL_", "GOOGLE_", "GEMINI_")


@dataclass(frozen=True)
class Ran:
    """What a command left."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, Any]:
        return self.json["error"]


class Shell:
    """`shell("runs", "list")` runs a command in this process, in a folder of its own."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str], environ: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._capsys = capsys
        self._environ = environ

    def __call__(self, *words: str) -> Ran:
        self._capsys.readouterr()
        code = main(words)
        out, err = self._capsys.readouterr()
        return Ran(code, out, err)

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def set(self, name: str, value: str) -> None:
        self._environ.setenv(name, value)


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    for name in list(os.environ):
        if name.startswith(FOREIGN):
            monkeypatch.delenv(name)
    monkeypatch.setenv("LOGNAME", "kim")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state of kim"))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return Shell(tmp_path, capsys, monkeypatch)


class Provider:
    """An OpenAI-compatible server with a script that a test fills."""

    def __init__(self, server: OpenAIServer, steps: list[ServerStep]) -> None:
        self.server = server
        self._steps = steps

    def says(self, *steps: ServerStep) -> None:
        self._steps.extend(steps)

    @property
    def calls(self) -> int:
        return len(self.server.requests)


@pytest.fixture
def provider(shell: Shell) -> Iterator[Provider]:
    """The model `openai:gpt-5-mini`, answered by a script on loopback; it is the default model."""
    steps: list[ServerStep] = []
    with OpenAIServer(steps) as server:
        shell.set("OPENAI_API_KEY", "test")
        shell.set("OPENAI_BASE_URL", server.base_url)
        shell.set("ARTELIER_MODEL", "openai:gpt-5-mini")
        yield Provider(server, steps)


@pytest.fixture
def sales(shell: Shell) -> str:
    """A small workspace."""
    shell.write("sales/2024.csv", "region,amount\nnorth,3\nsouth,4\n")
    return "sales"
