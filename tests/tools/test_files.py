"""Listing, reading, writing and searching files."""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from artelier.errors import InvalidArguments, ToolFailed
from artelier.tools import Tool
from artelier.tools.workspace.files import WorkspaceFolder
from artelier.tools.workspace.search import PatternMatcher, search

from .conftest import Call
from .contexts import Recorder


def test_list_is_sorted_by_path_and_leaves_hidden_files_out(call: Call, root: Path):
    (root / "b").mkdir()
    (root / "b" / "inner.txt").write_text("12345")
    (root / "b-c.txt").write_text("")
    (root / "a.txt").write_text("1")
    (root / ".hidden").write_text("")
    os.symlink("a.txt", root / "link")
    os.symlink("missing", root / "dangling")

    flat = call("list_dir")
    deep = call("list_dir", recursive=True)

    assert flat == {
        "path": ".",
        "entries": [
            {"path": "a.txt", "type": "file", "size_bytes": 1},
            {"path": "b", "type": "dir", "size_bytes": 0},
            {"path": "b-c.txt", "type": "file", "size_bytes": 0},
            {"path": "link", "type": "file", "size_bytes": 1},
        ],
        "truncated": False,
    }
    assert [entry["path"] for entry in deep["entries"]] == ["a.txt", "b", "b-c.txt", "b/inner.txt", "link"]
    assert call("list_dir", path="b/")["entries"] == [
        {"path": "b/inner.txt", "type": "file", "size_bytes": 5}
    ]


def test_list_is_bounded(call: Call, root: Path):
    for number in range(1_003):
        (root / f"f{number:04}").touch()

    result = call("list_dir")

    assert len(result["entries"]) == 1_000
    assert result["truncated"] is True


def test_list_does_not_follow_links_in_circles(call: Call, root: Path):
    (root / "a").mkdir()
    os.symlink("..", root / "a" / "up")

    paths = [entry["path"] for entry in call("list_dir", recursive=True)["entries"]]

    assert paths == ["a", "a/up"]


def test_name_that_is_no_utf8_is_shown_and_not_concealed(call: Call, root: Path):
    (root / os.fsdecode(b"caf\xe9.txt")).write_text("x")

    assert [entry["path"] for entry in call("list_dir")["entries"]] == ["caf\\xe9.txt"]


@pytest.mark.parametrize(("path", "problem"), [("a.txt", "not a folder"), ("no", "does not exist")])
def test_list_of_no_folder_is_explained(call: Call, root: Path, path: str, problem: str):
    (root / "a.txt").write_text("")

    with pytest.raises(ToolFailed, match=problem):
        call("list_dir", path=path)


def test_read_goes_on_where_it_stopped(call: Call, root: Path):
    (root / "a.txt").write_text("äbcdefg", encoding="utf-8")

    first = call("read_file", path="a.txt", limit=4)
    second = call("read_file", path="./a.txt", offset=first["next_offset"], limit=4)

    assert first == {
        "path": "a.txt",
        "text": "äbcd",
        "line": 1,
        "offset": 0,
        "total_chars": 7,
        "next_offset": 4,
    }
    assert (second["text"], second["next_offset"]) == ("efg", None)
    assert call("read_file", path="a.txt", offset=99)["text"] == ""


def test_read_keeps_line_ends_and_drops_the_byte_order_mark(call: Call, root: Path):
    (root / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r")

    assert call("read_file", path="a.txt")["text"] == "one\r\ntwo\r"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0", "binary"),
        (b"text\0more", "binary"),
        ("Пётр и волк".encode("cp1251"), "not UTF-8 text .byte 2., and its encoding is unknown"),
    ],
)
def test_read_of_no_text_is_explained(call: Call, root: Path, content: bytes, problem: str):
    (root / "a.bin").write_bytes(content)

    with pytest.raises(ToolFailed, match=problem):
        call("read_file", path="a.bin")


def test_read_of_a_huge_file_is_refused_before_it_is_read(call: Call, root: Path):
    with open(root / "huge.txt", "wb") as file:
        file.truncate(10**12)

    with pytest.raises(ToolFailed, match="1000000000000 bytes"):
        call("read_file", path="huge.txt")


@pytest.mark.parametrize(
    "arguments",
    [
        {"path": "a", "offset": -1},
        {"path": "a", "limit": 0},
        {"path": "a", "limit": 10**9},
        {"path": 3},
        {"path": "a", "encoding": "latin-1"},
        {},
    ],
)
def test_read_refuses_arguments_outside_its_bounds(call: Call, arguments: dict[str, Any]):
    with pytest.raises(InvalidArguments):
        call("read_file", **arguments)


def test_write_makes_folders_and_returns_a_receipt(call: Call, root: Path):
    receipt = call("write_file", path="new/deep/a.txt", text="hé\n")

    assert (root / "new/deep/a.txt").read_bytes() == "hé\n".encode()
    assert receipt == {
        "path": "new/deep/a.txt",
        "size_bytes": 4,
        "sha256": hashlib.sha256("hé\n".encode()).hexdigest(),
    }


def test_write_replaces_and_keeps_permissions(call: Call, root: Path):
    target = root / "a.txt"
    target.write_text("old")
    target.chmod(0o640)

    call("write_file", path="a.txt", text="new")

    assert target.read_text() == "new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert [path.name for path in root.iterdir()] == ["a.txt"]


def test_write_never_shows_half_of_a_file(call: Call, root: Path):
    """A reader that opened the old file keeps it whole: the new one is put in its place at once."""
    (root / "a.txt").write_text("old")
    with open(root / "a.txt") as reader:
        call("write_file", path="a.txt", text="new" * 10_000)

        assert reader.read() == "old"


