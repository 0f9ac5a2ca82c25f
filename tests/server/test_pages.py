"""What browsers load: files of the build and nothing beside it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

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
        "/../canary.txt",
        "/%2e%2e/canary.txt",
        "/..%2fcanary.txt",
        "/assets/..%2f..%2fcanary.txt",
        "/.secret",
        "/link.txt",
        "//canary.txt",
        "/%2fetc%2fpasswd",
        "/%00",
        "/" + "x" * 5000,
        "/assets/%2e%2e/%2e%2e/canary.txt",
        "/..%5ccanary.txt",
    ],
)
def test_no_path_leads_out_of_the_build(tmp_path: Path, path: str) -> None:
    async def scenario() -> None:
        async with house(tmp_path, static=built(tmp_path)) as home, home.stranger() as stranger:
            answer = await stranger.get(path)
            assert answer.status_code in (200, 404)
            assert "canary" not in answer.text

    asyncio.run(scenario())


def test_a_name_that_no_file_can_have_is_no_fault_of_the_server(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with house(tmp_path, static=built(tmp_path)) as home, home.stranger() as stranger:
            long = "a" * 300
            assert_fault(await stranger.get(f"/assets/{long}.js"), 404, "not_found")
            assert "Mission Control" in (await stranger.get(f"/runs/{long}")).text  # an id may be
            for path in (f"/%1b]0;x%07%0dFORGED{long}", "/%0a", "/assets/%7f", "/%c2%9b"):
                assert_fault(await stranger.get(path), 404, "not_found")
            assert not [one for one in caplog.records if one.levelname in ("ERROR", "CRITICAL")]

    asyncio.run(scenario())


def test_an_address_reaches_the_log_without_control_characters(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as home, home.stranger() as stranger:

            async def broken(request: Request) -> Response:
                raise RuntimeError("a fault")

            home.app.router.routes.insert(0, Route("/broken{rest:path}", broken))
            assert_fault(await stranger.get("/broken%1b[2K%0dFORGED"), 500, "internal")
            [record] = [one for one in caplog.records if "a request failed" in one.message]
            assert "FORGED" in record.message
            assert record.message.isprintable()

    asyncio.run(scenario())


def test_without_a_build_a_page_says_what_to_do(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path, static=tmp_path / "none") as home:
            answer = await home.client.get("/")
            assert answer.status_code == 503
            assert "make setup" in answer.text
            assert (await home.client.get("/api/v1/me")).status_code == 200

    asyncio.run(scenario())
