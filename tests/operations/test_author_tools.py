"""What an author is told of operations: counters, errors in full, what they saw, and values that stay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from artelier import OperationProfile, Session
from tests.operations.chats import opened, play, requests_of
from tests.operations.profiles import template


def _profile(*operations: dict[str, Any]) -> OperationProfile:
    return OperationProfile.parse({"profile_id": "p", "operations": list(operations)})


async def _open(kernel: Any, *operations: dict[str, Any]) -> Session:
    return await Session.open(kernel, "c", model="m", profile=_profile(*operations))


def test_an_operation_that_is_not_due_says_where_its_counters_stand(tmp_path: Path) -> None:
    activation = {"every_n_turns": 3, "every_n_context_tokens": 50}
    rare = template("rare", "x", tag="rare", activation=activation)

    async def run() -> None:
        with opened(tmp_path) as kernel:
            session = await _open(kernel, rare, template("each", "y", tag="each", order=2))
            seen = []
            for words in ("one", "two"):
                result = await session.generate(words)
                plan = {one["operation_id"]: one for one in (await session.show(result.run_id))["plan"]}
                seen.append(plan["rare"])
                assert "counters" not in plan["each"]
            assert [one["skipped"] for one in seen] == ["not_due", "not_due"]
            assert [one["counters"]["turns"] for one in seen] == [1, 2]
            assert seen[1]["counters"]["every_n_turns"] == 3
            assert seen[1]["counters"]["every_n_context_tokens"] == 50
            assert 0 < seen[1]["counters"]["tokens"] < 50

    play(run())


def test_an_operator_sees_an_error_in_full_and_what_the_operation_saw(tmp_path: Path) -> None:
    code = "def run(ctx):\n    return int(ctx.art['x'].value)\n"
    compute = {
        "operation_id": "c",
        "kind": "compute",
        "order": 2,
        "hooks": ["after_main_llm"],
        "depends_on": ["secret"],
        "params": {"code": code},
    }

    async def run() -> None:
        with opened(tmp_path) as kernel:
            session = await _open(
                kernel, template("secret", "TOPSECRET77", tag="x", usage="internal"), compute
            )
            result = await session.generate("hello")
            assert result.operations["c"] == "error"
            told = json.dumps(await session.show(result.run_id), default=str)
            assert "TOPSECRET77" not in told and "withheld" in told
            inner = await session.show(result.run_id, internal=True)
            ended = {one["operation_id"]: one for one in inner["operations"]}
            assert "TOPSECRET77" in ended["c"].get("message", "")
            assert ended["c"].get("scope", {})["art"]["x"]["value"] == "TOPSECRET77"
            assert ended["c"].get("scope", {})["text"] == "hello"
            assert ended["secret"].get("result", {})["value"] == "TOPSECRET77"

    play(run())


def test_a_value_that_stays_the_same_makes_no_version(tmp_path: Path) -> None:
    same = template("same", "calm", tag="same", retention={"max_versions": 5})
    aged = template("aged", "calm", tag="aged", order=2, retention={"max_versions": 5, "ttl_s": 60})
    grows = template("grows", "{{ text }}", tag="grows", order=3, retention={"max_versions": 5})
    feed = template("feed", "calm", tag="feed", order=4, write_mode="append", retention={"max_versions": 5})

    async def run() -> None:
        with opened(tmp_path) as kernel:
            session = await _open(kernel, same, aged, grows, feed)
            for words in ("one", "one", "two"):
                result = await session.generate(words)
            arts = await session.arts()
            assert {tag: one["version"] for tag, one in arts.items()} == {
                "same": 1,
                "aged": 3,
                "grows": 2,
                "feed": 3,
            }
            reports = {one["tag"]: one for one in (await session.show(result.run_id))["reports"]}
            assert (reports["same"]["status"], reports["same"]["code"]) == ("skipped", "unchanged")
            assert len(await session.history("same")) == 0

    play(run())


def test_a_turn_that_was_cancelled_before_it_began_has_its_plan(tmp_path: Path) -> None:
    async def run() -> None:
        with opened(tmp_path) as kernel:
            off = template("off", "x", order=2, enabled=False)
            session = await _open(kernel, template("each", "y", tag="each"), off)
            run_id = await session.ask("hello")
            await session.cancel()
            shown = await session.show(run_id)
            assert shown["status"] == "cancelled"
            assert [one["operation_id"] for one in shown["plan"]] == ["each", "off"]
            ended = {one["operation_id"]: (one["status"], one.get("reason")) for one in shown["operations"]}
            assert ended == {"each": ("aborted", ""), "off": ("skipped", "disabled")}
            assert (await session.generate("again")).status == "completed"

    play(run())


def test_a_history_that_is_cut_begins_with_words_of_the_person(tmp_path: Path) -> None:
    async def run() -> None:
        with opened(tmp_path) as kernel:
            session = await Session.open(kernel, "c", model="m", history_max=4, greetings=["Hi"])
            requests = requests_of(session)
            shown: list[list[str]] = []
            for words in ("one", "two", "three", "four"):
                await session.generate(words)
                shown.append([one.text for one in requests[-1].messages[1:]])
            assert shown == [
                ["Hi", "one"],
                ["Hi", "one", "re: one", "two"],
                ["two", "re: two", "three"],
                ["three", "re: three", "four"],
            ]
            await session.speak()
            assert [one.text for one in requests[-1].messages[1:3]] == ["three", "re: three"]

    play(run())
