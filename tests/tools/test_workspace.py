"""The set of shipped tools, and that no path leads out of the workspace."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from artelier.errors import InvalidArguments, InvalidRequest, ToolFailed
from artelier.ports.tool import PersonAnswer
from artelier.tools import Tool, ToolRegistry, workspace_tools

from .conftest import Call
from .contexts import Recorder

NAMES = (
    "ask_person",
    "calculator",
    "describe_tables",
    "list_dir",
    "python",
    "query_sql",
    "read_file",
    "search_text",
    "write_file",
)

OUTSIDE = (
    "../secret.txt",
    "..",
    "a/../../secret.txt",
    "./../secret.txt",
    "/etc/passwd",
    "//etc/passwd",
    "~/secret.txt",
    "~root/x",
    "..\\secret.txt",
    "C:\\secret.txt",
    "link-to-file",
    "link-to-folder/secret.txt",
    "link-up/secret.txt",
    "inside/../link-to-file",
    "a\0b",
    "\0",
    "",
    ".env",
    "inside/.env",
    ".git/config",
    "link-to-hidden",
    "artelier-out/report.md",
    "loop",
    "loop/x",
    "x/" * 100 + "y",
    "n" * 300,
    "n" * 100_000,
    "../" * 300 + "etc/passwd",
    "/dev/zero",
    "/proc/self/environ",
    "link-to-device",
    "\u202e../secret.txt",
    "..\u2215secret.txt",
    "%2e%2e/secret.txt",
    "inside/\n../../../secret.txt",
)


@pytest.fixture
def trapped(root: Path) -> Path:
    (root / "inside").mkdir()
    (root / "inside" / ".env").write_text("KEY=top secret")
    (root / ".env").write_text("KEY=top secret")
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("top secret")
    (root / "artelier-out").mkdir()
    (root / "artelier-out" / "report.md").write_text("top secret")
    os.symlink("../secret.txt", root / "link-to-file")
    os.symlink("..", root / "link-to-folder")
    os.symlink(root.parent, root / "link-up")
    os.symlink(".env", root / "link-to-hidden")
    os.symlink("/dev/zero", root / "link-to-device")
    os.symlink("loop", root / "loop")
    os.mkfifo(root / "fifo")
    return root


def state_of(folder: Path) -> dict[str, str]:
    """Everything below a folder, with the content of files."""
    return {
        str(path.relative_to(folder)): path.read_text() if path.is_file() else ""
        for path in sorted(folder.rglob("*"))
        if not path.is_symlink() and not path.is_fifo()
    }


def test_shipped_tools_are_these(tools: dict[str, Tool[..., Any]], root: Path):
    assert tuple(tools) == NAMES
    assert [item.name for item in tools.values() if item.side_effect] == ["write_file"]
    assert ToolRegistry(tools.values()).names == NAMES
    assert "write_file" not in [item.name for item in workspace_tools(root, writable=False)]


def test_schemas_are_closed_described_and_small(tools: dict[str, Tool[..., Any]]):
    schemas = ToolRegistry(tools.values()).schemas()

    assert all(schema.description for schema in schemas)
    assert all(schema.parameters["additionalProperties"] is False for schema in schemas)
    assert len(json.dumps([schema.parameters for schema in schemas])) < 3_000


def test_workspace_must_be_a_folder(tmp_path: Path):
    (tmp_path / "file").write_text("")

    for place in (tmp_path / "missing", tmp_path / "file"):
        with pytest.raises(InvalidRequest, match="not a workspace"):
            workspace_tools(place)


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: repr(path[:30]))
@pytest.mark.parametrize("name", ["read_file", "list_dir", "search_text", "write_file"])
def test_no_path_leads_out_of_the_workspace(call: Call, trapped: Path, name: str, path: str):
    before = state_of(trapped.parent)
    extra = {"search_text": {"query": "secret"}, "write_file": {"text": "owned"}}.get(name, {})

    try:
        result = call(name, path=path, **extra)
    except (ToolFailed, InvalidArguments) as error:
        text = str(error)
        after = state_of(trapped.parent)
        assert {k: v for k, v in after.items() if k in before} == before
    else:
        # Names that only look like a way out are ordinary names of new files.
        text = json.dumps(result)
        assert name == "write_file"
        assert (trapped / path).resolve().is_relative_to(trapped)
    assert "top secret" not in text
    assert str(trapped.parent) not in text
    assert len(text) < 1_000


def test_link_inside_the_workspace_may_be_followed(call: Call, root: Path):
    (root / "data").mkdir()
    (root / "data" / "a.txt").write_text("hello")
    os.symlink("data/a.txt", root / "b.txt")
    os.symlink("data", root / "more")

    assert call("read_file", path="b.txt")["text"] == "hello"
    assert call("read_file", path="more/a.txt")["text"] == "hello"


@pytest.mark.parametrize("name", ["read_file", "search_text"])
def test_fifo_is_refused_and_not_waited_for(call: Call, trapped: Path, name: str):
    extra = {"query": "x"} if name == "search_text" else {}

    with pytest.raises(ToolFailed, match="no regular file"):
        call(name, path="fifo", **extra)


def test_workspace_reached_by_a_link_works(tmp_path: Path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.txt").write_text("hello")
    os.symlink("real", tmp_path / "alias")

    (read,) = [item for item in workspace_tools(tmp_path / "alias") if item.name == "read_file"]
    result: Any = asyncio.run(read.call({"path": "a.txt"}, Recorder().context()))

    assert result["text"] == "hello"


def test_ask_person_returns_what_the_person_said(tools: dict[str, Tool[..., Any]]):
    recorder = Recorder(answer=PersonAnswer(decision="deny", note="not this week"))
    ask = tools["ask_person"]

    result = asyncio.run(ask.call({"question": "Ship it?"}, recorder.context()))

    assert result == {"decision": "deny", "note": "not this week"}
    assert recorder.questions == [("Ship it?", None)]


def test_python_runs_in_the_sandbox(call: Call):
    assert call("python", code="print('hi')\nsum(range(4))") == {"value": 6, "printed": "hi\n"}


def test_python_has_the_clock_of_the_machine(call: Call):
    assert call("python", code="import datetime\ndatetime.date.today().year")["value"] >= 2025


@pytest.mark.parametrize(
    "code", ["open('/etc/passwd').read()", "import os\nos.environ", "import socket", "x = = 1", "1 / 0"]
)
def test_python_explains_what_the_sandbox_refuses(call: Call, code: str):
    from artelier.sandbox import SandboxError

    with pytest.raises(SandboxError, match=r"line \d"):
        call("python", code=code)
