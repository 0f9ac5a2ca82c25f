"""Operations around the steps of an agent: state over cycles and runs, barriers, prompts, deaths, replays."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from artelier import AutonomousAgent, Kernel, ModelRequest, OperationProfile, Run, Session, tool
from artelier.agents import SubAgentFactory, resume_run
from artelier.agents.loop_registry import replay_run
from artelier.errors import Conflict, InvalidRequest
from artelier.kernel import run_row
from artelier.kernel.queries.content import blob_json
from artelier.testing import ManualClock, ScriptedModel, tool_call
from tests.agents.family import CHILD
from tests.kernel.crashes import Deaths
from tests.kernel.stage import World, events, kinds, play
from tests.operations.chats import Chat
from tests.operations.profiles import template

TASK = "Look at the moon."
COUNT = "{% if art.count %}{{ art.count.value }}{% endif %}x"


@tool(side_effect=False)
async def look(at: str) -> dict[str, str]:
    "Look."
    return {"seen": at}


def watcher(*more: dict[str, Any], **fields: Any) -> OperationProfile:
    """A note of this step alone, a count, a feed of replies, something for nobody."""
    data: dict[str, Any] = {
        "profile_id": "watcher",
        "operations": [
            template(
                "hint",
                "HINT {{ chat.turn }}",
                hook="before_main_llm",
                tag="hint",
                usage="prompt_only",
                persistence="run_only",
            ),
            template("count", COUNT, tag="count"),
            template("feed", "{{ chat.turn }}:{{ reply }}", tag="feed", usage="ui_only", write_mode="append"),
            template("secret", "SECRET", tag="secret", usage="internal"),
            *more,
        ],
        **fields,
    }
    return OperationProfile.parse(data)


def last_words(request: ModelRequest) -> str:
    return next(m.text for m in reversed(request.messages) if m.role == "user")


def steady(request: ModelRequest) -> Any:
    """Looks twice and is done, by what it is shown; whatever else stands in the prompt."""
    seen = sum(message.role == "tool" for message in request.messages)
    return tool_call("look", {"at": f"moon {seen}"}) if seen < 2 else f"done: {last_words(request)}"


def open_kernel(path: Path, model: Any = None, **more: Any) -> Kernel:
    model = model or ScriptedModel(steady)
    return Kernel.open(path, models={"m": model}, tools=[look], environ={}, **more)


async def kept(kernel: Kernel, session: str = "r", *, scope: str = "watcher/default") -> dict[str, Any]:
    """The artifacts of a session, newest values first, whoever may see them."""
    return await Chat(kernel, session).state(scope=scope)


KEPT = {"count": ["xxx", "xx", "x"], "secret": ["SECRET"] * 3, "feed": [f"3:done: {TASK}", "2:", "1:"]}


def test_the_state_of_a_profile_goes_on_from_cycle_to_cycle(tmp_path: Path) -> None:
    async def scenario() -> None:
        model = ScriptedModel(steady)
        with open_kernel(tmp_path / "s.db", model) as kernel:
            agent = AutonomousAgent(kernel=kernel, profile=watcher(), agent_id="ann")
            result = await agent.run(run_id="r", model="m", prompt=TASK)

            assert (result.status, result.text) == ("completed", f"done: {TASK}")
            assert await kept(kernel) == KEPT
            session = await Session.open(kernel, "r")  # what people may see of it
            assert await session.art("count") == "xxx"
            assert set(await session.arts()) == {"count", "feed"}
            shown = [[message.text for message in request.messages] for request in model.requests]
            parts = [texts[-1].partition("\n\n## ") for texts in shown]
            assert [added for _, _, added in parts] == [
                "hint\nHINT 1",
                "count\nx\n\n## hint\nHINT 2",
                "count\nxx\n\n## hint\nHINT 3",
            ]
            assert "SECRET" not in str(shown) and "1:" not in str(shown)
            own = [[*texts[:-1], last] for texts, (last, _, _) in zip(shown, parts, strict=True)]
            for before, after in pairwise(own):
                assert after[: len(before)] == before  # the prefix that providers cache

    play(scenario())


def test_a_prompt_says_which_operation_and_version_it_shows(tmp_path: Path) -> None:
    async def scenario() -> None:
        from artelier.kernel import Renderer

        with open_kernel(tmp_path / "s.db", model := ScriptedModel(steady)) as kernel:
            await AutonomousAgent(kernel=kernel, profile=watcher()).run(run_id="r", model="m", prompt=TASK)
            renderer = await Renderer.open(kernel.services, "default", "r")
            manifest = await renderer.manifest("c3/model")
            sources = {part.tag: part.src for part in manifest.parts if part.tag.startswith("art.")}
            assert sources["art.count"] == (
                "art.count (version 2, operation count, run r, profile watcher@1, tail)",
            )
            assert sources["art.hint"] == ("art.hint (operation hint, this run, profile watcher@1, tail)",)
            for cycle, request in enumerate(model.requests, start=1):
                rendered = await kernel.for_tenant().render("r", f"c{cycle}/model")
                assert rendered.canonical() == request.canonical()

    play(scenario())


FAILING = {"kind": "template", "order": 50, "required": True, "params": {"template": "{{ nothing.here }}"}}


def test_a_barrier_ends_the_run_before_the_model_is_asked(tmp_path: Path) -> None:
    async def scenario() -> None:
        broken = {"operation_id": "gate", "hooks": ["before_main_llm"], **FAILING}
        with open_kernel(tmp_path / "s.db", model := ScriptedModel(steady)) as kernel:
            agent = AutonomousAgent(kernel=kernel, profile=watcher(broken))
            result = await agent.run(run_id="r", model="m", prompt=TASK)

            assert (result.status, result.reason) == ("failed", "before_barrier")
            assert model.requests == [] and await kept(kernel) == {}
            assert (await run_row(kernel.services.store, "default", "r")).reason == "before_barrier"

    play(scenario())


def test_a_required_operation_after_the_reply_fails_the_run_and_rolls_nothing_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        broken = {"operation_id": "gate", "hooks": ["after_main_llm"], **FAILING}
        with open_kernel(tmp_path / "s.db", model := ScriptedModel(steady)) as kernel:
            agent = AutonomousAgent(kernel=kernel, profile=watcher(broken))
            result = await agent.run(run_id="r", model="m", prompt=TASK)

            assert (result.status, result.reason) == ("failed", "after_main_llm")
            assert len(model.requests) == 1
            assert (await kept(kernel))["count"] == ["x"]

    play(scenario())


def test_a_rule_that_misses_its_artifact_fails_the_run_honestly(tmp_path: Path) -> None:
    async def scenario() -> None:
        rules = [{"source": "art.count", "on_missing": "error"}]
        with open_kernel(tmp_path / "s.db", model := ScriptedModel(steady)) as kernel:
            agent = AutonomousAgent(kernel=kernel, profile=watcher(inclusions=rules))
            result = await agent.run(run_id="r", model="m", prompt=TASK)

            assert (result.status, result.reason) == ("failed", "inclusion_failed")
            assert model.requests == []

    play(scenario())


# Deaths and replays


def test_an_agent_that_dies_at_any_commit_ends_with_the_same_state(tmp_path: Path) -> None:
    async def scenario() -> None:
        deaths = Deaths(tmp_path / "s.db", World(), skip=("commit.before",))
        with open_kernel(tmp_path / "s.db", clock=ManualClock(), fault=deaths) as kernel:
            agent = AutonomousAgent(kernel=kernel, profile=watcher())
            await agent.run(run_id="r", model="m", prompt=TASK)
            expected = await kept(kernel)
            assert expected == KEPT

        assert len(deaths.found) > 10
        for death in deaths.found:
            clock = ManualClock()
            clock.advance(3600)  # the dead process's lease has expired
            with open_kernel(death.path, clock=clock) as kernel:
                agent = AutonomousAgent(kernel=kernel, profile=watcher())
                result = await agent.run(run_id="r", model="m", prompt=TASK)
                assert (result.status, result.text) == ("completed", f"done: {TASK}"), death
                assert await kept(kernel) == expected, death

    play(scenario(), within_s=120)


def test_a_run_is_resumed_with_the_profile_that_it_began_with(tmp_path: Path) -> None:
    """In another process, which knows of no profile, or after the profile has become another."""

    async def scenario() -> None:
        deaths = Deaths(tmp_path / "s.db", World(), skip=("commit.before",))
        with open_kernel(tmp_path / "s.db", clock=ManualClock(), fault=deaths) as kernel:
            await AutonomousAgent(kernel=kernel, profile=watcher()).run(run_id="r", model="m", prompt=TASK)
        middle = deaths.found[len(deaths.found) // 2]
        clock = ManualClock()
        clock.advance(3600)
        with open_kernel(middle.path, clock=clock) as kernel:
            await watcher(name="other", operations=[]).save(kernel)
            result = await resume_run(kernel, None, "r")
            assert result.status == "completed"
            assert await kept(kernel) == KEPT

    play(scenario())


async def again(run: Run) -> None:
    """The loop's own drive, from what the run was started with."""
    row = await run_row(run.core.services.store, run.tenant_id, run.id)
    await replay_run(run, await blob_json(run.core.services, run.tenant_id, row.settings))


