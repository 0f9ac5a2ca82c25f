"""Effects of operations: from a result to the changes it asks for, and to the changes made. No I/O.

An operation's effects are rendered when it runs, and are part of its recorded result. Only `apply` applies
them, in the order of commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, assert_never, cast

import msgspec

from artelier.errors import InvalidRequest
from artelier.operations.graph.plan import Slot
from artelier.operations.graph.scope import ArtState
from artelier.operations.kinds.contract import OperationFailed, OperationResult, OperationScope, text_of
from artelier.operations.profile.definition import (
    AFTER,
    BEFORE,
    EFFECTS_MAX,
    ONLY_AFTER,
    ONLY_BEFORE,
    VALUE_BYTES_MAX,
    ArtifactUpsert,
    AssistantBlocks,
    AssistantPatch,
    Effect,
    Hook,
    InsertAfterLastUser,
    InsertAtDepth,
    Operation,
    ReplyBlock,
    Role,
    SystemUpdate,
    UserVariant,
)
from artelier.ports.media import Medium

if TYPE_CHECKING:
    from pydantic import TypeAdapter

TEXT_CHARS_MAX = 262_144
"""Of one text that goes into a prompt or a reply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WishedEffect:
    """One effect with its text or value: what an operation wants to change."""

    effect: Effect
    value: Any
    code: str = ""
    """Why it cannot be applied; then its operation commits nothing."""

    def to_stored(self) -> StoredWish:
        effect = self.effect.model_dump(mode="json", exclude_defaults=True)
        return StoredWish(effect={**effect, "type": self.effect.type}, value=self.value, code=self.code)


class StoredWish(msgspec.Struct, frozen=True, kw_only=True):
    """A wished effect in the result of its operation."""

    effect: dict[str, Any]
    """As a profile declares it."""
    value: Any
    code: str


def wishes_from(stored: object) -> tuple[WishedEffect, ...]:
    """Return what `WishedEffect.to_stored` gave, from its JSON."""
    return tuple(
        WishedEffect(effect=_effect(one.effect), value=one.value, code=one.code)
        for one in msgspec.convert(stored, list[StoredWish])
    )


def wishes_of(slot: Slot, found: OperationResult, scope: OperationScope) -> tuple[WishedEffect, ...]:
    """The effects of an operation that is done, with their texts.

    Errors: `OperationFailed` for what is too large or no effect at all; those of templates.
    """
    if found.effects is not None:
        return tuple(_own(slot.operation, slot.hook, one) for one in _check_count(found.effects))
    names = {"value": found.value}
    return tuple(
        WishedEffect(effect=effect, value=_value_of(effect, found.value, scope, names))
        for effect in slot.operation.effects
        if _fits(effect, slot.hook)
    )


def _fits(effect: Effect, hook: Hook) -> bool:
    """An operation in both hooks has effects of both; at each hook those that belong there."""
    if isinstance(effect, ONLY_BEFORE):
        return hook == BEFORE
    return hook == AFTER if isinstance(effect, ONLY_AFTER) else True


def _check_count(effects: tuple[Mapping[str, Any], ...]) -> tuple[Mapping[str, Any], ...]:
    if len(effects) > EFFECTS_MAX:
        raise OperationFailed(
            "too_many_effects",
            "an operation asks for too many effects",
            expected=f"at most {EFFECTS_MAX}",
            got=len(effects),
        )
    return effects


def _own(operation: Operation, hook: Hook, asked: Mapping[str, Any]) -> WishedEffect:
    """An effect that the operation's code asks for: one that the profile declares, with a text of its own.

    What code gives is data: its text is never a template.
    """
    data = dict(asked)
    value = data.pop("value", None)
    effect = _effect(data)
    declared = next((one for one in operation.effects if _is_same(one, effect)), None)
    if not _fits(effect, hook):
        return WishedEffect(effect=effect, value=value, code="wrong_hook")
    if isinstance(effect, ArtifactUpsert):
        if declared is None:
            return WishedEffect(effect=effect, value=value, code="tag_not_declared")
        return WishedEffect(effect=declared, value=value)
    if declared is None:
        return WishedEffect(effect=effect, value=None, code="effect_not_declared")
    if isinstance(effect, AssistantBlocks):
        return WishedEffect(effect=declared, value=[_literal(block, value) for block in effect.blocks])
    return WishedEffect(
        effect=declared, value=_checked_text(text_of(value if effect.text is None else effect.text))
    )


def _is_same(declared: Effect, asked: Effect) -> bool:
    """Return True if code asks for what the profile declares, texts apart; of an artifact the tag says
    which.
    """
    if isinstance(declared, ArtifactUpsert) and isinstance(asked, ArtifactUpsert):
        return declared.tag == asked.tag
    return _without_texts(declared) == _without_texts(asked)


def _without_texts(effect: Effect) -> Effect:
    if isinstance(effect, AssistantBlocks):
        blocks = tuple(block.model_copy(update={"text": None}) for block in effect.blocks)
        return effect.model_copy(update={"blocks": blocks})
    return effect if isinstance(effect, ArtifactUpsert) else effect.model_copy(update={"text": None})


