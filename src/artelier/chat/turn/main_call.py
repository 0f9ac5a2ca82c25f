"""The one main model call of a turn, and why it ended. Its outcome is recorded as a whole.

A provider's failure is an outcome too: the turn says so, and what was said before it stands.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, cast

import msgspec

from artelier.chat.turn.lorebooks import Lore
from artelier.chat.turn.turn_config import GROUP_RULES, ORIGINAL_RULES, SYSTEM_RULES, TurnJob
from artelier.context import Section
from artelier.context.assembly import Source
from artelier.errors import (
    ArtelierError,
    Conflict,
    CorruptStore,
    External,
    Flow,
    ModelRefusedCall,
    ModelTimeout,
    RateLimited,
    Refused,
    StoreUnavailable,
)
from artelier.kernel import ModelResult, Prompt, Renderer, Run
from artelier.kernel.events import StepCompleted
from artelier.kernel.queries.runs import find_run
from artelier.kernel.queries.steps import find_record, find_step
from artelier.kernel.steps.failures import ask_in_turn
from artelier.log import Blob, Store, decode_stored, stored_blob
from artelier.operations.graph.failures import mask_secrets
from artelier.operations.lore.activation import substitute_names
from artelier.operations.lore.macros import Macros
from artelier.operations.lore.prompt_places import PlacedPrompt, placed_around
from artelier.ports.model import Delta

if TYPE_CHECKING:
    from artelier.operations.profile.operation_profile import OperationProfile

Sink = Callable[[Delta], Awaitable[None]]

KEY = "main"
STEP = "main/model"
"""Key of the first model's step, as manifests name it; that of a fallback begins so."""


def is_main(key: str) -> bool:
    """Return True for the key of a step that asks a model for the reply."""
    return key == STEP or key.startswith(f"{STEP}/fallback-")


ENDS = {
    "stop": "completed",
    "length": "completed",
    "tool_calls": "completed",
    "content_filter": "policy_error",
}


class MainCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of the main call."""

    text: str = ""
    finish_reason: str
    """completed, user_abort, deadline, provider_error, rate_limited, timeout, policy_error or unknown."""
    code: str = ""
    """`length` of a reply that its limit of tokens has cut: it is completed, and not whole."""
    message: str = ""
    cost_microusd: int = 0
    replied: bool = False
    """Whether a reply is recorded; else `text` is what had come when it was cut."""
    step: str = STEP
    """Key of the step that brought the reply."""

    @property
    def is_ok(self) -> bool:
        return self.finish_reason == "completed"


async def main_call(
    run: Run,
    prompt: Prompt,
    *,
    models: Sequence[str],
    params: dict[str, Any],
    left_s: float | None,
    sink: Sink | None,
) -> tuple[MainCall, ModelResult | None]:
    """Ask the models in turn until one replies, once: how that ended, and the reply if one is recorded.

    Units: `left_s` is what is left of the run's deadline.
    Errors: Flow, when a command or a limit ends the drive.
    """
    heard: list[ModelResult] = []

    async def make(full: str) -> tuple[StepCompleted, list[Blob]]:
        within = Run(run.core, parent_key=full)
        ended = await _ask_models(within, prompt, models, params, left_s, sink, heard)
        ref, blobs = run.core.keep_json(msgspec.to_builtins(ended))
        return StepCompleted(key=full, name="main_llm", result=ref), blobs

    done = await run.receipt(StepCompleted, make, key=KEY)
    call = msgspec.convert(await run.core.load_json(done.result), MainCall)
    if not call.replied:
        return call, None
    if heard:
        return call, heard[0]
    renderer = await Renderer.open(run.core.services, run.tenant_id, run.id)
    return call, ModelResult(text=call.text, key=call.step, reply=await renderer.reply(call.step))


async def _ask_models(
    run: Run,
    prompt: Prompt,
    models: Sequence[str],
    params: dict[str, Any],
    left_s: float | None,
    sink: Sink | None,
    heard: list[ModelResult],
) -> MainCall:
    pieces: list[str] = []

    async def ask(model: str, key: str | None) -> ModelResult:
        if sink is not None and key != "model":
            await sink(Delta())  # what the one before it has thought counts no more
        call: dict[str, Any] = {"model": model, "messages": prompt, "key": key, **params}
        return await _result(run, call, sink, pieces)

    try:
        async with asyncio.timeout(left_s):
            result = await ask_in_turn(models, "model", ask, has_begun=lambda: pieces)
    except TimeoutError:
        return MainCall(text="".join(pieces), finish_reason="deadline", code="deadline")
    except (Flow, Conflict, StoreUnavailable, CorruptStore):
        raise
    except ArtelierError as error:
        return MainCall(
            text="".join(pieces),
            finish_reason=_reason(error),
            code=error.code,
            message=mask_secrets(str(error)[:4_000])[:2_000],
        )
    heard.append(result)
    reason = ENDS.get(result.finish_reason, "unknown")
    if result.finish_reason == "cut":  # by a command, or since it was longer than was asked for
        reason = "user_abort" if run.core.stopping or run.core.cancelled_reason else "completed"
    code = "" if reason == "completed" else reason
    if result.finish_reason in ("length", "cut") and reason == "completed":
        code = "length"
    return MainCall(
        text=result.text,
        finish_reason=reason,
        code=code,
        cost_microusd=result.cost_microusd,
        replied=True,
        step=result.key,
    )


async def _result(run: Run, call: dict[str, Any], sink: Sink | None, pieces: list[str]) -> ModelResult:
    if sink is None:
        return await run.step_model(**call)

    async def think(piece: str) -> None:
        await sink(Delta(reasoning=piece))

    async with aclosing(cast(Any, run.stream_model(**call, on_reasoning=think))) as items:
        async for item in items:
            if isinstance(item, ModelResult):
                return item
            pieces.append(item.text)
            await sink(item)
    raise AssertionError("a stream ends with the whole reply")


def _reason(error: ArtelierError) -> str:
    if isinstance(error, RateLimited):
        return "rate_limited"
    if isinstance(error, ModelTimeout):
        return "timeout"
    if isinstance(error, Refused | ModelRefusedCall):
        return "policy_error"
    return "provider_error" if isinstance(error, External) else "unknown"


# The recorded reply of a turn that has not ended


COMMIT = "commit/after"
"""Key of the step with which the reply becomes the turn's."""


