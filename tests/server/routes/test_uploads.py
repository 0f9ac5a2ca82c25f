"""`/uploads`: files become artifacts, whatever they are called, and nothing else is written."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import httpx
import pytest

from artelier.server.routes.uploads import slug
from tests.server.routes.served import at, good, play, refused, serving

File = tuple[str, bytes] | tuple[str, bytes, str]


async def _upload(client: httpx.AsyncClient, *files: File, **data: str) -> list[dict[str, Any]]:
    answer = await client.post("/uploads", files=[("file", one) for one in files], data=data)
    return good(answer, 201)["items"]


def test_text_json_and_bytes_are_told_apart(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            files = (
                ("notes.md", b"# Notes\r\n"),
                ("rows.csv", b"a,b\n1,2\n"),
                ("data.json", b'{"b": 1, "a": [true]}'),
                ("broken.json", b'{"b": '),
                ("picture.png", b"\x89PNG\r\n\x1a\n\0"),
                ("odd.txt", b"a\0b"),
            )
            found = await _upload(served.ada, *files)
            assert [(one["id"], one["kind"], one["media"]) for one in found] == [
                ("uploads/notes.md", "document", "text"),
                ("uploads/rows.csv", "dataset", "text"),
                ("uploads/data.json", "document", "json"),
                ("uploads/broken.json", "document", "text"),
                ("uploads/picture.png", "document", "bytes"),
                ("uploads/odd.txt", "document", "bytes"),
            ]
            shown = good(await served.ada.get(at("artifacts", "uploads/data.json")))
            assert shown["content"] == {"a": [True], "b": 1}
            for (name, content), one in zip(files, found, strict=True):
                if one["media"] != "json":
                    answer = await served.ada.get(at("artifacts", f"uploads/{name}") + "/content")
                    assert answer.content == content

    play(scenario())


def test_the_same_file_again_is_the_artifact_that_is_there(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            (first,) = await _upload(served.ada, ("a.txt", b"one"))
            (again,) = await _upload(served.ada, ("a.txt", b"one"))
            (other,) = await _upload(served.ada, ("a.txt", b"two"))
            (other_again,) = await _upload(served.ada, ("a.txt", b"two"))
            assert first["is_new"] and not again["is_new"] and again["version"] == 1
            assert other["id"].startswith("uploads/a-") and other["id"].endswith(".txt")
            assert other["is_new"] and other_again["id"] == other["id"]
            assert good(await served.ada.get(at("artifacts", "uploads/a.txt")))["content"] == "one"

    play(scenario())


def test_json_that_python_takes_for_equal_is_another_file(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            (one,) = await _upload(served.ada, ("a.json", b'{"x": 1}'))
            (two,) = await _upload(served.ada, ("a.json", b'{"x": true}'))
            assert two["is_new"] and two["id"] != one["id"]

    play(scenario())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\temp\\x.csv", "x.csv"),
        (".htaccess", "htaccess"),
        ("a b?c#d@e.TXT", "a-b-c-d-e.txt"),
        ("наука.txt", "txt"),
        ("", "file"),
        ("...", "file"),
        ("x" * 300 + ".csv", "x" * 76 + ".csv"),
        ("a\0b.csv", "a-b.csv"),
        ("-", "file"),
    ],
)
def test_a_name_is_the_last_piece_of_an_id_and_nothing_more(name: str, expected: str) -> None:
    assert slug(name) == expected


def test_nothing_is_written_beside_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above a megabyte the framework would spool a file to a disk; here there is none."""

    async def scenario() -> None:
        async with serving(tmp_path) as served:
            monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
            names = {path.name for path in tmp_path.iterdir()}
            await _upload(served.ada, ("../big.bin", b"\0" * 3_000_000))
            assert {path.name for path in tmp_path.iterdir()} == names

    play(scenario())


def test_broken_uploads_are_refused_in_the_one_shape(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, upload_max_bytes=100_000) as served:
            post = served.ada.post
            refused(await post("/uploads", json={}), 422, "invalid_request")
            refused(await post("/uploads", files=[("other", ("a", b"x"))]), 422)
            refused(await post("/uploads", data={"file": "no file"}), 422)
            kind = {"files": [("file", ("a.txt", b"x"))], "data": {"kind": "agent"}}
            refused(await post("/uploads", **kind), 422, "invalid_request")
            many = [("file", (f"{n}.txt", b"x")) for n in range(40)]
            refused(await post("/uploads", files=many), 422, "invalid_request")
            large = [("file", ("a.bin", b"x" * 200_000))]
            refused(await post("/uploads", files=large), 413, "too_large")
            torn = {"content-type": "multipart/form-data; boundary=xx"}
            refused(await post("/uploads", content=b"--xx\r\nnonsense", headers=torn), 422)
            assert good(await served.ada.get("/artifacts"))["items"] == []

    play(scenario())