def _literal(block: ReplyBlock, value: object) -> dict[str, Any]:
    text = _checked_text(text_of(value if block.text is None else block.text))
    return {"channel": block.channel, "prompt": block.prompt, "ui": block.ui, "text": text}


_REFUSALS = {
    "wrong_hook": "an effect that code asks for has no place at {hook}",
    "tag_not_declared": "code writes an artifact that its operation does not declare",
    "effect_not_declared": "code asks for an effect that its operation does not declare",
}


def refusal_of(wishes: Iterable[WishedEffect], hook: Hook) -> OperationFailed | None:
    """Return why an operation's effects are not applied; None if they are."""
    broken = next((one for one in wishes if one.code), None)
    if broken is None:
        return None
    effect = broken.effect
    tag = f" of the tag {effect.tag}" if isinstance(effect, ArtifactUpsert) else ""
    return OperationFailed(
        broken.code,
        _REFUSALS[broken.code].format(hook=hook),
        got=f"{effect.type}{tag}",
        hint="List it under `effects` of the operation, or leave it out of what the code returns.",
    )


def _effect(data: Mapping[str, Any]) -> Effect:
    from pydantic import ValidationError

    try:
        return _adapter().validate_python(dict(data))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise OperationFailed(
            "invalid_effect", f"this is no effect: {'.'.join(map(str, first['loc']))}: {first['msg']}"
        ) from None


@cache
def _adapter() -> TypeAdapter[Effect]:
    from pydantic import TypeAdapter

    return TypeAdapter(Effect)


def _value_of(effect: Effect, value: object, scope: OperationScope, more: Mapping[str, Any]) -> object:
    match effect:
        case SystemUpdate() | InsertAfterLastUser() | InsertAtDepth():
            return _text(effect.text, value, scope.names_for(prompt=True), more)
        case UserVariant() | AssistantPatch():
            return _text(effect.text, value, scope.names_for(prompt=True, ui=True), more)
        case AssistantBlocks():
            return [
                {
                    "channel": block.channel,
                    "prompt": block.prompt,
                    "ui": block.ui,
                    "text": _text(block.text, value, _for_block(block, scope), more),
                }
                for block in effect.blocks
            ]
        case ArtifactUpsert():
            if effect.value is None:
                return value
            names = scope.names_for(prompt=effect.in_prompt, ui=effect.in_ui)
            return _text(effect.value, value, names, more)
        case _:
            assert_never(effect)


def _for_block(block: ReplyBlock, scope: OperationScope) -> Mapping[str, Any]:
    """Return what a later prompt shows, people may see again: operations read the conversation."""
    return scope.names_for(prompt=block.prompt, ui=block.ui or block.prompt)


def _text(template: str | None, value: object, names: Mapping[str, Any], more: Mapping[str, Any]) -> str:
    if template is None:
        text = text_of(value)
    else:
        from artelier.operations.template_engine.template import Template

        text = Template.parse(template).render({**names, **more})
    return _checked_text(text)


def _checked_text(text: str) -> str:
    if len(text) > TEXT_CHARS_MAX:
        raise OperationFailed(
            "too_large",
            "an effect's text is too long",
            expected=f"at most {TEXT_CHARS_MAX} characters",
            got=len(text),
        )
    return text


def check_size(value: object) -> None:
    """Errors: `OperationFailed` for a value that is no JSON, or too large to be kept."""
    from artelier.kernel.prompt.manifest import encode_json

    try:
        size = len(encode_json(value))
    except InvalidRequest as error:
        raise OperationFailed("not_json", f"the value has no form as JSON: {error}") from None
    if size > VALUE_BYTES_MAX:
        raise OperationFailed(
            "too_large",
            "the value of an operation is too large",
            expected=f"at most {VALUE_BYTES_MAX:,} bytes",
            got=f"{size:,}",
        )