async def reply_so_far(store: Store, tenant: str, run: int) -> MainCall | None:
    """Return how the main call of a run ended, while its reply is not in the chat yet; else None.

    `run` is the row id of the run's stream. What later operations will make of the reply is not in it.
    """
    commit = await find_step(store, run, COMMIT)
    if commit is not None and commit.completed is not None:
        return None
    return await _ended_call(store, tenant, run)


async def reply_step(store: Store, tenant: str, run_id: str) -> str:
    """Return the key of the step that brought a turn's reply; without one, that of the first model."""
    row = await find_run(store, tenant, run_id)
    call = None if row is None else await _ended_call(store, tenant, row.id)
    return STEP if call is None else call.step


async def _ended_call(store: Store, tenant: str, run: int) -> MainCall | None:
    call = await find_record(store, run, KEY)
    if call is None or call.outcome is None:
        return None
    done = call.outcome.read(StepCompleted)
    plain = decode_stored(await stored_blob(store, tenant, done.result))
    return msgspec.convert(plain, MainCall)


# What stands around the conversation: from the settings of the chat, its card, preset and profile


_LEADS = {
    "description": "",
    "personality": "Personality: ",
    "scenario": "Scenario: ",
    "example_dialogue": "How {{char}} talks:\n",
}
"""Fields of a character by the words before each, in the order in which they usually stand in the prompt."""


def card_chars(settings: Mapping[str, Any]) -> int:
    """Return how long the texts are together in which the participants of a chat may have macros."""
    char: Mapping[str, Any] = settings.get("char") or {}
    given = (settings, settings.get("user"), char, char.get("depth_prompt"), settings.get("note"))
    parts = [cast("dict[str, object]", one) for one in given if isinstance(one, dict)]
    parts += settings.get("prompts") or ()
    return sum(len(text) for part in parts for text in part.values() if isinstance(text, str))


def macros_of(settings: Mapping[str, Any], job: TurnJob, *, run: str, now_us: int) -> Macros | None:
    """Return what macros become in a turn; None for a turn whose card is read without them."""
    if not job.card_rules:
        return None
    user, char = _named(settings)
    chat = f"{job.chat}\0card"
    return Macros(
        user=str(user["name"]),
        char=str(char["name"]),
        seed=f"{run}\0card",
        chat_seed=chat,
        now_us=now_us,
        variables=dict(settings.get("variables") or {}),
        # Older turns left macros of groups as they are written.
        group=None
        if job.card_rules < GROUP_RULES
        else tuple(str(one["name"]) for one in settings.get("group") or ()),
    )


