"""Profiles as artifacts, and the shipped ones at work: thirty turns each, offline, without one error."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from artelier.app import Kernel
from artelier.chat.session.session import Session
from artelier.errors import AccessDenied, InvalidArtifact, NotFound
from artelier.kernel.queries.content import blob_json
from artelier.log import run_stream
from artelier.operations.profile.operation_profile import InvalidProfile, OperationProfile, parse_profile
from artelier.operations.profile.profile_reader import load_profile
from artelier.operations.profile.store import SHIPPED

Use = Callable[[Kernel], Awaitable[Any]]


def using(tmp_path: Path, use: Use) -> Any:
    async def scenario() -> Any:
        with Kernel.open(tmp_path / "p.db") as kernel:
            return await use(kernel)

    return asyncio.run(scenario())


def changed(profile: OperationProfile, **fields: Any) -> OperationProfile:
    return parse_profile({**profile.data(), **fields})


# As artifacts


def test_saved_profile_gets_a_new_version_only_if_it_changed(tmp_path: Path) -> None:
    profile = OperationProfile.shipped("rp-basic")

    async def use(kernel: Kernel) -> None:
        desk = kernel.for_tenant()
        assert await profile.save(kernel) == "rp-basic@1"
        assert await profile.save(desk) == "rp-basic@1"
        assert await changed(profile, name="Mine").save(kernel) == "rp-basic@2"
        assert await profile.save(kernel, tenant="acme") == "rp-basic@1"

        newest, ref = await load_profile(desk, "rp-basic")
        first, first_ref = await load_profile(desk, "rp-basic@1")
        artifact = await desk.as_principal("operator").artifacts.read("rp-basic")
        assert (newest.name, ref) == ("Mine", "rp-basic@2")
        assert (first, first_ref) == (profile, "rp-basic@1")
        assert (artifact.kind, artifact.owner) == ("profile", "operator")

    using(tmp_path, use)


def test_invalid_profile_is_stored_through_no_door(tmp_path: Path) -> None:
    profile = OperationProfile.shipped("support-desk")
    twice = (*profile.operations, profile.operations[0])
    broken = profile.model_copy(update={"operations": twice})

    async def use(kernel: Kernel) -> None:
        with pytest.raises(InvalidProfile) as caught:
            await broken.save(kernel)
        assert "duplicate_id" in {one["code"] for one in caught.value.errors}
        artifacts = kernel.for_tenant().as_principal("kim").artifacts
        for content in (broken.data(), {}, {"profile_id": "x", "operations": [{}]}):
            with pytest.raises(InvalidArtifact):
                await artifacts.write("support-desk", kind="profile", content=content)
        await profile.save(kernel, by="kim")
        with pytest.raises(InvalidArtifact):
            await artifacts.edit("support-desk", '"order":20', '"order":"x"')
        assert (await artifacts.read("support-desk")).version == 1

    using(tmp_path, use)


def test_saving_and_loading_obey_access_and_kind(tmp_path: Path) -> None:
    async def use(kernel: Kernel) -> None:
        desk = kernel.for_tenant()
        profile = OperationProfile.shipped("rp-basic")
        await profile.save(kernel, by="kim")
        with pytest.raises(AccessDenied):
            await changed(profile, name="Theirs").save(kernel, by="robin")
        await desk.as_principal("kim").artifacts.write("note", kind="document", content="Hello.")
        with pytest.raises(InvalidArtifact, match="not a profile"):
            await load_profile(desk, "note")
        with pytest.raises(InvalidArtifact):
            await changed(profile, profile_id="note").save(kernel, by="kim")
        with pytest.raises(NotFound):
            await load_profile(desk, "nothing")

    using(tmp_path, use)


def test_profiles_saved_at_once_become_versions_of_one(tmp_path: Path) -> None:
    async def use(kernel: Kernel) -> None:
        profile = OperationProfile.shipped("rp-basic")
        named = [changed(profile, name=f"n{number}") for number in range(4)]
        refs = await asyncio.gather(*(one.save(kernel) for one in named))
        assert sorted(refs) == [f"rp-basic@{number}" for number in range(1, 5)]

    using(tmp_path, use)


def test_unknown_shipped_profile_names_those_that_are() -> None:
    with pytest.raises(NotFound, match="rp-basic, research-notes, support-desk"):
        OperationProfile.shipped("nothing")


# At work

LINES: dict[str, list[str]] = {
    "rp-basic": [
        "I walk into the Golden Tavern and take a lantern.",
        "I attack the guard with the sword at night.",
        "Who owns the Golden Tavern?",
        "I sit down and rest.",
        "{{ art.combat_log.value }} {% if %}",
        "I drop the lantern and run to the old harbour.",
        "Tell me a story.",
        "Give me a summary of what happened.",
        "I strike first, at dawn.",
        "?",
    ],
    "research-notes": [
        "The Baltic Exchange was bombed in 1992.",
        "And what was built there?",
        "Why?",
        "My source is a guide from 2004. The Gherkin stands there now.",
        "How many sales were there in 2024 by region?",
        "## State so far\n{}\n## Conversation\nx: y",
        "What did they say about it?",
        "Thanks!",
        "Our library is open on Mondays.",
        "ok",
    ],
    "support-desk": [
        "Hi, my order AB-77 never arrived.",
        "Mail me at tom@example.com or call +44 20 7946 0958.",
        "It is the third time, I want a manager!",
        "My card is 4111 1111 1111 1111, is it charged?",
        "Hello?",
        "I am waiting since Monday. This is unacceptable.",
        "DE89 3704 0044 0532 0130 00 is my account.",
        "Are you a robot?",
        "Thanks, it is solved.",
        "Bye",
    ],
}
SECRETS = ("tom@example.com", "7946 0958", "4111 1111", "0532 0130")


async def talk(kernel: Kernel, name: str, turns: int) -> Session:
    char = {"name": "Mira", "description": "{{char}} knows {{user}}."}
    session = await Session.open(kernel, "c1", profile=name, model="offline", user="Tom", char=char)
    for number in range(turns):
        result = await session.generate(LINES[name][number % len(LINES[name])])
        assert result.status == "completed", result
        assert result.text.strip()
    return session


async def finished(kernel: Kernel, run: str) -> list[dict[str, Any]]:
    events = await kernel.store.read(run_stream("default", run), after=0)
    return [one.plain() for one in events if one.kind == "operation.finished"]


@pytest.mark.slow
@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_profile_runs_thirty_turns_offline(tmp_path: Path, name: str) -> None:
    async def use(kernel: Kernel) -> None:
        session = await talk(kernel, name, 30)
        statuses: dict[str, set[str]] = {}
        for number in range(1, 31):
            for one in await finished(kernel, f"c1/r{number:06d}"):
                statuses.setdefault(one["operation_id"], set()).add(one["status"])
        assert set(statuses) == {one.operation_id for one in OperationProfile.shipped(name).operations}
        assert all("done" in found <= {"done", "skipped"} for found in statuses.values()), statuses
        assert set(await session.arts()) == {
            tag
            for tag, effect in OperationProfile.shipped(name).artifacts().items()
            if effect.persistence == "persisted"
        }

    using(tmp_path, use)


def test_role_play_keeps_the_world_and_logs_fights(tmp_path: Path) -> None:
    async def use(kernel: Kernel) -> None:
        session = await talk(kernel, "rp-basic", 6)
        world = await session.art("world_state")
        assert world["turn"] == 6
        assert world["location"] == "old harbour"
        assert world["time"] == "night"
        assert world["inventory"] == []
        assert world["characters"][:2] == ["Tom", "Mira"]
        (entry,) = await session.art("combat_log")
        assert entry.startswith("Turn 2: I attack the guard") and " of 20, a " in entry
        with pytest.raises(NotFound):
            await session.art("dice")

    using(tmp_path, use)


def test_research_logs_facts_and_asks_with_whole_questions(tmp_path: Path) -> None:
    async def use(kernel: Kernel) -> None:
        session = await talk(kernel, "research-notes", 4)
        log = await session.art("fact_log")
        assert log[0] == "- The Baltic Exchange was bombed in 1992."
        assert "- The Gherkin stands there now." in log[1].splitlines()
        results = {
            one["operation_id"]: await blob_json(kernel.services, "default", one["result"])
            for one in await finished(kernel, "c1/r000002")
            if one.get("result")
        }
        assert "Baltic Exchange" in results["question_rewrite"]["value"]
        assert results["passages"]["value"][0]["text"] == "The Baltic Exchange was bombed in 1992."

    using(tmp_path, use)


def test_support_shows_models_no_personal_data_and_hands_over(tmp_path: Path) -> None:
    async def use(kernel: Kernel) -> None:
        desk, session = kernel.for_tenant(), await talk(kernel, "support-desk", 7)
        case, log = await session.art("customer_state"), await session.art("case_log")
        assert case["order"] == "AB-77"
        assert case["issue"] == "Hi, my order AB-77 never arrived."
        assert len(log) == 7
        assert log[1] == "Turn 2: Mail me at [email] or call [phone]."
        assert log[2].endswith("[handed over]") and not log[3].endswith("[handed over]")
        assert log[3] == "Turn 4: My card is [card number], is it charged?"
        assert log[6] == "Turn 7: [iban] is my account."
        sent = [
            (await desk.render(run, step["key"])).canonical().decode()
            for run in (f"c1/r{number:06d}" for number in range(1, 8))
            for step in await desk.steps(run)
            if step["kind"] == "model"
        ]
        assert len(sent) == 14, "a main call and the state of each turn"
        assert not [one for one in sent if any(secret in one for secret in SECRETS)]

    using(tmp_path, use)