def test_a_run_replays_without_a_call_here_and_from_a_file_in_an_empty_folder(tmp_path: Path) -> None:
    """The session's stream does not travel, and the replay does not need it."""

    async def scenario() -> None:
        file = tmp_path / "r.artelier"
        with open_kernel(tmp_path / "s.db", model := ScriptedModel(steady)) as kernel:
            agent = AutonomousAgent(kernel=kernel, profile=watcher())
            await agent.run(run_id="r", model="m", prompt=TASK)
            asked = len(model.requests)
            replayed = await kernel.for_tenant().replay("r", agent.drive)
            assert (replayed.status, replayed.model_calls, replayed.tool_calls) == ("completed", 0, 0)
            assert len(model.requests) == asked
            await kernel.for_tenant().export("r", file)

        found = await Kernel.replay_file(file, again)
        assert found.status == "completed" and found.result["text"] == f"done: {TASK}"
        with open_kernel(tmp_path / "other.db") as kernel:
            await kernel.for_tenant().import_(file)
            assert (await kernel.for_tenant().replay("r", again)).status == "completed"
            rendered = await kernel.for_tenant().render("r", "c2/model")
            assert rendered.messages[-1].text.endswith("## count\nx\n\n## hint\nHINT 2")

    play(scenario())


def test_a_fork_of_a_run_with_a_profile_is_refused_where_it_would_lose_its_state(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path / "s.db", model := ScriptedModel(steady)) as kernel:
            await AutonomousAgent(kernel=kernel, profile=watcher()).run(run_id="r", model="m", prompt=TASK)
            cycles = [event.seq for event in await events(kernel) if event.kind == "cycle.completed"]
            asked = len(model.requests)
            name = await kernel.for_tenant().fork("r", at=cycles[0])
            result = await resume_run(kernel, None, name)
            assert (result.status, result.reason) == ("failed", "invalid_request")
            told = (await kernel.for_tenant().show(name))["message"]
            assert "is a fork" in told and len(model.requests) == asked
            assert await kept(kernel) == KEPT

    play(scenario())


