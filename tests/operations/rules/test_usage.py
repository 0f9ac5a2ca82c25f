"""Who may see which artifact: canaries, looked for in every request and in all that people can read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from artelier import ModelRequest, Session
from artelier.chat.session.event_stream import RunEvent
from artelier.chat.turn.main_call import STEP
from artelier.errors import ArtelierError, NotFound
from artelier.kernel import Renderer
from artelier.operations.profile.operation_profile import mistakes_in
from tests.operations.rules.stage import (
    AFTER,
    BEFORE,
    Stage,
    after,
    asks,
    insert,
    keep,
    op,
    profile,
    stage_test,
)

USAGES = ("internal", "ui_only", "prompt_only", "prompt+ui")
SEEN_BY_PROMPTS = ("prompt_only", "prompt+ui")
SEEN_BY_PEOPLE = ("ui_only", "prompt+ui")


def _canary(tag: str) -> str:
    return f"canary-{tag}-7261"


TAGS = {
    f"{persistence}_{usage.replace('+', '_')}": (persistence, usage)
    for persistence in ("persisted", "run_only")
    for usage in USAGES
}
FEEDS = {f"feed_{usage.replace('+', '_')}": ("persisted", usage) for usage in USAGES}
ALL = {**TAGS, **FEEDS}

WHOLE = "{% for one in art %}{{ one }}{% endfor %}"
"""A text that wants everything there is."""


def _writers() -> list[dict[str, Any]]:
    operations: list[dict[str, Any]] = []
    for number, (tag, (persistence, usage)) in enumerate(ALL.items()):
        mode = "append" if tag in FEEDS else "replace"
        effect = keep(tag, usage, persistence=persistence, write_mode=mode)
        hooks = [AFTER] if persistence == "persisted" and number % 2 else [BEFORE]
        operations.append(op(f"w_{tag}", _canary(tag), effect, hooks=hooks, order=-number))
    return operations


def _texts(requests: list[ModelRequest]) -> str:
    return "\n".join(msgspec.json.encode(one).decode() for one in requests)


def test_prompts_show_what_is_for_prompts_and_nothing_else(tmp_path: Path) -> None:
    """Main and auxiliary requests, the live ones and those rendered again from the record."""
    shown = [tag for tag, (_, usage) in ALL.items() if usage in SEEN_BY_PROMPTS]
    ask = "aux " + "".join(f"{{{{ art.{tag}.value }}}}{{{{ art.{tag}.history }}}};" for tag in shown)

    async def scenario(stage: Stage) -> None:
        lenient = {"strict": False}
        used = profile(
            *_writers(),
            asks("early", ask, params=lenient, depends_on=_at(BEFORE), order=1),
            asks("late", ask, params=lenient, depends_on=_at(AFTER), order=1, hooks=[AFTER]),
        )
        session = await stage.chat(used)
        for text in ("a", "b"):
            turn = await session.generate(text)
            assert set(turn.operations.values()) == {"done"}, await stage.ends(turn.run_id)
        said = _texts(stage.model.requests)
        for tag, (_, usage) in ALL.items():
            assert (_canary(tag) in said) is (usage in SEEN_BY_PROMPTS), tag
        for name, asked in (("main", stage.main[-1]), ("auxiliary", stage.auxiliary[-1])):
            text = _texts([asked])
            for tag, (persistence, usage) in ALL.items():
                shown = usage in SEEN_BY_PROMPTS and (name == "main" or persistence == "persisted")
                assert not shown or _canary(tag) in text, (name, tag)
        await _check_rendered(stage, session)

    stage_test(scenario)(tmp_path)


def _at(hook: str) -> list[str]:
    return [one["operation_id"] for one in _writers() if hook in one["hooks"]]


async def _check_rendered(stage: Stage, session: Session) -> None:
    desk = stage.kernel.for_tenant()
    for run_id in ("c/r000001", "c/r000002"):
        renderer = await Renderer.open(desk.services, desk.id, run_id)
        found = [await renderer.render(key) for key in _keys(await session.events(run_id))]
        assert len(found) == 3
        said = _texts(found)
        for tag, (_, usage) in ALL.items():
            assert usage in SEEN_BY_PROMPTS or _canary(tag) not in said, tag


def _keys(events: list[Any]) -> list[str]:
    return [
        STEP if one.type == "main_llm.started" else one.data["key"]
        for one in events
        if one.type in ("model.requested", "main_llm.started")
    ]


def test_people_see_what_is_for_people_and_nothing_else(tmp_path: Path) -> None:
    """All that a session can be asked for as people ask: artifacts, turns, runs, events, as they happen."""

    async def scenario(stage: Stage) -> None:
        session = await stage.chat(profile(*_writers()))
        await session.generate("a")
        *streamed, result = [one async for one in session.stream("b")]
        seen = await _readings(session)
        seen += json.dumps([one.plain() for one in streamed if isinstance(one, RunEvent)]) + repr(result)
        for tag, (persistence, usage) in ALL.items():
            shown = usage in SEEN_BY_PEOPLE and persistence == "persisted"
            assert (_canary(tag) in seen) is shown, tag

    stage_test(scenario)(tmp_path)


async def _readings(session: Session) -> str:
    found: list[Any] = [await session.arts(), await session.turns(), await session.sessions()]
    for tag in ALL:
        for read in (session.art, session.history):
            try:
                found.append(await read(tag))
            except NotFound as error:
                found.append(str(error))
    for run_id in ("c/r000001", "c/r000002"):
        found.append([one.plain() for one in await session.events(run_id, limit=1_000)])
        found.append(await session.show(run_id))
        found.append([one.plain() async for one in session.watch(run_id)])
    return repr(found)


def test_values_of_one_run_are_nowhere_else(tmp_path: Path) -> None:
    """Not in the next turn, another variant, branch or session, its history, a search, or any artifact."""
    canary = _canary("once")

    async def scenario(stage: Stage) -> None:
        once = keep("once", "prompt+ui", persistence="run_only")
        first = profile(
            op("a", canary, once, triggers=["generate"], run_conditions=[], activation=None),
            op("b", "{{ art.once.value }}", depends_on=["a"], **{"order": 2}),
        )
        session = await stage.chat(first)
        turn = await session.generate("x")
        assert turn.operations == {"a": "done", "b": "done"}
        assert canary in _texts([stage.main[-1]]), "its own run does see it"
        read = "{{ art.once.value }}{{ art.once.history }}"
        reader = profile(
            op("c", read, keep("copy"), strict=True),
            op("d", f"<{read}>{WHOLE}", keep("lenient", "internal"), strict=False),
            {
                "operation_id": "e",
                "kind": "compute",
                "order": 1,
                "params": {
                    "code": "def run(ctx):\n    return [repr(ctx.art), repr(ctx.messages), repr(ctx.rag),"
                    " repr(ctx.deps)]",
                    "effects": [keep("all", "internal")],
                },
            },
        )
        before = len(stage.main)
        await session.change(profile=reader)
        aside = await session.branch("aside")
        for other in (session, aside):
            for trigger in (other.generate("y"), other.regenerate()):
                turn = await trigger
                assert turn.operations == {"c": "error", "d": "done", "e": "done"}
        await session.reset("s2")
        await session.generate("z")
        other = await stage.chat(reader, chat="other")
        await other.generate("y")
        assert canary not in _texts(stage.main[before:])
        for one in (session, aside, other):
            told = repr(await one.arts(internal=True)) + repr(await one.turns())
            assert canary not in told
            for internal in (False, True):
                for ask in (one.art, one.history, one.publish):
                    with pytest.raises(ArtelierError):
                        await ask("once", internal=internal)
        space = stage.kernel.for_tenant().as_principal("operator")
        assert canary not in repr(await space.artifacts.list())
        for table in ("chat_art", "chat_nodes", "artifacts", "artifact_versions"):
            assert not await _rows_with(stage, table, canary)

    stage_test(scenario)(tmp_path)


async def _rows_with(stage: Stage, table: str, text: str) -> list[Any]:
    query = stage.kernel.store.query
    if not await query("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)):
        return []
    return [row for row in await query(f"SELECT * FROM {table}") if text in repr(row)]


SECRET = _canary("secret")
_HIDE = op("hide", SECRET, keep("secret", "internal"))
_UI = op("hide", SECRET, keep("secret", "ui_only"))
_DEPENDS: dict[str, Any] = {"depends_on": ["hide"], "order": 2}

SMUGGLERS: dict[str, list[dict[str, Any]]] = {
    "named in an effect": [op("x", "x", insert("{{ art.secret.value }}"), **_DEPENDS)],
    "named in the value": [op("x", "{{ art.secret.value }}", insert(), **_DEPENDS)],
    "its history": [op("x", "{{ art.secret.history }}", insert(), **_DEPENDS)],
    "the value by another text": [op("x", "{{ art.secret.value }}", insert("see {{ value }}"), **_DEPENDS)],
    "everything": [op("x", WHOLE, insert("{{ value }}"), **_DEPENDS)],
    "by a computed name": [op("x", "{% assign t = 'secret' %}{{ art[t].value }}", insert(), **_DEPENDS)],
    "what was found": [op("x", "x", insert("{{ deps.hide }}"), **_DEPENDS)],
    "all that was found": [op("x", "x", insert("{{ deps }}"), **_DEPENDS)],
    "by a helper": [
        op("h", "{{ art.secret.value }}", **_DEPENDS),
        op("x", "x", insert("{{ deps.h }}"), depends_on=["h"], order=3),
    ],
    "by a helper of a helper": [
        op("h", "{{ deps.hide }}", **_DEPENDS),
        op("i", "({{ deps.h }})", depends_on=["h"], order=3),
        op("x", "{{ deps.i }}", keep("shown", "prompt_only"), depends_on=["i"], order=4),
    ],
    "as another artifact": [op("x", "{{ deps.hide }}", keep("shown", "prompt_only"), **_DEPENDS)],
    "as a system prompt": [
        op(
            "x",
            "x",
            {
                "type": "prompt.system_update",
                "mode": "replace",
                "text": "{{ deps.hide }}{{ art.secret.value }}",
            },
            **_DEPENDS,
        )
    ],
    "asked of a model": [asks("x", "aux {{ deps.hide }} {{ art.secret.value }}", **_DEPENDS)],
    "changed": [
        {
            "operation_id": "x",
            "kind": "transform",
            **_DEPENDS,
            "params": {"input": "art.secret", "steps": [{"op": "trim"}], "effects": [insert("{{ value }}")]},
        }
    ],
    "as the person's words": [
        op("x", "{{ deps.hide }}", {"type": "turn.user_variant.upsert_and_select"}, **_DEPENDS)
    ],
}


@pytest.mark.parametrize("hide", [_HIDE, _UI], ids=["internal", "ui_only"])
@pytest.mark.parametrize("way", list(SMUGGLERS))
def test_no_template_carries_a_hidden_value_into_a_prompt(
    way: str, hide: dict[str, Any], tmp_path: Path
) -> None:
    """It is refused when it is saved, or finds nothing when it runs."""
    data = {"profile_id": "p", "operations": [hide, *SMUGGLERS[way]]}
    if found := mistakes_in(data):
        assert {one["code"] for one in found} <= {"usage_forbids_prompt", "usage_forbids_ui"}, found
        return

    async def scenario(stage: Stage) -> None:
        session = await stage.chat(profile(hide, *SMUGGLERS[way]))
        for text in ("a", "b"):
            await session.generate(text)
        assert SECRET not in _texts(stage.model.requests)
        assert "secret" in await session.arts(internal=True)

    stage_test(scenario)(tmp_path)


_PROMPT = op("hide", SECRET, keep("secret", "prompt_only"))

SHOWN: dict[str, list[dict[str, Any]]] = {
    "as a reply": [
        op("hide", SECRET, keep("secret", "prompt_only"), hooks=[AFTER]),
        after(
            "x",
            "{{ deps.hide }}{{ art.secret.value }}",
            {"type": "turn.assistant_variant.patch"},
            depends_on=["hide"],
            strict=False,
        ),
    ],
    "as a block": [
        op("hide", SECRET, keep("secret", "prompt_only"), hooks=[AFTER]),
        after(
            "x",
            "x",
            {
                "type": "turn.assistant_blocks.update",
                "blocks": [{"text": "{{ deps.hide }}"}, {"text": "{{ value }}{{ art.secret.value }}"}],
            },
            depends_on=["hide"],
        ),
    ],
    "as an artifact": [_PROMPT, op("x", "{{ deps.hide }}", keep("y", "ui_only"), **_DEPENDS)],
    "by a helper": [
        _PROMPT,
        op("h", "{{ art.secret.value }}", **_DEPENDS),
        op("x", "{{ deps.h }}", keep("y", "ui_only"), depends_on=["h"], order=3),
    ],
    "by a value": [
        _PROMPT,
        op("x", "{{ art.secret.value }}", keep("y", "ui_only", value="{{ value }}"), **_DEPENDS),
    ],
}


@pytest.mark.parametrize("way", list(SHOWN))
def test_no_template_shows_people_what_is_for_prompts_alone(way: str, tmp_path: Path) -> None:
    found = mistakes_in({"profile_id": "p", "operations": SHOWN[way]})
    if found:
        assert {one["code"] for one in found} <= {"usage_forbids_ui", "usage_forbids_prompt"}, found
        return

    async def scenario(stage: Stage) -> None:
        session = await stage.chat(profile(*SHOWN[way]))
        turn = await session.generate("a")
        seen = repr([turn, await session.turns(), await session.arts()])
        seen += repr([one.plain() for one in await session.events(turn.run_id)])
        assert SECRET not in seen

    stage_test(scenario)(tmp_path)


async def _later_profile(stage: Stage) -> None:
    """A tag keeps the usage it was written with, whatever the next profile believes of it."""
    await (session := await stage.chat(profile(_HIDE))).generate("a")
    await session.change(
        profile=profile(
            op("x", "{{ art.secret.value }}", insert(), strict=False),
            inclusions=[{"source": "art.secret", "place": "tail"}],
            system="S {{ art.secret.value }}.",
        )
    )
    turn = await session.generate("b")
    assert SECRET not in _texts(stage.model.requests)
    assert turn.failed is None or SECRET not in repr(turn.failed)


test_a_hidden_value_stays_hidden_from_a_later_profile = stage_test(_later_profile)
