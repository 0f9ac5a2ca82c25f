"""`rp-basic` over thirty turns: artifacts are right at each point, every prompt explains itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from artelier import ModelRequest, Session
from artelier.operations import events as ev
from artelier.testing import ManualClock
from tests.kernel.crashes import Deaths
from tests.kernel.stage import World
from tests.operations.chats import play
from tests.operations.rp import (
    OPENING,
    Heard,
    Story,
    json_of,
    open_kernel,
    play_thirty,
    receipts,
    replayed,
    shelf,
)
from tests.verification import verify_database


@dataclass(frozen=True)
class Played:
    """A chat of thirty turns, as a closed store, with all that its model was asked."""

    path: Path
    story: Story
    requests: list[ModelRequest]
    file: Path


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    folder = tmp_path_factory.mktemp("rp")
    model, path = Heard(), folder / "state.db"

    async def scenario() -> Story:
        with open_kernel(path, model) as kernel:
            story = Story(await Session.open(kernel, "c", **OPENING))
            await play_thirty(story)
            await kernel.for_tenant().export_chat("c", folder / "c.artelier")
            return story

    yield Played(path, play(scenario()), model.requests, folder / "c.artelier")


def test_the_artifacts_are_right_at_each_point(played: Played) -> None:
    """The story checks itself after every step; here, that it went through all of what it should."""
    story = played.story

    assert story.heads["main"].number == 30
    assert set(story.heads) == {"main", "aside", "apart"}
    feed = story.heads["main"].state["default"]["combat_log"]
    assert len(feed) > 8 and [version for version, _, _ in feed] == list(range(1, len(feed) + 1))
    assert len(story.heads["main"].state["default"]["world_state"]) > 20
    assert verify_database(played.path) == []


def test_nothing_of_a_discarded_variant_is_left(played: Played) -> None:
    async def scenario() -> None:
        with open_kernel(played.path) as kernel:
            for name, head in played.story.heads.items():
                session = await Session.open(kernel, "c", branch=name)
                await played.story.check(session)
                kept, point = set[str](), head
                while point.above is not None:
                    kept.add(point.run)
                    point = point.above
                for one in (await session.arts(internal=True)).values():
                    assert one["run_id"] in kept
                for tag in await session.arts(internal=True):
                    assert {h["run"] for h in await session.history(tag, internal=True)} <= kept

    play(scenario())


def test_each_run_began_with_the_state_of_its_point(played: Played) -> None:
    async def scenario() -> None:
        with open_kernel(played.path) as kernel:
            session = await Session.open(kernel, "c")
            for run in played.story.points:
                (read,) = await receipts(session, run, ev.SessionRead)
                found = {seen.tag: seen for seen in read.artifacts}
                expected = played.story.began[run]
                assert set(found) == set(expected)
                for tag, versions in expected.items():
                    assert found[tag].version == versions[-1][0]
                    values = [await json_of(session, ref) for ref in found[tag].values]
                    newest_first = [value for _, value, _ in versions][::-1]
                    assert values == newest_first[: len(values)] and values

    play(scenario())


def test_every_prompt_explains_what_it_includes_and_renders_byte_for_byte(played: Played) -> None:
    sent = {request.canonical() for request in played.requests}

    async def scenario() -> None:
        with open_kernel(played.path) as kernel:
            desk = kernel.for_tenant()
            session = await Session.open(kernel, "c")
            rendered = set[bytes]()
            for run in played.story.points:
                for step in await desk.steps(run):
                    if step["kind"] == "model":
                        rendered.add((await desk.render(run, step["key"])).canonical())
                await _explained(session, played.story, run)
            assert rendered == sent

    play(scenario())


async def _explained(session: Session, story: Story, run: str) -> None:
    """Each section of a prompt says what wrote it, where it stands and in which version."""
    shown = await session.show(run)
    done = {(one["operation_id"], one["hook"]): one["status"] for one in shown["operations"]}
    sources = {part["tag"]: part["src"] for part in shown["prompt"] if part["tag"] != "conversation"}
    versions = story.began[run].get("world_state")
    expected = {
        "system": ("profile:rp-basic@1",),
        "effect:augmentation_notes": ("operation:augmentation_notes (depth(1), profile rp-basic@1)",),
    }
    if versions:
        version, _, by = versions[-1]
        expected["art.world_state"] = (
            f"art.world_state (version {version}, operation world_state, run {by},"
            " profile rp-basic@1, depth(2))",
        )
    if done["dice", "before_main_llm"] == "done":
        expected["effect:dice"] = ("operation:dice (after_last_user, profile rp-basic@1)",)
    lore = sources.pop("art.lore", None)
    assert lore in (None, ("art.lore (operation lore, this run, profile rp-basic@1, system_append)",))
    assert {tag: src for tag, src in sources.items() if tag != "character"} == expected
    assert not {"art.combat_log", "art.dice"} & set(sources)  # for people alone


def test_what_is_for_people_stands_in_no_prompt_and_what_is_for_prompts_is_seen_by_nobody(
    played: Played,
) -> None:
    async def scenario() -> None:
        with open_kernel(played.path) as kernel:
            session = await Session.open(kernel, "c")
            feed = await session.art("combat_log")
            assert set(await session.arts()) == {"combat_log", "world_state"}
            for entry in feed:
                for request in played.requests:
                    assert all(entry not in message.text for message in request.messages)

    play(scenario())


def test_a_chat_that_travelled_is_the_same_and_goes_on(played: Played, tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path / "other.db") as kernel:
            await kernel.for_tenant().import_chat(played.file)
            for name in played.story.heads:
                await played.story.check(await Session.open(kernel, "c", branch=name))
            session = await Session.open(kernel, "c")
            before = await session.art("combat_log")
            result = await session.generate("I attack the gate.")
            assert result.status == "completed" and result.turn == 31
            assert (await session.art("combat_log"))[:-1] == before[-49:]

    play(scenario())


def test_every_run_replays_without_a_call(played: Played) -> None:
    async def scenario() -> None:
        with open_kernel(played.path, model := Heard()) as kernel:
            for run in list(played.story.points)[::4]:
                assert (await replayed(kernel, run)).status == "completed"
            assert model.requests == []

    play(scenario())


# Deaths

STEPS = ("I attack the ogre with my sword.", "", "I take the rope.")
"""What is done, in order; an empty text asks for another variant."""


STEP_S, LATER_S = 7_200, 3_600
"""Each step has a time of its own, since dice are thrown by it; later, the lease of the dead is over."""


def _move_to(clock: ManualClock, seconds: int) -> None:
    clock.advance(seconds - (clock.now_us() - ManualClock().now_us()) // 1_000_000)


async def _go_on(session: Session, steps: tuple[str, ...], clock: ManualClock) -> list[Any]:
    """Bring the chat to the end of the steps from wherever it is; its turns and what is on its shelf."""
    runs = (await session.row()).runs
    if runs:
        begun = (await session.branches())[0]["status"] != "asked"
        _move_to(clock, STEP_S * (runs - 1) + LATER_S * begun)
        result = await session.resume()
        assert result.status == "completed", result
    for number, text in enumerate(steps[runs:], start=runs):
        _move_to(clock, STEP_S * number)
        result = await (session.generate(text) if text else session.regenerate())
        assert result.status == "completed", result
    turns = [(turn.user, [v.text for v in turn.variants]) for turn in await session.turns()]
    return [turns, await shelf(session)]


@pytest.mark.parametrize("steps", [STEPS[:1], pytest.param(STEPS, marks=pytest.mark.slow)])
def test_a_chat_that_dies_at_any_commit_ends_the_same(tmp_path: Path, steps: tuple[str, ...]) -> None:
    """Copies of the store at every instant at which a process may die, each taken to the end."""

    async def scenario() -> None:
        deaths = Deaths(tmp_path / "s.db", World(), skip=("commit.before",))
        clock = ManualClock()
        with open_kernel(tmp_path / "s.db", clock=clock, fault=deaths) as kernel:
            expected = await _go_on(await Session.open(kernel, "c", **OPENING), steps, clock)

        assert len(deaths.found) > 6 * len(steps)
        for death in deaths.found:
            clock = ManualClock()
            with open_kernel(death.path, clock=clock) as kernel:
                session = await Session.open(kernel, "c", **OPENING)
                assert await _go_on(session, steps, clock) == expected, death

    play(scenario())