# Sessions


def test_a_chat_of_an_agent_keeps_its_state_over_runs(tmp_path: Path) -> None:
    async def scenario() -> None:
        model = ScriptedModel(lambda request: f"re: {last_words(request)}")
        every = template("rare", "R{{ chat.turn }}", tag="rare", activation={"every_n_turns": 2})
        with open_kernel(tmp_path / "s.db", model) as kernel:
            agent = AutonomousAgent(kernel=kernel, profile=watcher(every), agent_id="ann")
            chat = agent.chat("talk", model="m")
            for _ in range(3):
                assert (await chat.send("hello")).status == "completed"
        with open_kernel(tmp_path / "s.db", model) as kernel:  # another process goes on
            agent = AutonomousAgent(kernel=kernel, profile=watcher(every), agent_id="ann")
            assert (await agent.chat("talk", model="m").send("hello")).status == "completed"
            found = await kept(kernel, "talk")
            assert found["count"] == ["xxxx", "xxx", "xx", "x"] and len(found["feed"]) == 4
            assert len(found["rare"]) == 2  # counted over all runs
            for run in ("talk/000001", "talk/000004"):
                assert (await kernel.for_tenant().replay(run, agent.drive)).status == "completed"

    play(scenario())


def test_the_steps_of_an_agent_stay_out_of_the_chat_of_a_person(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path / "s.db", ScriptedModel(steady)) as kernel:
            person = await Session.open(kernel, "r", model="m", profile=watcher())
            await person.generate("hello")
            before = await person.arts(internal=True)
            agent = AutonomousAgent(kernel=kernel, profile=watcher(), agent_id="ann")
            result = await agent.run(run_id="r", model="m", prompt=TASK)
            assert (result.status, result.reason) == ("failed", Conflict.code)
            assert await person.arts(internal=True) == before

    play(scenario())


