"""An evening of a writer as data: sixty things that somebody does with a chat, alike through every door."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, Session
from artelier.chat.turn.main_call import STEP

CHAT = "evening"


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that the writer does; `with_` is what it is done with."""

    verb: str
    with_: dict[str, Any] = field(default_factory=dict[str, Any])


def do(verb: str, **with_: Any) -> Action:
    return Action(verb, with_)


EVENING = (
    do("begin", profile="rp-basic", user="Kim"),
    do("take", file="mira.json"),
    do("select", turn=0, variant=2),
    do("take", file="town.json"),
    do("take", file="kim.json"),
    do("set", name="temperature", value=0.7),
    do("note", text='It\'s raining. Nobody says "weather".'),
    do("say", text="Good evening, Mira."),
    do("say", text="I attack the wolf with my sword"),
    do("regenerate", turn=2),
    do("regenerate", turn=2),
    do("select", turn=2, variant=1),
    do("continue", turn=2),
    do("hide", turn=1, role="user"),
    do("say", text="Tell me about the anvil in the inn."),
    do("revise", turn=3, role="user", text="Tell me about the old anvil; it's in the inn, isn't it?"),
    do("revise", turn=3, role="assistant", text='"It hums," she says. "When it rains, it *hums*."'),
    do("say", text="What does it hum?"),
    do("unhide", turn=1, role="user"),
    do("keep_quick", label="Onward", text="Let's go on."),
    do("keep_quick", label="Look around", text="I look around the room, slowly."),
    do("quick", label="Onward"),
    do("forget_quick", label="Look around"),
    do("impersonate"),
    do("branch", turn=3),
    do("say", text="I sit down by the fire."),
    do("rerun", turn=4, text="I sit down by the window."),
    do("title", text="The humming anvil"),
    do("switch", branch="main"),
    do("search", words="anvil"),
    do("take", file="bob.json", as_member=True),
    do("rule", rule="mention"),
    do("say", text="Bob, what do you think?"),
    do("speak"),
    do("speak", name="Mira"),
    do("rule", rule="list"),
    do("say", text="And both of you?"),
    do("regenerate"),
    do("delete_reply", turn=10, variant=2),
    do("delete_turn", turn=5),
    do("branch"),
    do("say", text="One step to the door."),
    do("rewind", turn=4),
    do("say", text="Another way, then."),
    do("switch", branch="main"),
    do("delete_branch", branch="branch-3"),
    do("reset"),
    do("say", text="A new day; I attack the fog."),
    do("reopen", session="default"),
    do("say", text="Back again."),
    do("take", file="plain.json"),
    do("set", name="history_max", value=6),
    do("say", text="You remember little now."),
    do("drop_lorebooks"),
    do("archive"),
    do("unarchive"),
    do("publish", tag="world_state"),
    do("profile", name=None),
    do("say", text="Goodbye, both of you."),
    do("save_turns", file="evening.jsonl"),
)


def _entry(uid: int, key: str, content: str, **more: Any) -> dict[str, Any]:
    return {"uid": uid, "key": [key], "content": content, **more}


FILES: dict[str, Any] = {
    "mira.json": {
        "spec": "chara_card_v2",
        "spec_version": "2.0",
        "data": {
            "name": "Mira",
            "description": "{{char}} keeps the inn, and dislikes {{user}}'s boots.",
            "personality": "dry",
            "scenario": "A wet evening.",
            "first_mes": "*Come in*, {{user}}.",
            "mes_example": "<START>\n{{user}}: Ale?\n{{char}}: Water.",
            "system_prompt": "{{original}} Write as {{char}}.",
            "post_history_instructions": "Stay in the inn.",
            "alternate_greetings": ["We are closed, {{user}}."],
            "tags": ["inn"],
            "extensions": {
                "talkativeness": "0.5",
                "depth_prompt": {"prompt": "{{char}} is tired.", "depth": 2, "role": "system"},
            },
            "character_book": {
                "entries": [
                    {"keys": ["anvil"], "content": "The anvil was a bell.", "extensions": {}, "enabled": True}
                    | {"insertion_order": 1}
                ]
            },
        },
    },
    "bob.json": {
        "spec": "chara_card_v2",
        "spec_version": "2.0",
        "data": {
            "name": "Bob",
            "description": "A miller.",
            "first_mes": "Hm.",
            "mes_example": "{{char}}: No.",
        },
    },
    "town.json": {
        "entries": {
            "0": _entry(0, "inn", "The inn is older than the town."),
            "1": _entry(1, "fog", "Fog comes from the river.", constant=True, position=4, depth=1, role=1),
        }
    },
    "kim.json": {"name": "Kim", "description": "A courier with wet boots."},
    "plain.json": {"temperature": 0.4, "top_p": 0.9, "frequency_penalty": 0.25},
}


