"""The tree of a chat: state belongs to turns and variants, and moving about in it undoes nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from artelier import ArtelierError
from artelier.chat.queries import tree
from artelier.errors import Conflict, InvalidEvent, NotFound
from artelier.kernel import events as kev
from artelier.operations import events as ev
from tests.operations.chats import Chat, play, scene


def chat_test(scenario: Callable[[Chat], Awaitable[None]], *greetings: str) -> Callable[[Path], None]:
    """A test that is a scenario in a chat of its own."""

    def test(tmp_path: Path) -> None:
        async def run() -> None:
            with scene(tmp_path) as kernel:
                await scenario(await Chat(kernel).begin(*greetings))

        play(run())

    test.__doc__ = scenario.__doc__
    return test


async def _select(chat: Chat, node: int, branch: str = "main") -> None:
    await chat.put(ev.VariantSelected(branch=branch, node=node))


# State


async def _regenerate(chat: Chat) -> None:
    await chat.turn(before=[await chat.change("hp", 10)])
    await chat.turn(after=[await chat.change("hp", 7)])
    await chat.turn(trigger="regenerate", after=[await chat.change("hp", 9)])

    assert await chat.state() == {"hp": [9, 10]}


test_another_variant_starts_from_the_state_before_the_turn = chat_test(_regenerate)


async def _selecting(chat: Chat) -> None:
    await chat.turn(before=[await chat.change("hp", 1)])
    await chat.turn(trigger="regenerate", before=[await chat.change("hp", 2)])
    first, second = (await chat.nodes())[0].variants

    await _select(chat, first.node)
    assert await chat.state() == {"hp": [1]}
    await _select(chat, second.node)
    assert await chat.state() == {"hp": [2]}


test_selecting_a_variant_selects_its_state = chat_test(_selecting)


async def _branching(chat: Chat) -> None:
    await chat.turn(after=[await chat.change("hp", 1)])
    fork = await chat.head()
    await chat.turn(after=[await chat.change("hp", 2)])
    await chat.put(ev.BranchMade(branch="b", origin="main", node=fork))

    assert await chat.state("b") == {"hp": [1]}
    await chat.turn(branch="b", after=[await chat.change("hp", 3)])
    assert await chat.state("b") == {"hp": [3, 1]}
    assert await chat.state() == {"hp": [2, 1]}


test_a_branch_starts_with_the_state_at_its_fork = chat_test(_branching)


async def _rewinding(chat: Chat) -> None:
    await chat.turn(after=[await chat.change("hp", 1)])
    first = await chat.head()
    await chat.turn("second", after=[await chat.change("hp", 2)])
    later = await chat.head()

    await chat.put(ev.BranchRewound(branch="main", node=first))
    assert await chat.state() == {"hp": [1]}
    assert await tree.newest_below(chat.store, (await chat.row()).id, first) == later
    await chat.put(ev.BranchRewound(branch="main", node=0))
    assert await chat.state() == {} and await chat.said() == []


test_rewinding_goes_back_and_keeps_what_came_after = chat_test(_rewinding)


async def _scopes(chat: Chat) -> None:
    await chat.turn(scope="p/one", after=[await chat.change("hp", 1)])
    await chat.turn(scope="p/two", after=[await chat.change("hp", 20)])
    await chat.turn(scope="")

    assert await chat.state(scope="p/one") == {"hp": [1]}
    assert await chat.state(scope="p/two") == {"hp": [20]}
    assert await chat.state(scope="p/three") == {}
    await chat.turn(scope="p/one", after=[await chat.change("hp", 2)])
    assert await chat.state(scope="p/one") == {"hp": [2, 1]}
    assert await chat.state(scope="p/two") == {"hp": [20]}


test_a_session_hides_another_and_finds_its_own_again = chat_test(_scopes)


async def _marks(chat: Chat) -> None:
    await chat.turn(marks={"lore": (1, 10)})
    await chat.turn(marks={"log": (2, 20)})
    await chat.turn(trigger="regenerate")

    assert dict((await chat.stand()).marks) == {"lore": (1, 10)}
    first = (await chat.nodes())[1].variants[0]
    await _select(chat, first.node)
    assert dict((await chat.stand()).marks) == {"lore": (1, 10), "log": (2, 20)}


test_when_operations_were_done_belongs_to_the_variant = chat_test(_marks)


# Retention


async def _replaced(chat: Chat) -> None:
    for value in range(6):
        await chat.turn(after=[await chat.change("hp", value, versions_max=2)])

    seen = (await chat.stand()).artifacts[0]
    assert await chat.state() == {"hp": [5, 4, 3]}
    assert (seen.version, seen.append, len(seen.at_us)) == (6, False, 3)


test_earlier_values_are_kept_by_count = chat_test(_replaced)


async def _appended(chat: Chat) -> None:
    for value in range(6):
        await chat.turn(after=[await chat.change("log", value, append=True, versions_max=3)])

    assert await chat.state() == {"log": [5, 4, 3]}
    await chat.turn(after=[await chat.change("log", "x", append=True, versions_max=0)])
    assert await chat.state() == {"log": []}


test_a_feed_keeps_its_newest_entries = chat_test(_appended)


@pytest.mark.parametrize(
    ("append", "now_s", "kept"),
    [(False, 100, [2, 1, 0]), (False, 109, [2, 1]), (False, 900, [2]), (True, 109, [2, 1]), (True, 900, [])],
)
def test_age_drops_earlier_values_and_never_a_current_one(
    tmp_path: Path, append: bool, now_s: int, kept: list[int]
) -> None:
    async def scenario(chat: Chat) -> None:
        for value in range(3):
            change = await chat.change("hp", value, append=append, ttl_s=60)
            await chat.turn(after=[change], at_us=(41 + value * 20) * 1_000_000)

        assert await chat.state(now_us=now_s * 1_000_000) == {"hp": kept}

    chat_test(scenario)(tmp_path)


async def _other_mode(chat: Chat) -> None:
    await chat.turn(after=[await chat.change("hp", [1, 2])])
    await chat.turn(after=[await chat.change("hp", 3, append=True)])
    assert await chat.state() == {"hp": [3]}
    await chat.turn(after=[await chat.change("hp", "whole")])
    assert await chat.state() == {"hp": ["whole"]}


test_a_value_that_becomes_a_feed_begins_anew = chat_test(_other_mode)


async def _some_tags(chat: Chat) -> None:
    await chat.turn(after=[await chat.change("a", 1), await chat.change("b", 2)])

    assert await chat.state(tags=("b",)) == {"b": [2]}


test_only_the_tags_that_are_asked_for_are_read = chat_test(_some_tags)


# The conversation


async def _talk(chat: Chat) -> None:
    await chat.turn("one", text="a")
    await chat.turn("two", text="b")
    await chat.turn("zwei", text="", trigger="regenerate")

    assert await chat.said() == ["Hello", "a", "one", "b", "zwei"]
    turns = await chat.nodes()
    assert [turn.number for turn in turns] == [0, 1, 2]
    assert [len(turn.variants) for turn in turns] == [2, 1, 2]
    await _select(chat, turns[0].variants[1].node)
    assert await chat.said() == ["Hi"]


test_the_conversation_is_the_path_of_the_branch = chat_test(_talk, "Hello", "Hi")


async def _no_reply(chat: Chat) -> None:
    await chat.turn("one", text="a")
    before = await chat.head()
    await chat.turn("", trigger="regenerate", before=[await chat.change("hp", 1)])
    assert await chat.head() == before
    await chat.turn("", text="b", before=[await chat.change("hp", 2)])
    assert await chat.said() == ["a", "one", "b"]
    assert await chat.state() == {"hp": [2]}
    await chat.turn("late", trigger="regenerate")
    assert await chat.said() == ["a", "one", "b", "late"]


test_a_turn_without_a_reply_stays_and_a_failed_second_try_changes_nothing = chat_test(_no_reply)


async def _before_barrier(chat: Chat) -> None:
    for _ in range(2):
        asked = await chat.asked(text="a")
        await chat.put(asked, run=asked.run, ends=kev.RunFailed(reason="before_barrier"))
    assert await chat.said() == ["a", "a"]

    await chat.turn("now", trigger="regenerate")

    assert await chat.said() == ["a", "a", "now"]
    assert [turn.number for turn in await chat.nodes()] == [1, 2]


test_what_failed_before_its_barrier_can_be_tried_again_or_passed_over = chat_test(_before_barrier)


async def _continued(chat: Chat) -> None:
    await chat.turn("one", text="a", after=[await chat.change("hp", 1)])
    node = await chat.head()
    await chat.turn("one two", trigger="continue", scope="")
    assert await chat.head() == node and await chat.said() == ["a", "one two"]

    await chat.put(ev.BranchMade(branch="b", origin="main", node=node))
    await chat.turn("one two three", trigger="continue", scope="")

    assert await chat.said() == ["a", "one two three"] and await chat.said("b") == ["a", "one two"]
    assert await chat.state() == {"hp": [1]}
    assert [one.variant for one in (await chat.nodes())[0].variants] == [1, 2]


test_a_reply_grows_in_place_unless_others_stand_on_it = chat_test(_continued)


async def _nothing_came(chat: Chat) -> None:
    asked = await chat.asked(text="a")
    state = ev.ReplyPart(channel="state", text=await chat.keep("hp 3"), prompt=False)
    begun = ev.VariantBegun(branch="main", run=asked.run)
    ended = ev.VariantEnded(
        branch="main", run=asked.run, status="done", parts=(*await chat.parts("one"), state)
    )
    await chat.put(asked, begun, ended, run=asked.run, ends=kev.RunCompleted())
    await chat.turn("one", trigger="continue", scope="")  # a failed call: what there was is all there is
    assert (await chat.nodes())[0].selected.reply_parts() == ended.parts

    await chat.turn("one two", trigger="continue", scope="")

    parts = (await chat.nodes())[0].selected.reply_parts()
    assert [await chat.json(part.text) for part in parts] == ["one two", "hp 3"]
    assert await chat.said() == ["a", "one two"]


test_a_reply_that_grows_keeps_what_only_people_see = chat_test(_nothing_came)


async def _imported(chat: Chat) -> None:
    turns = [
        ev.ImportedTurn(variants=(await chat.keep("Hello"), await chat.keep("Hi")), selected=1),
        ev.ImportedTurn(user=await chat.keep("a"), variants=(await chat.keep("one"),), tokens=5),
        ev.ImportedTurn(user=await chat.keep("b"), tokens=7),
    ]
    await chat.put(ev.TurnsImported(branch="main", turns=tuple(turns)))

    stand = await chat.stand()
    assert await chat.said() == ["Hi", "a", "one", "b"]
    assert (stand.turn, stand.tokens, stand.base_run) == (3, 12, "")
    await chat.turn("two", trigger="regenerate")
    assert await chat.said() == ["Hi", "a", "one", "b", "two"]


test_turns_from_elsewhere_are_a_conversation = chat_test(_imported)


async def _pages(chat: Chat) -> None:
    for number in range(1, 31):
        await chat.turn(f"r{number}", text=f"t{number}")
    row, head = await chat.row(), await chat.head()

    async def numbers(**page: Any) -> list[int]:
        found = await tree.path(chat.store, row.id, head, **page)
        return [turn.number for turn in found]

    assert await numbers(limit=3) == [28, 29, 30]
    assert await numbers(limit=3, before=28) == [25, 26, 27]
    assert await numbers(limit=3, before=2) == [1]
    assert await numbers(limit=2, after=3) == [4, 5]
    assert await numbers(limit=9, after=28) == [29, 30]
    assert await numbers(limit=9, after=30) == []
    assert (await tree.node_at(chat.store, row.id, head, 7)).number == 7


test_the_conversation_comes_in_pages = chat_test(_pages)


async def _same_cost(chat: Chat) -> None:
    sizes: list[int] = []
    for number in range(60):
        change = await chat.change("log", f"entry {number % 10}", append=True)
        await chat.turn("yes", text="hi", after=[change])
        rows = await chat.store.query(
            "SELECT (SELECT count(*) FROM chat_nodes) + (SELECT count(*) FROM chat_art),"
            " (SELECT max(length(state) + length(marks) + length(parts)) FROM chat_nodes)"
        )
        sizes.append(rows[0][0])
        widest = rows[0][1]
    assert {after - before for before, after in pairwise(sizes)} == {3}
    assert widest < 200


test_a_turn_writes_as_much_at_the_end_as_at_the_beginning = chat_test(_same_cost)


# Refusals


async def _busy(chat: Chat) -> None:
    await chat.turn()
    node = await chat.head()
    asked = await chat.asked()
    await chat.put(asked)  # its run has not even begun

    for event in (
        await chat.asked(),
        ev.VariantSelected(branch="main", node=node),
        ev.BranchRewound(branch="main", node=0),
        ev.TurnsImported(branch="main", turns=(ev.ImportedTurn(user=await chat.keep("x")),)),
        ev.BranchMade(branch="b", origin="main", node=await chat.head()),
    ):
        with pytest.raises(Conflict, match="c/r000002"):
            await chat.put(event)
    await chat.put(ev.BranchMade(branch="b", origin="main", node=node))
    chat.runs = 2
    await chat.turn(branch="b")


test_a_branch_takes_nothing_while_its_run_has_not_ended = chat_test(_busy)


Making = Callable[[Chat], Awaitable[ev.EventData]]


async def _foreign_node(chat: Chat) -> Any:
    return ev.VariantSelected(branch="main", node=77)


async def _no_branch(chat: Chat) -> Any:
    return ev.BranchRewound(branch="none", node=0)


async def _taken_branch(chat: Chat) -> Any:
    return ev.BranchMade(branch="main", origin="main", node=0)


async def _wrong_run(chat: Chat) -> Any:
    return ev.VariantBegun(branch="main", run="c/r000001")


async def _no_run(chat: Chat) -> Any:
    return ev.VariantEnded(branch="main", run="", status="done")


async def _run_name(chat: Chat) -> Any:
    chat.runs += 5
    return await chat.asked()


async def _bad_trigger(chat: Chat) -> Any:
    return await chat.asked(trigger="again")


async def _nothing_said(chat: Chat) -> Any:
    return await chat.asked(trigger="regenerate")


async def _nothing_to_continue(chat: Chat) -> Any:
    await chat.put(ev.BranchRewound(branch="main", node=0))
    return await chat.asked(trigger="continue")


async def _opened_twice(chat: Chat) -> Any:
    return ev.ChatOpened(settings=await chat.keep({}))


async def _empty_import(chat: Chat) -> Any:
    return ev.TurnsImported(branch="main", turns=(ev.ImportedTurn(),))


async def _selected_nothing(chat: Chat) -> Any:
    turn = ev.ImportedTurn(variants=(await chat.keep("x"),), selected=3)
    return ev.TurnsImported(branch="main", turns=(turn,))


@pytest.mark.parametrize(
    ("making", "error", "says"),
    [
        (_foreign_node, NotFound, "no node 77"),
        (_no_branch, NotFound, "no branch 'none'"),
        (_taken_branch, Conflict, "branch 'main' already"),
        (_wrong_run, Conflict, "does not wait"),
        (_no_run, Conflict, "does not wait"),
        (_run_name, Conflict, "next run"),
        (_bad_trigger, InvalidEvent, "trigger"),
        (_nothing_said, Conflict, "nothing to reply to"),
        (_nothing_to_continue, Conflict, "ends with no reply"),
        (_opened_twice, Conflict, "open already"),
        (_empty_import, InvalidEvent, "says nothing"),
        (_selected_nothing, InvalidEvent, "selected"),
    ],
)
def test_what_makes_no_sense_is_refused(
    tmp_path: Path, making: Making, error: type[ArtelierError], says: str
) -> None:
    async def scenario(chat: Chat) -> None:
        event = await making(chat)

        with pytest.raises(error, match=says):
            await chat.put(event)

    chat_test(scenario, "Hello")(tmp_path)


async def _ends(chat: Chat) -> None:
    asked = await chat.asked()
    end = ev.VariantEnded(branch="main", run=asked.run, status="done", parts=await chat.parts("x"))
    with pytest.raises(Conflict, match="not begun"):
        await chat.put(asked, end, run=asked.run)
    begun = ev.VariantBegun(branch="main", run=asked.run)
    with pytest.raises(Conflict, match="begun its variant already"):
        await chat.put(asked, begun, begun, run=asked.run)
    with pytest.raises(Conflict, match="ended its variant already"):
        await chat.put(asked, begun, end, end, run=asked.run)
    change = await chat.change("hp", 1)
    plain = ev.VariantBegun(branch="main", run=asked.run, changes=(change,))
    with pytest.raises(InvalidEvent, match="plain call"):
        await chat.put(asked, plain, run=asked.run)
    assert await chat.head() == 0
    await chat.put(asked, begun, end, run=asked.run, ends=kev.RunCompleted())
    assert await chat.said() == ["hi", "x"]


test_a_run_begins_and_ends_one_variant = chat_test(_ends)


async def _tenants(chat: Chat) -> None:
    await chat.turn()
    other = await Chat(chat.kernel, tenant="other").begin()

    with pytest.raises(NotFound):
        await other.put(ev.VariantSelected(branch="main", node=await chat.head()))
    assert await other.said() == []


test_a_chat_of_the_same_name_in_another_tenant_is_another = chat_test(_tenants)
