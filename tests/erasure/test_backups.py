"""Backups: whole with the vault key, without it names and numbers alone; an erasure does not reach them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from artelier.errors import Erased, InvalidConfig, MissingKey, NotFound
from tests.erasure.test_subjects import KEY, WORDS, assert_nowhere, opened, serve
from tests.kernel.stage import play


def backup(source: Path, target: Path) -> Path:
    """A copy of a database that is in use, as `sqlite3.backup` and `.backup` of its shell make it."""
    target.mkdir()
    with closing(sqlite3.connect(source / "s.db")) as one, closing(sqlite3.connect(target / "s.db")) as two:
        one.backup(two)
    return target


def test_a_backup_is_whole_with_its_key_and_says_nothing_without(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path / "live", KEY) as kernel:
            desk = kernel.for_tenant("acme")
            prompt = await serve(desk, "r17", WORDS[0], subject="customer-17")
            await desk.as_principal("operator").artifacts.write("notes", kind="document", content=WORDS[1])
            memory = kernel.memory.for_agent("acme", "ana")
            await memory.remember(WORDS[2], key="one")
            copy = backup(tmp_path / "live", tmp_path / "copy")
            assert_nowhere(copy, WORDS)
            await desk.erase(subject="customer-17")

        with opened(copy, {}) as kernel:
            desk = kernel.for_tenant("acme")
            request, erased = await desk.shown("r17", "two")
            assert {message.text for message in request.messages} == {"[locked]"} and erased
            with pytest.raises(Erased, match="vault key"):
                await desk.as_principal("operator").artifacts.read("notes")
            entries = await kernel.memory.for_agent("acme", "ana").entries.entries()
            assert [entry.text for entry in entries] == ["[locked]"]
            for refused in (
                kernel.memory.for_agent("acme", "ana").remember("more", key="two"),
                desk.as_principal("operator").artifacts.write("notes", content="more"),
                serve(desk, "r18", "quartz"),
            ):
                with pytest.raises(MissingKey):
                    await refused
            assert kernel.verify().ok
        with pytest.raises(InvalidConfig, match="vault key"):
            opened(copy, {"ARTELIER_VAULT_KEY": "another key for tests"})

        with opened(copy, KEY) as kernel:  # whoever looked without the key has harmed nothing
            desk = kernel.for_tenant("acme")
            assert (await desk.render("r17", "two")).canonical() == prompt
            assert (await desk.as_principal("operator").artifacts.read("notes")).content == WORDS[1]
            hits = await kernel.memory.for_agent("acme", "ana").recall(WORDS[2])
            assert [hit.text for hit in hits] == [WORDS[2]]
            assert kernel.verify().ok
            # The erasure is repeated in what was restored.
            assert (await desk.erase(subject="customer-17")).cleaned
            with pytest.raises(Erased):
                await desk.render("r17", "two")

    play(scenario(), within_s=120)


def test_who_lost_the_vault_key_can_still_erase_a_tenant(tmp_path: Path) -> None:
    """A key is dropped without being opened; but who a key belongs to is told by the vault key alone."""

    async def scenario() -> None:
        with opened(tmp_path, KEY) as kernel:
            await serve(kernel.for_tenant("acme"), "r17", WORDS[0], subject="customer-17")
            prompt = await serve(kernel.for_tenant("other"), "r18", "quartz")
        with opened(tmp_path, {}) as kernel:
            with pytest.raises(NotFound, match="ARTELIER_VAULT_KEY"):
                await kernel.for_tenant("acme").erase(subject="customer-17")
            done = await kernel.for_tenant("acme").erase()
            assert done.keys == 2 and done.blobs and done.cleaned
        with opened(tmp_path, KEY) as kernel:
            with pytest.raises(Erased):
                await kernel.for_tenant("acme").render("r17", "two")
            other = kernel.for_tenant("other")
            assert (await other.render("r18", "two")).canonical() == prompt
            assert kernel.verify().ok

    play(scenario(), within_s=60)
