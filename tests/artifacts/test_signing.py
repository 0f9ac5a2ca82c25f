"""`artifacts.by`: who acts for a principal stands in the log, and has no other rights than it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from artelier import Kernel
from artelier.errors import AccessDenied, InvalidRequest

TOOL = {"code": "def run(n):\n    return n + 1\n"}


def test_events_name_the_person_and_everything_belongs_to_the_principal(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Kernel.open(tmp_path / "state.db", environ={}) as kernel:
            plain = kernel.for_tenant().as_principal("operator").artifacts
            ada = plain.by("user:ada")
            made = await ada.write("add", kind="tool", content=TOOL)
            assert made.creator == made.owner == "operator"
            assert (await ada.invoke("add", n=1)).result == 2
            await plain.write("add", content=TOOL)
            await ada.transfer("add", "maker")
            maker = kernel.for_tenant().as_principal("maker").artifacts
            await maker.by("user:bo").delete("add")
            found = [
                (event.kind, event.actor)
                async for event in kernel.events()
                if event.stream.local == "artifact:add"
            ]
            assert {actor for kind, actor in found if kind == "artifact.invoked"} == {"user:ada"}
            assert [one for one in found if one[0] in WATCHED] == [
                ("artifact.written", "user:ada"),
                ("artifact.written", "operator"),
                ("artifact.transferred", "user:ada"),
                ("artifact.deleted", "user:bo"),
            ]

    asyncio.run(scenario())


WATCHED = ("artifact.written", "artifact.transferred", "artifact.deleted")


def test_who_acts_gets_no_rights_of_its_own(tmp_path: Path) -> None:
    async def scenario() -> None:
        with Kernel.open(tmp_path / "state.db", environ={}) as kernel:
            ada = kernel.for_tenant().as_principal("user:ada").artifacts
            await ada.write("secret", kind="document", content="x", access="private")
            other = kernel.for_tenant().as_principal("operator").artifacts.by("user:ada")
            with pytest.raises(AccessDenied):
                await other.read("secret")
            with pytest.raises(AccessDenied):
                await other.write("secret", content="y")
            for wrong in ("", "two words", "b:x", "x" * 600):
                with pytest.raises(InvalidRequest):
                    other.by(wrong)

    asyncio.run(scenario())