def people_of(settings: Mapping[str, Any], macros: Macros | None = None) -> dict[str, dict[str, Any]]:
    """`user` and `char` of a chat, each with a name. In their texts stands what macros become."""
    user, char = _named(settings)
    names = {"user": str(user["name"]), "char": str(char["name"])}

    def fill(text: str) -> str:
        return substitute_names(text, **names) if macros is None else macros.expand(text)

    def fill_person(person: dict[str, Any], kept: Collection[str]) -> dict[str, Any]:
        # In the order of the prompt: what one text sets as a variable, those after it have.
        order = [*(name for name in _LEADS if name in person), *person]
        filled = dict(person)
        for key in dict.fromkeys(order):
            if isinstance(person[key], str) and key not in kept:
                filled[key] = fill(person[key])
        return filled

    # What stands for `{{original}}` is known where the prompt is made.
    later = ("name", "ref", "lorebook") if macros is None else ("name", "ref", "lorebook", *_WITH_ORIGINAL)
    return {"user": fill_person(user, later), "char": fill_person(char, later)}


_WITH_ORIGINAL = ("system_prompt", "post_history_instructions")


def name_said(settings: Mapping[str, Any], side: str, *, is_group: bool) -> str:
    """Return the name that history keeps of who speaks; empty if the chat names nobody."""
    given: Mapping[str, Any] = settings.get(side) or {}
    if not given.get("name") and not is_group:
        return ""
    user, char = _named(settings)
    return str((user if side == "user" else char)["name"])


