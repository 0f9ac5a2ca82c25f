"""A group, what is shared in it, and every way to look for that."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import pytest

from artelier.artifacts import Artifacts, group_of
from artelier.errors import AccessDenied
from tests.artifacts.places import Place

CANARY = "the canary sings at dawn"
STUDY = "membrane:study"
TOOL = "def run():\n    return 'sung'\n"


async def group(here: Place, *members: str, id: str = "study") -> None:
    owner = here.as_("alice")
    await owner.write(id, kind="membrane", content={"name": id}, access="private")
    for member in members:
        await owner.join(id, member)


async def share(here: Place, id: str, *groups: str, **more: Any) -> None:
    listed = [group_of(name) for name in groups] or [STUDY]
    given = {"kind": "document", "content": CANARY, **more}
    await here.as_("alice").write(id, access={"allow": {"read": listed}}, **given)


async def refused(story: Awaitable[object]) -> str:
    """The text of a refusal, which must hold nothing of what was refused."""
    with pytest.raises(AccessDenied) as caught:
        await story
    said = f"{caught.value} {caught.value.to_wire()} {caught.value.facts}"
    assert CANARY not in said
    return said


async def sees(space: Artifacts, id: str) -> bool:
    """Whether a principal can get at an artifact, asked in every way there is; all must agree."""
    verdicts = [await space.access(id, action) for action in ("read", "include", "subscribe", "search")]
    taken = await space.take(id)
    found = await space.search("canary")
    answers = {
        *(verdict.allowed for verdict in verdicts),
        taken.artifact is not None,
        id in {summary.id for summary in found},
        id in {summary.id for summary in await space.list()},
        id in {summary.id for summary in await space.list(kind="document")},
    }
    for way in (space.read(id), space.read(f"{id}@1"), space.history(id), space.lineage(id)):
        try:
            await way
            answers.add(True)
        except AccessDenied:
            answers.add(False)
    assert len(answers) == 1, answers
    return answers.pop()
