"""What browsers load: files of the build and nothing beside it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.server.house import assert_fault, house


def built(folder: Path) -> Path:
    static = folder / "static"
    (static / "assets").mkdir(parents=True)
    (static / "index.html").write_text("<title>Mission Control</title>")
    (static / "assets" / "app-4f2a.js").write_text("// code")
    (static / ".secret").write_text("canary")
    (folder / "canary.txt").write_text("canary")
    (static / "link.txt").symlink_to(folder / "canary.txt")
    return static


def test_the_application_answers_every_address_of_its_own(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path, static=built(tmp_path)) as home, home.stranger() as stranger:
            for path in ("/", "/chat/7", "/runs/m1%2Ffigures", "/index.html"):
                answer = await stranger.get(path)
                assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-cache")
                assert "Mission Control" in answer.text
            code = await stranger.get("/assets/app-4f2a.js")
            assert "immutable" in code.headers["cache-control"]
            assert "javascript" in code.headers["content-type"]
            assert_fault(await stranger.get("/assets/old-1111.js"), 404, "not_found")

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "path",
    [
        "/../canary.txt", "/%2e%2e/canary.txt", "/..%2fcanary.txt", "/assets/..%2f..%2fcanary.txt",
        "/.secret", "/link.txt", "//canary.txt", "/%2fetc%2fpasswd", "/%00", "/" + "x" * 5000,
        "/assets/%2e%2e/%2e%2e/canary.txt", "/..%5ccanary.txt",
    ],
)  # fmt: skip
def test_no_path_leads_out_of_the_build(tmp_path: Path, path: str) -> None:
    async def scenario() -> None:
        async with house(tmp_path, static=built(tmp_path)) as home, home.stranger() as stranger:
            answer = await stranger.get(path)
            assert answer.status_code in (200, 404)
            assert "canary" not in answer.text

    asyncio.run(scenario())


def test_without_a_build_a_page_says_what_to_do(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path, static=tmp_path / "none") as home:
            answer = await home.client.get("/")
            assert answer.status_code == 503
            assert "make setup" in answer.text
            assert (await home.client.get("/api/v1/me")).status_code == 200

    asyncio.run(scenario())