def _named(settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    user: dict[str, Any] = {"name": "User", **(settings.get("user") or {})}
    char: dict[str, Any] = {"name": "Assistant", **(settings.get("char") or {})}
    if settings.get("scenario"):
        char["scenario"] = settings["scenario"]
    return user, char


_ORIGINAL = re.compile(r"\{\{\s*original\s*\}\}", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SurroundingTexts:
    """The texts around the conversation of a prompt: of the chat, its character and its preset, in order."""

    job: TurnJob
    settings: Mapping[str, Any]
    people: Mapping[str, Mapping[str, Any]]
    macros: Macros | None
    profile: OperationProfile | None
    names: Mapping[str, Any]
    """Those that a prompt may show."""
    lore: Lore
    before: Sequence[PlacedPrompt]
    after: Sequence[PlacedPrompt]
    inside: Sequence[PlacedPrompt]

    @classmethod
    def of(
        cls,
        job: TurnJob,
        settings: Mapping[str, Any],
        people: Mapping[str, Mapping[str, Any]],
        macros: Macros | None,
        *,
        profile: OperationProfile | None,
        names: Mapping[str, Any],
        lore: Lore,
    ) -> SurroundingTexts:
        """Return the texts of a turn. Lore for which the preset has no place is left out."""
        prompts = msgspec.convert(settings.get("prompts") or (), tuple[PlacedPrompt, ...])
        has_system = bool(settings.get("system"))
        before, after, inside = placed_around(prompts, has_system=has_system, trigger=job.trigger)
        places = {one.place for one in (*before, *after)}
        return cls(
            job=job,
            settings=settings,
            people=people,
            macros=macros,
            profile=profile,
            names=names,
            lore=lore.at(before="lore_before" in places, after="lore_after" in places),
            before=before,
            after=after,
            inside=inside,
        )

    def introduction(self) -> list[Section]:
        """Return what stands before the conversation: system prompt, lore, character, persona.

        Errors: those of templates, for the system prompt of the profile.
        """
        return self._placed(self.before)

    def afterword(self) -> list[Section]:
        """Return what stands behind the conversation, above all what a character says must stand there."""
        return self._placed(self.after)

    @property
    def _holds_note(self) -> bool:
        """True if the chat's note ends the prompt within what a character says must stand there."""
        note: Mapping[str, Any] = self.settings.get("note") or {}
        said = str(self.people["char"].get("post_history_instructions") or "")
        return (
            self.job.card_rules >= ORIGINAL_RULES
            and not note.get("depth")
            and note.get("role") in (None, "system")
            and any(one.place == "after" and not one.is_fixed for one in (*self.before, *self.after))
            and _ORIGINAL.search(said) is not None
        )

    def at_depth(self) -> tuple[tuple[int, Section], ...]:
        """Return texts of the preset, the character's note and the author's, each with how many messages
        stand after it.
        """
        if self.macros is None:
            return ()
        char = self.people["char"]
        found = [(one.depth or 0, self._text(one)) for one in self.inside]
        for tag, note, ref in (
            ("character_note", char.get("depth_prompt"), str(char.get("ref") or "chat")),
            ("author_note", self.settings.get("note"), "chat"),
        ):
            if not isinstance(note, dict) or (tag == "author_note" and self._holds_note):
                continue
            told = cast("dict[str, Any]", note)
            text, role = self.macros.expand(str(told.get("prompt") or "")), told.get("role")
            if text.strip():
                section = _section(tag, text, ref)
                role = role if role in ("system", "user", "assistant") else "system"
                found.append((int(told.get("depth") or 0), replace(section, role=role)))
        return tuple(found)

    def _placed(self, parts: Sequence[PlacedPrompt]) -> list[Section]:
        """Return sections in the order of their places; what is said of the character in one run is one."""
        sections: list[Section] = []
        for place, run in groupby(parts, lambda one: "character" if one.place in _LEADS else one.place):
            match place:
                case "character":
                    is_named = any(one.tag == "character" for one in sections)
                    sections += self._character([one.place for one in run], is_named=is_named)
                case "lore_before":
                    sections += self.lore.before
                case "lore_after":
                    sections += self.lore.after
                case "persona":
                    sections += self._persona()
                case "main":
                    sections += map(self._system, run)
                case "after":
                    sections += [one for one in map(self._last, run) if one.text.strip()]
                case _:
                    sections += map(self._text, run)
        return sections

    @property
    def _who(self) -> dict[str, str]:
        return {one: str(self.people[one]["name"]) for one in ("user", "char")}

    def _system(self, main: PlacedPrompt) -> Section:
        """The base of the system prompt: what the chat or its profile says.

        With macros, a card's own system prompt stands in its place, and has it as `{{original}}`.
        """
        macros, char, who, source = self.macros, self.people["char"], self._who, "chat"
        own = self.settings.get("system") or (char.get("system_prompt") if macros is None else "") or ""
        if own and macros is not None and self.job.card_rules >= SYSTEM_RULES:
            text = macros.expand(str(own))
        elif own:  # of older turns, which filled in names alone
            text = substitute_names(str(own), **who)
        elif self.profile is not None and self.profile.system:
            from artelier.operations.template_engine.template import Template

            text, source = (
                Template.parse(self.profile.system).render(self.names),
                f"profile:{self.job.profile}",
            )
        elif self.settings.get("prompts"):
            text = ""
        else:
            text = f"You are {who['char']}, in a conversation with {who['user']}."
        of_card = str(char.get("system_prompt") or "")
        if macros is not None and of_card.strip() and not main.is_fixed:
            text, source = macros.expand(of_card, original=text), str(char.get("ref") or source)
        return replace(_section("system", text, source, pinned=True), role=main.role)

    def _character(self, fields: Sequence[str], *, is_named: bool) -> list[Section]:
        char, who = self.people["char"], self._who
        told = [
            substitute_names(_LEADS[field], **who) + str(char[field]) for field in fields if char.get(field)
        ]
        if not told:
            return []
        about = "\n\n".join(told) if is_named else f"# {who['char']}\n" + "\n\n".join(told)
        return [_section("character", about, str(char.get("ref") or "chat"), pinned=True)]

    def _persona(self) -> list[Section]:
        user = self.people["user"]
        if not user.get("description"):
            return []
        about = f"# {self._who['user']}\n{user['description']}"
        return [_section("persona", about, str(user.get("ref") or "chat"))]

    def _text(self, one: PlacedPrompt) -> Section:
        text = one.text if self.macros is None else self.macros.expand(one.text)
        source = str(self.settings.get("preset") or "chat")
        # As the system prompt, of which it is a part; among the messages it gives way as a note does.
        section = _section("preset", text, source, pinned=one.depth is None)
        return replace(section, role=one.role, sources=(Source(ref=source, why=one.id),))

    def _last(self, last: PlacedPrompt) -> Section:
        """Return the text behind the conversation: that of the character, else that of the preset."""
        char, macros = self.people["char"], self.macros
        note: Mapping[str, Any] = self.settings.get("note") or {}
        original = "\n\n".join(
            one for one in (last.text, str(note.get("prompt") or "") if self._holds_note else "") if one
        )
        of_card = str(char.get("post_history_instructions") or "")
        if last.is_fixed or not of_card.strip():
            text, source = original, str(self.settings.get("preset") or "chat")
        else:
            text, source = of_card, str(char.get("ref") or "chat")
        if macros is not None:
            original = macros.expand(original)
            text = (original if text is not of_card else macros.expand(of_card, original=original)).strip()
        return replace(_section("post_history_instructions", text, source), role=last.role)


def _section(tag: str, text: str, source: str, *, pinned: bool = False) -> Section:
    return Section(
        tag=tag,
        text=text,
        pinned=pinned,
        priority=90,
        sources=(Source(ref=source),),
        trust="trusted" if tag == "system" else "operations",
        is_fenced=True,
    )