# Applying


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthoredText:
    """A text with who put it there."""

    text: str
    operation: str
    role: Role = "system"
    depth: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """A part beside the reply's text."""

    channel: str
    text: str
    prompt: bool
    ui: bool
    operation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationOutcome:
    """The outcome of an operation, for its commit."""

    slot: Slot
    status: str
    reason: str = ""
    code: str = ""
    value: Any = None
    wishes: tuple[WishedEffect, ...] = ()
    media: tuple[Medium, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedEffect:
    """The result of one effect."""

    operation: str
    index: int
    type: str
    status: str
    tag: str = ""
    code: str = ""
    value: Any = None
    version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Turned:
    """A turn while effects are applied to it: its artifacts, its prompt's additions, its words."""

    state: ArtState
    written: tuple[tuple[str, ArtifactUpsert, Any], ...] = ()
    """Persisted artifacts in order of commit: `(operation, effect, value)`."""
    system: tuple[AuthoredText, ...] = ()
    replaced: bool = False
    """Whether `system` stands for the whole system prompt, not around it."""
    appended: int = 0
    """How many of `system`, from its end, stand behind the base."""
    after_user: tuple[AuthoredText, ...] = ()
    at_depth: tuple[AuthoredText, ...] = ()
    user: AuthoredText | None = None
    reply: AuthoredText | None = None
    """The reply, if an operation changed it."""
    blocks: tuple[Blocked, ...] = ()
    applied: tuple[AppliedEffect, ...] = field(default=())


def apply(
    turned: Turned,
    outcomes: Iterable[OperationOutcome],
    *,
    at_us: int,
    reply: str | None = None,
    keeps_unchanged: bool = False,
) -> Turned:
    """The turn after the effects of these operations, which stand in the order of commit.

    Only operations that are done change anything. `reply` is the main call's text, after it.
    `keeps_unchanged`: an artifact that would get the value that it has keeps its version.
    Cost: O(effects).
    """
    for outcome in outcomes:
        broken = next((wish.code for wish in outcome.wishes if wish.code), "")
        for index, wish in enumerate(outcome.wishes):
            if outcome.status != "done" or broken:
                status, code = ("error", wish.code) if wish.code else ("skipped", "not_committed")
                turned = _report_effect(turned, outcome, index, wish, status=status, code=code)
                continue
            changed: Turned | str = "unchanged"
            if not (keeps_unchanged and _is_unchanged(turned, wish)):
                changed = _apply_effect(turned, outcome.slot.id, wish, at_us=at_us, reply=reply)
            if isinstance(changed, str):
                turned = _report_effect(turned, outcome, index, wish, status="skipped", code=changed)
            else:
                turned = _report_effect(changed, outcome, index, wish, status="applied")
    return turned


def _is_unchanged(turned: Turned, wish: WishedEffect) -> bool:
    """Return True if an artifact has this value already, for the same readers, and its age does not count."""
    effect = wish.effect
    if not isinstance(effect, ArtifactUpsert) or effect.persistence != "persisted" or effect.retention.ttl_s:
        return False
    art = turned.state.arts.get(effect.tag)
    if art is None or art.append or effect.write_mode == "append" or not art.persisted:
        return False
    if (art.usage, art.semantics) != (effect.usage, effect.semantics):
        return False
    from artelier.kernel.prompt.manifest import encode_json

    return encode_json(art.value) == encode_json(wish.value)  # to Python 1 and true are the same


def _report_effect(
    turned: Turned, outcome: OperationOutcome, index: int, wish: WishedEffect, *, status: str, code: str = ""
) -> Turned:
    effect = wish.effect
    tag = effect.tag if isinstance(effect, ArtifactUpsert) else ""
    is_there = status == "applied" and tag in turned.state.arts
    one = AppliedEffect(
        operation=outcome.slot.id,
        index=index,
        type=effect.type,
        status=status,
        tag=tag,
        code=code,
        value=wish.value if status == "applied" else None,
        version=turned.state.arts[tag].version if is_there else 0,
    )
    return replace(turned, applied=(*turned.applied, one))


def _apply_effect(
    turned: Turned, operation: str, wish: WishedEffect, *, at_us: int, reply: str | None
) -> Turned | str:
    """The turn after one effect, or why it is skipped."""
    effect, value = wish.effect, wish.value
    match effect:
        case ArtifactUpsert():
            state = turned.state.upsert(effect, value, operation=operation, at_us=at_us)
            turned = replace(turned, state=state)
            if effect.persistence == "persisted":
                turned = replace(turned, written=(*turned.written, (operation, effect, value)))
            return turned
        case AssistantBlocks():
            blocks = tuple(
                Blocked(**block, operation=operation)
                for block in cast("list[dict[str, Any]]", value)
                if block["text"].strip()
            )
            return replace(turned, blocks=(*turned.blocks, *blocks)) if blocks else "empty"
        case AssistantPatch():
            if reply is None:
                return "no_reply"
            before = turned.reply.text if turned.reply is not None else reply
            return replace(
                turned, reply=AuthoredText(text=_patch_text(effect, before, value), operation=operation)
            )
        case _:
            pass
    if not value.strip():
        return "empty"
    said = AuthoredText(text=value, operation=operation)
    match effect:
        case UserVariant():
            return replace(turned, user=said)
        case SystemUpdate():
            return _system(turned, effect.mode, said)
        case InsertAfterLastUser():
            return replace(turned, after_user=(*turned.after_user, replace(said, role=effect.role)))
        case InsertAtDepth():
            said = replace(said, role=effect.role, depth=effect.depth_from_end)
            return replace(turned, at_depth=(*turned.at_depth, said))
        case _:
            assert_never(effect)


def _patch_text(effect: AssistantPatch, before: str, text: str) -> str:
    if effect.mode == "replace":
        return text
    first, second = (text, before) if effect.mode == "prepend" else (before, text)
    return f"{first}\n\n{second}" if first and second else first or second


def _system(turned: Turned, mode: str, said: AuthoredText) -> Turned:
    if mode == "replace":
        return replace(turned, system=(said,), replaced=True, appended=0)
    if mode == "prepend":
        return replace(turned, system=(said, *turned.system))
    return replace(turned, system=(*turned.system, said), appended=turned.appended + 1)