def write_files(folder: Path) -> Path:
    """Write what the writer has on disk."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in FILES.items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    return folder


async def remains(kernel: Kernel) -> dict[str, Any]:
    """Return what is left of the evening: every message, state and prompt of every branch.

    Left out are the times, and who sat there: each door has a person of its own.
    """
    return json.loads(_APART.sub("…", json.dumps(await _remains(kernel), ensure_ascii=False)))


_APART = re.compile(
    r"(?<=characters/)[^/]+(?=/)|(?<=lorebooks/)[^/]+(?=/)|(?<=personas/)[^/]+(?=/)|(?<=presets/)[^/]+(?=/)"
)


def same_dice(patch: pytest.MonkeyPatch) -> None:
    """Have the dice of a run follow from its id alone, and not from when it began."""
    patch.setattr("artelier.operations.graph.orchestrator._name", lambda run: run.id)


async def _remains(kernel: Kernel) -> dict[str, Any]:
    desk = kernel.for_tenant("default")
    main = Session(desk, CHAT, branch="main")
    branches = await main.branches()
    found: dict[str, Any] = {
        "settings": {**json.loads((await main.settings()).encode()), "principal": ""},
        "title": await main.title(),
        "archived": bool((await main.row()).archived),
        "branches": [(one["name"], one["origin"], one["turn"], one["status"]) for one in branches],
    }
    for branch in branches:
        session = await main.on(branch["name"])
        turns = await session.turns(limit=1_000)
        found[branch["name"]] = {
            "turns": [_plain_turn(turn) for turn in turns],
            "arts": {tag: (one["value"], one["version"]) for tag, one in (await session.arts()).items()},
        }
        for turn in turns:
            for variant in turn.variants:
                if variant.run_id:
                    request, _ = await desk.shown(variant.run_id, STEP)
                    found[f"prompt of {variant.run_id}"] = request.canonical().decode()
    return found


def _plain_turn(turn: Any) -> dict[str, Any]:
    replies = [
        (one.number, one.text, one.status, one.finish_reason, one.run_id, one.speaker, one.is_hidden)
        for one in turn.variants
    ]
    return {
        "number": turn.number,
        "words": (turn.user, turn.said, turn.persona, turn.is_hidden),
        "selected": turn.selected,
        "replies": replies,
    }


def spoken(jsonl: bytes) -> list[dict[str, Any]]:
    """Return the lines of a file of turns without their times."""
    lines = [json.loads(line) for line in jsonl.splitlines()]
    for line in lines:
        for name in ("send_date", "create_date", "gen_started", "gen_finished"):
            line.pop(name, None)
        line["swipe_info"] = len(line.get("swipe_info", []))
    return lines


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Say where two ends of an evening differ, as paths with both values."""
    return list(_differences("", one, other))


def _differences(path: str, one: Any, other: Any) -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        for key in one:
            yield from _differences(f"{path}/{key}", one[key], other[key])
    elif isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other):
        for at, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from _differences(f"{path}/{at}", left, right)
    elif one != other:
        yield f"{path}: {one!r} != {other!r}"