@pytest.mark.parametrize("path", ["folder", "folder/", "link", "fifo", ".", "a.txt/b"])
def test_write_refuses_what_is_no_file(call: Call, root: Path, path: str):
    (root / "folder").mkdir()
    (root / "a.txt").write_text("kept")
    os.symlink("a.txt", root / "link")
    os.mkfifo(root / "fifo")

    with pytest.raises(ToolFailed):
        call("write_file", path=path, text="x")

    assert (root / "a.txt").read_text() == "kept"
    assert sorted(path.name for path in root.iterdir()) == ["a.txt", "fifo", "folder", "link"]


@pytest.mark.skipif(os.geteuid() == 0, reason="permissions do not bind root")
def test_write_into_a_closed_folder_is_explained(call: Call, root: Path):
    (root / "closed").mkdir(mode=0o500)

    with pytest.raises(ToolFailed, match="Permission denied"):
        call("write_file", path="closed/a.txt", text="x")


def test_write_cleans_up_after_an_earlier_try_that_died(tools: dict[str, Tool[..., Any]], root: Path):
    write = tools["write_file"]
    digest = hashlib.sha256(b"key-1/a.txt").hexdigest()[:24]
    (root / f".{digest}.artelier").write_text("half of a")

    context = Recorder().context(key="key-1")
    asyncio.run(write.call({"path": "a.txt", "text": "whole"}, context))

    assert [path.name for path in root.iterdir()] == ["a.txt"]


def test_probe_settles_a_write_by_its_content(tools: dict[str, Tool[..., Any]], root: Path):
    write = tools["write_file"]
    arguments = {"path": "a.txt", "text": "text"}

    async def probe() -> Any:
        assert write.probe is not None
        return await write.probe("key-1", arguments)

    with pytest.raises(ToolFailed, match="does not exist"):
        asyncio.run(probe())
    (root / "a.txt").write_text("other")
    with pytest.raises(ToolFailed, match="other content"):
        asyncio.run(probe())
    (root / "a.txt").write_text("text and more")
    with pytest.raises(ToolFailed, match="other content"):
        asyncio.run(probe())
    receipt = asyncio.run(write.call(arguments, Recorder().context()))
    assert asyncio.run(probe()) == receipt


def test_search_finds_lines_in_order(call: Call, root: Path):
    (root / "b.txt").write_text("Alpha\r\nbeta\r\nALPHA beta\r\n")
    (root / "a").mkdir()
    (root / "a" / "x.md").write_text("no\nalpha")
    (root / "c.bin").write_bytes(b"alpha\0")
    (root / ".hidden").write_text("alpha")

    result = call("search_text", query="alpha")

    assert result == {
        "hits": [
            {"path": "a/x.md", "line": 2, "text": "alpha"},
            {"path": "b.txt", "line": 1, "text": "Alpha"},
            {"path": "b.txt", "line": 3, "text": "ALPHA beta"},
        ],
        "truncated": False,
    }
    assert len(call("search_text", query="alpha", path="b.txt")["hits"]) == 2
    assert call("search_text", query="alpha", max_hits=2)["truncated"] is True
    assert call("search_text", query="alpha", max_hits=3)["truncated"] is False


def test_plain_search_has_no_special_characters(call: Call, root: Path):
    (root / "a.txt").write_text("a.c\nabc\n(a+)+$\n")

    assert [hit["line"] for hit in call("search_text", query="a.c")["hits"]] == [1]
    assert [hit["line"] for hit in call("search_text", query="(a+)+$")["hits"]] == [3]


def test_search_by_pattern(call: Call, root: Path):
    (root / "a.txt").write_text("one 12\nTwo 345\r\n\nthree\n")

    hits = call("search_text", query=r"^[Tt]wo\s+\d{3}$", regex=True)["hits"]

    assert hits == [{"path": "a.txt", "line": 2, "text": "Two 345"}]


def test_search_cuts_long_lines(call: Call, root: Path):
    (root / "a.txt").write_text("x" * 100_000)

    plain = call("search_text", query="x")["hits"][0]
    (pattern,) = call("search_text", query="x+", regex=True)["hits"]

    assert len(plain["text"]) == len(pattern["text"]) == 500


def test_search_says_when_a_file_was_too_large(call: Call, root: Path):
    (root / "a.txt").write_text("needle")
    with open(root / "huge.log", "wb") as file:
        file.truncate(10**10)

    result = call("search_text", query="needle")

    assert len(result["hits"]) == 1
    assert result["truncated"] is True


@pytest.mark.parametrize("pattern", ["(", "[", "a{5,2}", "(?P<x", "*", "(?<=a+)b"])
def test_broken_pattern_is_explained(call: Call, root: Path, pattern: str):
    (root / "a.txt").write_text("x")

    with pytest.raises(ToolFailed, match="not a regular expression"):
        call("search_text", query=pattern, regex=True)


@pytest.mark.parametrize(
    "pattern", [r"(a+)+$", r"(a|aa)+$", r"(a|a?)+$", r"(.*a){30}b", r"^(([a-z])+.)+[A-Z]$"]
)
def test_pattern_that_never_ends_is_stopped(root: Path, pattern: str):
    (root / "a.txt").write_text("a" * 60 + "!")
    matcher = PatternMatcher(pattern, time_s=0.5)

    with pytest.raises(ToolFailed, match="took longer than"):
        search(WorkspaceFolder(root), pattern, ".", hits_max=5, matcher=matcher)


@pytest.mark.parametrize("query", ["", "x" * 1_001])
def test_query_of_no_use_is_refused(call: Call, query: str):
    with pytest.raises(ToolFailed, match="not a query"):
        call("search_text", query=query)