def test_a_sub_agent_has_operations_and_a_session_of_its_own(tmp_path: Path) -> None:
    async def scenario() -> None:
        def boss(request: ModelRequest) -> Any:
            done = any(message.role == "tool" for message in request.messages)
            return "all done" if done else tool_call("worker", {"prompt": TASK})

        models = {"boss": ScriptedModel(boss), "m": ScriptedModel(steady)}
        with Kernel.open(tmp_path / "s.db", models=models, tools=[look], environ={}) as kernel:
            worker = SubAgentFactory(kernel=kernel).create(
                name="worker",
                description="Works.",
                system_prompt="You work.",
                model="m",
                tools=[look],
                profile=watcher(),
            )
            agent = AutonomousAgent(kernel=kernel, tools=[worker], profile=watcher(), agent_id="boss")
            result = await agent.run(run_id="r", model="boss", prompt="Have it done.")
            assert (result.status, result.text) == ("completed", "all done")
            assert (await kept(kernel))["count"] == ["xx", "x"]
            assert await kept(kernel, CHILD) == KEPT
            rows = await kernel.store.query("SELECT chat FROM chats ORDER BY chat")
            assert [chat for (chat,) in rows] == ["r", CHILD]
            assert (await kernel.for_tenant().replay("r", agent.drive)).status == "completed"

    play(scenario())


def test_an_agent_without_a_profile_writes_nothing_of_operations(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path / "s.db") as kernel:
            await AutonomousAgent(kernel=kernel).run(run_id="r", model="m", prompt=TASK)
            assert not {"session.read", "commit.reported"} & set(await kinds(kernel))

    play(scenario())


@pytest.mark.parametrize(
    "effect",
    [
        ("before_main_llm", {"type": "turn.user_variant.upsert_and_select"}),
        ("after_main_llm", {"type": "turn.assistant_variant.patch", "mode": "append"}),
        ("before_main_llm", {"type": "prompt.system_update", "mode": "replace"}),
    ],
)
@pytest.mark.parametrize("is_stored", [False, True])
def test_effects_that_steps_cannot_have_are_refused_before_anything_begins(
    tmp_path: Path, effect: tuple[str, dict[str, Any]], is_stored: bool
) -> None:
    """They would else be reported as applied, and nothing would come of them."""

    async def scenario() -> None:
        hook, one = effect
        profile = watcher(template("odd", "x", hook=hook, order=9, effects=(one,)))
        with open_kernel(tmp_path / "s.db") as kernel:
            ref = await profile.save(kernel)
            agent = AutonomousAgent(kernel=kernel, profile=ref if is_stored else profile)
            with pytest.raises(InvalidRequest, match="'odd'"):
                await agent.run(run_id="r", model="m", prompt=TASK)
            assert (await kernel.for_tenant().runs())["items"] == []

    play(scenario())


def test_a_shipped_profile_is_given_by_its_name(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path / "s.db") as kernel:
            for run_id in ("r", "again"):
                agent = AutonomousAgent(kernel=kernel, profile="research-notes")
                result = await agent.run(run_id=run_id, model="m", prompt=TASK)
                assert result.status == "completed", result
            operator = kernel.for_tenant().as_principal("operator")
            stored = await operator.artifacts.read("research-notes")
            assert (stored.kind, stored.version) == ("profile", 1)

    play(scenario())


@pytest.mark.parametrize("profile", ["nobody", "watcher@9", 7])
def test_a_profile_that_is_not_there_is_said_before_anything_begins(tmp_path: Path, profile: Any) -> None:
    from artelier.errors import ArtelierError

    async def scenario() -> None:
        with open_kernel(tmp_path / "s.db") as kernel:
            await watcher().save(kernel)
            with pytest.raises(ArtelierError):
                await AutonomousAgent(kernel=kernel, profile=profile).run(run_id="r", model="m", prompt=TASK)
            assert await kernel.for_tenant().runs() == {"items": [], "next": None}

    play(scenario())
