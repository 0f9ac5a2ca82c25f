"""Values in names and errors at the server, the command line and in files that are imported."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest

from artelier import Kernel, Run, RunSuspended
from artelier.errors import InvalidRequest
from artelier.pii.vault import placeholders_in
from tests.cli.conftest import Shell, shell
from tests.kernel.stage import play
from tests.pii.test_names import ACME, EMAIL, IBAN, assert_clean, assert_nowhere, opened
from tests.server.test_personal import guarded

__all__ = ["shell"]

KEY = "a vault key for tests"


def test_the_server_refuses_a_name_and_repeats_no_value(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    async def scenario() -> None:
        async with guarded(tmp_path, "well") as made:
            for id in (f"letters/{IBAN}", f"letters-of/{EMAIL}"):
                body = {"id": id, "content": "x", "kind": "document"}
                refused = await made.client.post("/api/v1/artifacts", json=body)
                assert refused.status_code == 422, refused.text
                assert_clean(refused.text, "a refusal")
            for path in (f"artifacts/{EMAIL}", f"runs/{EMAIL}", f"sessions/{IBAN}/turns"):
                missing = await made.client.get(f"/api/v1/{path}")
                assert missing.status_code in (404, 405, 422), missing.text
                assert_clean(missing.text, path)
            unknown = await made.client.post("/api/v1/artifacts", json={"id": "x", EMAIL: IBAN})
            assert unknown.status_code == 422
            assert_clean(unknown.text, "a refusal")

    asyncio.run(scenario())
    assert_nowhere(tmp_path)
    assert_clean("\n".join(r.getMessage() for r in caplog.records if r.name.startswith("artelier")), "logs")


def test_errors_at_the_command_line_repeat_no_value(shell: Shell) -> None:
    shell.set("ARTELIER_VAULT_KEY", KEY)
    shell.set("ARTELIER_PII", "1")
    code = f"""
async def main(run):
    raise RuntimeError("no {EMAIL} here")
"""
    shell.write("agent.py", code)

    for words in (
        ("runs", "show", EMAIL),
        ("runs", "show", EMAIL, "--json"),
        ("artifacts", "show", EMAIL),
        ("do", "count", "--workspace", ".", "--run-id", IBAN, "--yes"),
        ("do", "count", "--workspace", ".", "--run-id", IBAN, "--yes", "--json"),
        ("run", "agent.py:main", "--run-id", "broken"),
        ("run", "agent.py:main", "--run-id", f"of/{IBAN}"),
        ("signal", "broken", EMAIL),
        ("schedule", "add", IBAN, "--every", "1h", "--goal", "count"),
        ("chat", IBAN, "--message", "hello"),
    ):
        ran = shell(*words)

        assert ran.code != 0, words
        assert_clean(ran.out + ran.err, " ".join(words))
    (shell.folder / "agent.py").unlink()
    rmtree(shell.folder / "__pycache__", ignore_errors=True)  # of the code that says the value
    assert_nowhere(shell.folder)


def test_a_file_whose_names_hold_a_value_is_not_imported(tmp_path: Path) -> None:
    async def exported() -> None:
        with Kernel.open(tmp_path / "plain.db", environ={}) as kernel:
            async with kernel.run("r") as run:
                run.finish(await run.step("one", lambda: 1, key=f"for {EMAIL}"))
            await kernel.for_tenant().export("r", tmp_path / "r.artelier")

    async def imported() -> None:
        with opened(tmp_path) as kernel:
            desk = kernel.for_tenant(ACME)
            with pytest.raises(InvalidRequest, match="personal data"):
                await desk.import_(tmp_path / "r.artelier")
            assert (await desk.runs())["items"] == []
            assert kernel.verify().ok

    play(exported())
    play(imported())
    assert EMAIL.encode() not in (tmp_path / "s.db").read_bytes()


def test_runs_of_before_go_on_although_their_names_hold_a_value(tmp_path: Path) -> None:
    """What was stored before it was turned on stays as it is; nothing new is called like that."""
    run_id, other = f"of/{IBAN}", "bo@example.net"

    async def code(run: Run) -> Any:
        first = await run.step("one", lambda: 1, key=f"for {EMAIL}")
        given = await run.wait_for(EMAIL)
        version = await run.version(EMAIL)
        return [first, given, version]

    async def begins(kernel: Kernel) -> None:
        with pytest.raises(RunSuspended):
            async with kernel.for_tenant("acme").run(run_id, on_wait="suspend") as run:
                await code(run)
        mine = kernel.for_tenant("acme").as_principal("user:kim").artifacts
        await mine.write(f"letters/{IBAN}", content="hello", kind="document")

    async def goes_on(kernel: Kernel) -> None:
        desk = kernel.for_tenant("acme")
        with pytest.raises(InvalidRequest):
            await desk.signal(run_id, other, 2)
        await desk.pause(run_id)
        await desk.resume(run_id)
        with pytest.raises(RunSuspended):
            async with desk.run(run_id, on_wait="suspend") as run:
                with pytest.raises(InvalidRequest):
                    await run.step("one", lambda: 1, key=f"for {other}")
                await code(run)
        await desk.fork(run_id, new_id="another")
        await desk.cancel("another")
        mine = desk.as_principal("user:kim").artifacts
        await mine.write(f"letters/{IBAN}", content="hello again")
        with pytest.raises(InvalidRequest):
            await mine.write(f"letters/{IBAN}/{other}", content="x", kind="document")
        await desk.erase(by=other)

    with Kernel.open(tmp_path / "s.db", environ={}) as kernel:
        play(begins(kernel))
    with opened(tmp_path) as kernel:
        play(goes_on(kernel))
        assert kernel.verify().ok
    assert other.encode() not in (tmp_path / "s.db").read_bytes()


def test_refusals_as_json_have_the_one_shape(shell: Shell) -> None:
    shell.set("ARTELIER_VAULT_KEY", KEY)
    shell.set("ARTELIER_PII", "1")

    ran = shell("do", "count", "--workspace", ".", "--run-id", IBAN, "--yes", "--json")

    error = json.loads(ran.out)["error"]
    assert error["code"] == "invalid_request"
    assert placeholders_in(error["got"]) or "<IBAN>" in error["got"]
