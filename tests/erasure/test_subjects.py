"""Erasing what was stored of one subject: its bytes are gone, and everything else is as it was."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, Run, RunSuspended, tool
from artelier.app import TenantKernel
from artelier.errors import Conflict, Erased, InvalidRequest, LeaseHeld, NotFound
from artelier.kernel.history.comparison import compare
from artelier.testing import ScriptedModel
from tests.kernel.stage import play, user

KEY = {"ARTELIER_VAULT_KEY": "a vault key for tests"}
SEALED = pytest.mark.parametrize("environ", [{}, KEY], ids=["plain", "sealed"])
WORDS = ("violet-harbour", "amber-lantern", "cobalt-orchard", "scarlet-meadow")
"""What is said of customer 17: in a message, a result, a note and an artifact."""


@tool(side_effect=False)
async def look_up(customer: str) -> dict[str, str]:
    """What is known of a customer."""
    return {"known": f"{WORDS[1] if customer == WORDS[0] else 'nothing'} of {customer}"}


@tool(side_effect=False)
async def history(customer: str) -> str:
    """All letters of a customer."""
    return f"{WORDS[3] if customer == WORDS[0] else 'none'} of {customer}. " * 5_000


def opened(path: Path, environ: dict[str, str], **more: Any) -> Kernel:
    model = ScriptedModel(lambda request: f"noted: {request.messages[-1].text[:60]}")
    return Kernel.open(path / "s.db", models={"m": model}, tools=[look_up, history], environ=environ, **more)


async def work(run: Run, word: str) -> str:
    conversation = run.conversation()
    conversation.append(user(f"my customer is {word}"))
    await run.step_model(model="m", messages=conversation, key="one")
    conversation.append(await run.step_tool("look_up", {"customer": word}))
    conversation.append(await run.step_tool("history", {"customer": word}))
    return (await run.step_model(model="m", messages=conversation, key="two")).text


async def serve(desk: TenantKernel, run_id: str, word: str, **opening: Any) -> bytes:
    async with desk.run(run_id, **opening) as run:
        run.finish({"said": await work(run, word)})
    return (await desk.render(run_id, "two")).canonical()


def assert_nowhere(folder: Path, words: Sequence[str]) -> None:
    for file in folder.rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            for word in words:
                assert word.encode() not in content, (file.name, word)


@SEALED
def test_what_is_erased_is_in_no_byte_and_the_rest_renders_as_before(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    async def scenario() -> None:
        with opened(tmp_path, environ) as kernel:
            desk = kernel.for_tenant("acme")
            await serve(desk, "r17", WORDS[0], subject="customer-17")
            others = {
                "r18": await serve(desk, "r18", "quartz", subject="customer-18"),
                "plain": await serve(desk, "plain", "basalt"),
            }
            would = await desk.erase(subject="customer-17", dry=True)
            assert (would.keys, would.runs, would.cleaned) == (1, ("r17",), False)
            assert "quartz" in (await desk.render("r18", "two")).messages[0].text

            done = await desk.erase(subject="customer-17", by="user:ops")

            assert done.cleaned and done.blobs == would.blobs > 5
            report = kernel.verify()
            assert report.ok, report.findings
            for run, prompt in others.items():
                assert (await desk.render(run, "two")).canonical() == prompt
            with pytest.raises(Erased):
                await desk.render("r17", "two")
        assert_nowhere(tmp_path, WORDS)

    play(scenario())


@SEALED
def test_an_erased_prompt_is_shown_with_its_messages_named(tmp_path: Path, environ: dict[str, str]) -> None:
    async def scenario() -> None:
        with opened(tmp_path, environ) as kernel:
            desk = kernel.for_tenant("acme")
            await serve(desk, "r17", WORDS[0], subject="customer-17")
            await serve(desk, "r18", "quartz")
            await desk.erase(subject="customer-17")

            request, erased = await desk.shown("r17", "two")

            assert {message.text for message in request.messages} == {"[erased]"}
            assert request.messages[0].role == "user"
            assert "message 1 of main" in erased
            assert (await desk.manifest("r17", "two")).parts
            assert (await desk.show("r17"))["status"] == "completed"
            differing = await compare(desk.services, desk.id, "r17", "r18")
            assert differing

    play(scenario())


def test_an_erased_run_is_not_gone_on_with_replayed_forked_or_exported(tmp_path: Path) -> None:
    async def waits(run: Run) -> None:
        await work(run, WORDS[0])
        await run.approve("go on?")

    async def scenario() -> None:
        with opened(tmp_path, KEY) as kernel:
            desk = kernel.for_tenant("acme")
            with pytest.raises(RunSuspended):
                async with desk.run("r17", subject="customer-17", on_wait="suspend") as run:
                    await waits(run)
            await desk.erase(subject="customer-17")

            with pytest.raises(Erased, match="r17"):
                async with desk.run("r17") as run:
                    await waits(run)
            with pytest.raises(Erased, match="r17"):
                await desk.replay("r17", waits)
            with pytest.raises(Erased, match="r17"):
                await desk.fork("r17")
            with pytest.raises(Erased, match="r17"):
                await desk.export("r17", tmp_path / "r17.artelier")
            await desk.cancel("r17")
            assert (await desk.show("r17"))["status"] == "cancelled"

    play(scenario())


def test_children_forks_and_notes_of_a_run_are_under_its_subjects_key(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path, {}) as kernel:
            desk = kernel.for_tenant("acme")
            with pytest.raises(RunSuspended):
                async with desk.run("r17", subject="customer-17", on_wait="suspend") as run:
                    async with desk.run("child", parent=run) as child:
                        await work(child, WORDS[0])
                        child.finish(WORDS[1])
                    await run.approve(WORDS[2])
            fork = await desk.fork("r17")
            await desk.inject("r17", WORDS[3])
            assert (await desk.erase(subject="customer-17", dry=True)).runs == ("child", "r17", fork)

            await desk.erase(subject="customer-17")

            with pytest.raises(Erased):
                await desk.render("child", "two")
            assert kernel.verify().ok
        assert_nowhere(tmp_path, WORDS)

    play(scenario())


def test_no_event_names_the_subject(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path, KEY) as kernel:
            desk = kernel.for_tenant("acme")
            await serve(desk, "r1", "quartz", subject="ana-lopez")
            await desk.erase(subject="ana-lopez")
        assert_nowhere(tmp_path, ["ana-lopez"])

    play(scenario())


def test_a_run_keeps_the_subject_that_it_was_made_for(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path, KEY) as kernel:
            desk = kernel.for_tenant("acme")
            await serve(desk, "r17", "quartz", subject="customer-17")
            await serve(desk, "plain", "quartz")
            async with desk.run("r17", subject="customer-17") as run:
                assert run.status == "completed"
            for run_id, subject in (("r17", "customer-18"), ("plain", "customer-17")):
                with pytest.raises(Conflict, match="subject"):
                    async with desk.run(run_id, subject=subject):
                        pass
            with pytest.raises(Conflict, match="subject"):
                async with desk.run("parent", subject="customer-17") as run:
                    async with desk.run("below", parent=run, subject="customer-18"):
                        pass
            for wrong in ("", " ", "import", "a\nb", "x" * 201, 7):
                with pytest.raises(InvalidRequest):
                    await desk.erase(subject=wrong)  # type: ignore[arg-type]

    play(scenario())


def test_a_run_at_work_is_not_erased_under_its_feet(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path, KEY) as kernel:
            desk = kernel.for_tenant("acme")
            async with desk.run("r17", subject="customer-17") as run:
                await work(run, WORDS[0])
                for subject in ("customer-17", None):
                    with pytest.raises(LeaseHeld, match="r17"):
                        await desk.erase(subject=subject)
                await run.step_tool("look_up", {"customer": "again"})
            assert (await desk.render("r17", "two")).messages[0].text.endswith(WORDS[0])
            await desk.erase(subject="customer-17")

    play(scenario())


def test_a_subject_that_comes_again_has_a_new_key(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path, KEY) as kernel:
            desk = kernel.for_tenant("acme")
            await serve(desk, "r17", WORDS[0], subject="customer-17")
            await desk.erase(subject="customer-17")
            prompt = await serve(desk, "again", WORDS[0], subject="customer-17")
            assert (await desk.render("again", "two")).canonical() == prompt
            with pytest.raises(Erased):  # it was of the one that is gone
                async with desk.run("r17", subject="customer-17"):
                    pass

    play(scenario())


def test_what_nobody_knows_is_not_found_and_what_is_gone_is_cleaned_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path, KEY) as kernel:
            desk = kernel.for_tenant("acme")
            await serve(desk, "r17", WORDS[0], subject="customer-17")
            with pytest.raises(NotFound):
                await desk.erase(subject="customer-71")
            with pytest.raises(NotFound):
                await kernel.for_tenant("nobody").erase()
            await desk.erase(subject="customer-17")
            again = await desk.erase(subject="customer-17")
            assert again.again and again.cleaned and not again.blobs

    play(scenario())


@SEALED
def test_a_whole_tenant_is_erased_and_goes_on_empty(tmp_path: Path, environ: dict[str, str]) -> None:
    async def scenario() -> None:
        with opened(tmp_path, environ) as kernel:
            acme, other = kernel.for_tenant("acme"), kernel.for_tenant("other")
            await serve(acme, "r1", WORDS[0])
            await serve(acme, "r2", WORDS[1], subject="customer-17")
            prompt = await serve(other, "r1", "quartz")

            await acme.erase()

            assert (await other.render("r1", "two")).canonical() == prompt
            for run in ("r1", "r2"):
                request, _ = await acme.shown(run, "two")
                assert {message.text for message in request.messages} == {"[erased]"}
                with pytest.raises(Erased, match=run):
                    await acme.replay(run, lambda run: work(run, WORDS[0]))
            fresh = await serve(acme, "r3", "basalt")
            assert (await acme.render("r3", "two")).canonical() == fresh
            assert kernel.verify().ok
        assert_nowhere(tmp_path, WORDS)

    play(scenario())


def test_another_process_stores_nothing_under_a_key_that_is_gone(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path, KEY) as one, opened(tmp_path, KEY) as two:
            here, there = one.for_tenant("acme"), two.for_tenant("acme")
            await serve(there, "r17", WORDS[0], subject="customer-17")
            await there.render("r17", "two")

            await here.erase(subject="customer-17")

            with pytest.raises(Erased):
                await there.render("r17", "two")
            prompt = await serve(there, "r19", "quartz", subject="customer-17")
            assert (await here.render("r19", "two")).canonical() == prompt
            await here.erase()
            fresh = await serve(there, "r20", "quartz")
            assert (await here.render("r20", "two")).canonical() == fresh
            assert one.verify().ok

    play(scenario())


def test_a_backup_without_its_vault_key_shows_locked(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path, KEY) as kernel:
            await serve(kernel.for_tenant("acme"), "r17", WORDS[0])
        with opened(tmp_path, {}) as kernel:
            desk = kernel.for_tenant("acme")
            request, erased = await desk.shown("r17", "two")
            assert {message.text for message in request.messages} == {"[locked]"}
            assert erased
            assert kernel.verify().ok

    play(scenario())
