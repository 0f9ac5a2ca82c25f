"""Chats with several characters: who speaks next, and whose words stand in a prompt.

The members of a group are in the settings of the chat, in order. One of them writes each reply, with its own
card in the prompt. A prompt shows every message after the name of who said it, since a model knows two roles
only; what is stored of a message has no name in it, and says beside whose it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from artelier.chat.queries.chats import named_text
from artelier.chat.turn.main_call import name_said
from artelier.chat.turn.turn_config import SpeakerRule, TurnJob
from artelier.chat.turn.turn_inputs import TurnInputs
from artelier.context import Section
from artelier.errors import ArtelierError, Conflict, CorruptStore, NotFound, StoreUnavailable
from artelier.kernel import Run
from artelier.operations.graph.artifact_inclusion import wording
from artelier.operations.graph.scope import Situation

TALKATIVENESS = 0.5
"""Of a member whose card says nothing about it: that of SillyTavern."""
SEARCHED_CHARS_MAX = 20_000
"""Of what is said, in which names are looked for."""
SHOWN_MESSAGES = 12
"""The newest, to a model that chooses who speaks (a guess)."""
SHOWN_CHARS = 1_000
"""Of each of these."""
CHOICE_TOKENS_MAX = 64

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeakerChoice:
    """The speaker of a turn, as it was asked for."""

    name: str
    """Empty in a chat without a group."""
    is_open: bool = False
    """True if a model chooses in the turn; `name` is for when it names nobody."""


def names_of(group: Sequence[Mapping[str, Any]]) -> list[str]:
    return [str(one["name"]) for one in group]


def choose(
    group: Sequence[Mapping[str, Any]], rule: str, *, wished: str, words: str, last: str, seed: str
) -> SpeakerChoice:
    """Choose who writes the next reply.

    `wished`: who was named for it. `words`: what was said last. `last`: who spoke last, empty for nobody.
    `seed` draws. Cost: O(words and members). Errors: `NotFound` for a name that no member has.
    """
    names = names_of(group)
    if wished:
        return SpeakerChoice(name=member_called(names, wished))
    if not names:
        return SpeakerChoice(name="")
    following = names[(names.index(last) + 1) % len(names)] if last in names else names[0]
    if rule == SpeakerRule.LIST:
        return SpeakerChoice(name=following)
    if rule == SpeakerRule.MODEL:
        return SpeakerChoice(name=following, is_open=len(names) > 1)
    if named := mentioned(words, names):
        return SpeakerChoice(name=named)
    if rule == SpeakerRule.TALKATIVENESS:
        return SpeakerChoice(name=_draw(group, last=last, seed=seed))
    return SpeakerChoice(name=following)


def member_called(names: Sequence[str], wished: str) -> str:
    """Return the member of that name, in any case. Errors: `NotFound` that names those there are."""
    wanted = wished.strip().casefold()
    for name in names:
        if name.casefold() == wanted:
            return name
    raise NotFound(
        f"nobody of this chat is called {wished[:80]!r}",
        expected=", ".join(names[:20])[:300] or "a chat with several characters",
        hint="Session.open(group=[...]) says who takes part.",
    )


def mentioned(words: str, names: Sequence[str]) -> str:
    """Return who is named first; by a whole name, or by a word of one that no other member has."""
    said = [one.casefold() for one in _WORD.findall(words[:SEARCHED_CHARS_MAX])]
    whole = {name: [one.casefold() for one in _WORD.findall(name)] for name in names}
    count: dict[str, int] = {}
    for parts in whole.values():
        for part in set(parts):
            count[part] = count.get(part, 0) + 1
    first: dict[str, str] = {}
    for name, parts in whole.items():
        for part in parts:
            if count[part] == 1 and len(part) > 1:
                first[part] = name
    return next((first[one] for one in said if one in first), "")


def _draw(group: Sequence[Mapping[str, Any]], *, last: str, seed: str) -> str:
    others = [one for one in group if one["name"] != last] or list(group)
    weights = [max(0.0, min(1.0, talkativeness(one))) for one in others]
    if not sum(weights):
        weights = [1.0] * len(others)
    drawn = int.from_bytes(sha256(seed.encode("utf-8", "surrogatepass")).digest()[:6]) / (1 << 48)
    left = drawn * sum(weights)
    for one, weight in zip(others, weights, strict=True):
        left -= weight
        if left < 0:
            return str(one["name"])
    return str(others[-1]["name"])


def talkativeness(member: Mapping[str, Any]) -> float:
    """Return how readily a member speaks, from 0 to 1. Cards hold it as a number or as its text."""
    try:
        value = float(member.get("talkativeness", TALKATIVENESS))
    except (TypeError, ValueError, OverflowError):
        return TALKATIVENESS
    return value if 0 <= value <= 1 else TALKATIVENESS


# In a turn


async def with_speaker(run: Run, job: TurnJob, found: TurnInputs) -> TurnInputs:
    """Return what a turn goes on from, with who writes its reply as the character of the chat.

    A model that is to choose is asked here, in a step of its own, once. Errors: Flow.
    """
    group: Sequence[Mapping[str, Any]] = found.settings.get("group") or ()
    if not job.speaker or not group:
        return found
    names, name = names_of(group), job.speaker
    if job.picks_speaker:
        name = await _ask_model(run, job, found, names)
    member = next((one for one in group if one["name"] == name), found.settings.get("char") or group[0])
    settings = {**found.settings, "char": dict(member)}
    called = str(member["name"])
    said_last = unnamed(found.said_last, called)
    return replace(found, settings=settings, speaker=called, members=tuple(names), said_last=said_last)


async def _ask_model(run: Run, job: TurnJob, found: TurnInputs, names: Sequence[str]) -> str:
    said = [*found.said_before, *found.said]
    lines = [one.text[:SHOWN_CHARS] for one in said[-SHOWN_MESSAGES:]]
    if job.has_words:
        user = name_said(found.settings, "user", is_group=True)
        lines.append(named_text(user, job.text[:SHOWN_CHARS]))
    asked = "\n\n".join((*lines, f"[{', '.join(names)}]"))
    try:
        result = await run.step_model(
            model=job.model,
            messages=[
                {"role": "system", "content": wording("choose-speaker-1")},
                {"role": "user", "content": asked},
            ],
            key="speaker",
            max_output_tokens=CHOICE_TOKENS_MAX,
        )
    except (Conflict, CorruptStore, StoreUnavailable):
        raise
    except ArtelierError:  # the turn has a speaker all the same
        return job.speaker
    return mentioned(result.text, names) or job.speaker


def own_words(text: str, speaker: str, others: Sequence[str]) -> str:
    """Return what a member says itself of a reply: without its name before it, up to where others speak."""
    own, begun = text, text.lstrip().removeprefix(speaker).lstrip(" ")
    if begun.startswith(":") and text.lstrip().startswith(speaker):
        own = begun[1:].lstrip(" \t")
    for other in others:
        at = own.find(f"\n{other}:")
        if at > 0:
            own = own[:at].rstrip()
    return own


def attribute(situation: Situation, found: TurnInputs, user: str) -> Situation:
    """Return a situation whose messages have the names of who said them, and not in their texts."""
    names = {*found.members, user}
    told: list[Mapping[str, str]] = []
    for one in situation.messages:
        name, mark, text = one["content"].partition(": ")
        is_named = bool(mark) and name in names
        told.append({**one, "name": name, "content": text} if is_named else one)
    return replace(situation, messages=told)


def unnamed(text: str, speaker: str) -> str:
    """Return a message without the name that a prompt of a group put before it."""
    return text.removeprefix(named_text(speaker, "")) if speaker else text


def request_to_speak(found: TurnInputs, *, has_words: bool) -> list[Section]:
    """Return the last words of a prompt that say whose reply is wanted; none where that is plain."""
    if found.speaker:
        others = ", ".join(name for name in found.members if name != found.speaker)
        text = wording("speaker-1").replace("{speaker}", found.speaker).replace("{others}", others)
        return [Section(tag="speaker", text=text.strip(), sources=("speaker-1",), pinned=True)]
    if has_words:
        return []
    return [Section(tag="speaker", text=wording("go-on-1"), sources=("go-on-1",), pinned=True)]
