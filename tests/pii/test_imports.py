"""Files of elsewhere: they bring no personal data in, and gain no value of whoever imports them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, Policy, Run, Tenant
from artelier.app import TenantKernel
from artelier.errors import InvalidExport
from artelier.pii.vault import placeholders_in
from artelier.testing import ScriptedModel
from tests.kernel.stage import drive, play, result_of, user
from tests.pii.test_door import ACME, ANA, CARD, Mail, assert_nowhere, opened, seen


async def said_by_people(run: Run) -> Any:
    """Everything that a person can say to a run."""
    given = await run.approve("well?", key="ask")
    said = await run.wait_for("word", key="said")
    noted = await run.notes(key="notes")
    return [given.note, given.arguments, said, noted]


async def answered(runs: TenantKernel, text: str) -> None:
    assert await drive(runs, said_by_people, on_wait="suspend") == "waiting_approval"
    await runs.approve("r", note=text, arguments={"to": text})
    await runs.inject("r", text)
    assert await drive(runs, said_by_people, on_wait="suspend") == "waiting"
    await runs.signal("r", "word", {"to": text})
    assert await drive(runs, said_by_people) == "completed"


def plain(folder: Path) -> Kernel:
    return Kernel.open(folder / "plain.db", models={"m": ScriptedModel([])}, environ={})


def test_a_file_with_values_is_refused_where_they_are_replaced(tmp_path: Path) -> None:
    async def scenario() -> None:
        with plain(tmp_path / "off") as kernel:
            runs = kernel.for_tenant("acme")
            await answered(runs, f"write to {ANA}, {CARD}")
            await runs.export("r", tmp_path / "off" / "r.artelier")
        with opened(tmp_path / "on", ScriptedModel([])) as kernel:
            runs = kernel.for_tenant(ACME)
            with pytest.raises(InvalidExport, match="personal data"):
                await runs.import_(tmp_path / "off" / "r.artelier")
            assert kernel.verify().ok

    play(scenario())
    assert_nowhere(tmp_path / "on", ANA, CARD)


def test_a_file_without_values_goes_from_store_to_store(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path / "a", ScriptedModel([])) as kernel:
            runs = kernel.for_tenant(ACME)
            await answered(runs, f"write to {ANA}, {CARD}")
            told = await result_of(runs)
            await runs.export("r", tmp_path / "r.artelier")
            other = kernel.for_tenant("other")
            await other.import_(tmp_path / "r.artelier")
            assert await other.restored(await result_of(other)) == told
        with opened(tmp_path / "b", ScriptedModel([])) as kernel:
            runs = kernel.for_tenant(ACME)
            await runs.import_(tmp_path / "r.artelier")
            assert await runs.restored(await result_of(runs)) == told

    play(scenario())
    assert_nowhere(tmp_path, ANA, CARD)


def test_a_file_gains_no_value_by_naming_its_placeholder(tmp_path: Path) -> None:
    """The author of the file has seen a placeholder, and has a run of his own say it in every way."""
    mail, named = Mail(), list[str]()
    model = ScriptedModel(["noted"])

    async def first(run: Run) -> Any:
        return (await run.step_model(model="m", messages=[user(f"I am {ANA}")])).text

    async def steal(run: Run) -> Any:
        await said_by_people(run)
        return (await run.step_tool("send_mail", {"to": named[0], "text": "mine"})).value

    async def scenario() -> None:
        other = Tenant("other", grants={"tools:*", "pii:restore"})
        with opened(tmp_path / "victim", model, mail.tool()) as kernel:
            runs = kernel.for_tenant(ACME)
            assert await drive(runs, first, "a") == "completed"
            named.extend(placeholders_in(seen(model.requests[0])))
        with plain(tmp_path / "author") as kernel:
            await answered(kernel.for_tenant("acme"), f"write to {named[0]}")
            await kernel.for_tenant("acme").export("r", tmp_path / "r.artelier")
        with opened(tmp_path / "victim", model, mail.tool()) as kernel:
            runs = kernel.for_tenant(ACME)
            with pytest.raises(InvalidExport, match="placeholder"):
                await runs.import_(tmp_path / "r.artelier")
            elsewhere = kernel.for_tenant(other)
            await elsewhere.import_(tmp_path / "r.artelier")
            fork = await elsewhere.fork("r", new_id="f")
            await drive(elsewhere, steal, fork)
            assert ANA not in str(mail.sent)

    play(scenario())


def test_a_file_of_an_agent_is_looked_at_as_well(tmp_path: Path) -> None:
    async def scenario() -> None:
        with plain(tmp_path / "off") as kernel:
            memory = kernel.memory.for_agent("acme", "clerk")
            await memory.remember(f"write to {ANA}", key="a")
            await kernel.for_tenant("acme").export_agent("clerk", tmp_path / "off" / "c.artelier")
        with opened(tmp_path / "on", ScriptedModel([])) as kernel:
            with pytest.raises(InvalidExport, match="personal data"):
                await kernel.for_tenant(ACME).import_agent(tmp_path / "off" / "c.artelier")

    play(scenario())
    assert_nowhere(tmp_path / "on", ANA)


def test_replaying_a_file_needs_no_vault(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path, ScriptedModel([])) as kernel:
            await answered(kernel.for_tenant(ACME), f"write to {ANA}")
            told = await result_of(kernel.for_tenant(ACME))
            await kernel.for_tenant(ACME).export("r", tmp_path / "r.artelier")
        replayed = await Kernel.replay_file(tmp_path / "r.artelier", said_by_people, policy=Policy.local())
        assert replayed.result == told

    play(scenario())
