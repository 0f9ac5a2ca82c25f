"""The sections that artifacts and effects add to a prompt: which, where, and why. Rules are policy, no magic.

Every artifact that prompts may show is in the prompt of the main call: by the rules that name it, or by the
default rule. What was left out is in the manifest with its reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from artelier.context import Section
from artelier.context.assembly import Source
from artelier.context.builder import shipped_text
from artelier.errors import ArtelierError, Conflict, CorruptStore, InvalidRequest, StoreUnavailable
from artelier.kernel import Run
from artelier.kernel.prompt.manifest import balance_fences
from artelier.operations.graph.effects import AuthoredText, Turned
from artelier.operations.graph.scope import Art, ArtState, Situation
from artelier.operations.kinds import kind_named
from artelier.operations.kinds.contract import OperationScope, text_of
from artelier.operations.profile.definition import PromptInclusion
from artelier.operations.profile.operation_profile import OperationProfile
from artelier.operations.profile.rules import Reader, hidden_values
from artelier.tokens import estimate_tokens
from artelier.tokens.estimate import cut

wording = partial(shipped_text, "artelier.operations", folder="prompts")
"""The text of a prompt of this package, by its name."""


_DEPTH = re.compile(r"depth\((\d+)\)")
_FALSE = ("", "false", "0", "no", "null", "none")
PRIORITY = 50


class InclusionFailed(InvalidRequest):
    """A rule wants an artifact that is not there, or its template fails: the main call does not start."""

    code = "inclusion_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Included:
    """One artifact in the prompt by one rule, or why it is not."""

    rule: PromptInclusion
    art: Art | None
    text: str = ""
    dropped: str = ""
    cut: str = ""
    """`end`, if its text was cut already."""
    shortened: str = ""
    """What was done to bring it within its limit: by which model, or why by none."""

    @property
    def is_long(self) -> bool:
        """True if it has to be shortened by a model before it stands in the prompt."""
        limit = self.rule.max_tokens
        is_over = limit is not None and estimate_tokens(self.text) > limit
        return is_over and self.rule.on_trim == "summarise" and not self.dropped


def include_artifacts(
    rules: Sequence[PromptInclusion], state: ArtState, names: Mapping[str, Any], *, trigger: str
) -> list[Included]:
    """Return what the rules put into the prompt, in their order, then what the default rule adds, by tag.

    `names` are those that a prompt may show. Errors: `InclusionFailed`.
    """
    ruled = {rule.tag for rule in rules}
    defaults = [
        PromptInclusion(source=f"art.{tag}")
        for tag in sorted(state.arts)
        if tag not in ruled and state.arts[tag].in_prompt
    ]
    return [_include(rule, state, names, trigger) for rule in (*rules, *defaults)]


def _include(rule: PromptInclusion, state: ArtState, names: Mapping[str, Any], trigger: str) -> Included:
    art = state.arts.get(rule.tag)
    if art is not None and not art.in_prompt:
        return Included(rule=rule, art=art, dropped="not_for_prompts")
    if rule.when.trigger is not None and rule.when.trigger != trigger:
        return Included(rule=rule, art=art, dropped="trigger_mismatch")
    if art is None:
        if rule.on_missing == "error":
            raise InclusionFailed(
                f"the prompt needs {rule.source}, which has no value",
                hint="Have a required operation write it, or say on_missing: skip.",
            )
        return Included(rule=rule, art=None, dropped="missing")
    names = {**names, "value": art.value}
    if rule.when.condition is not None and not holds(_render(rule, rule.when.condition, names)):
        return Included(rule=rule, art=art, dropped="condition_false")
    if rule.template is None:
        shown = _value_text(art)
        text = f"## {rule.tag}\n{shown}" if shown.strip() else ""
    else:
        text = _render(rule, rule.template, names)
    return Included(rule=rule, art=art, text=text, dropped="" if text.strip() else "empty")


def _value_text(art: Art) -> str:
    """A value without a template: a text as it is, a feed as a list, anything else as JSON."""
    if art.append:
        entries: list[Any] = art.value
        return "\n".join(f"- {text_of(entry)}" for entry in entries)
    return text_of(art.value)


def _render(rule: PromptInclusion, template: str, names: Mapping[str, Any]) -> str:
    from artelier.operations.template_engine.template import Template

    try:
        return Template.parse(template).render(names)
    except ArtelierError as error:
        raise InclusionFailed(f"the rule for {rule.source} cannot be rendered: {error}") from None


def holds(text: str) -> bool:
    """Return True if a rendered condition says yes."""
    return text.strip().lower() not in _FALSE


# Sections


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Sections by where they stand around a conversation."""

    system: tuple[Section, ...] = ()
    """One message, of which each is a part; several if a preset has others among them."""
    before_system: tuple[Section, ...] = ()
    """Messages of the person or the model before that one, and behind it."""
    after_system: tuple[Section, ...] = ()
    before_user: tuple[Section, ...] = ()
    after_user: tuple[Section, ...] = ()
    at_depth: tuple[tuple[int, Section], ...] = ()
    tail: tuple[Section, ...] = ()
    left_out: tuple[Section, ...] = field(default=())


def place_sections(
    base: Sequence[Section], turned: Turned, items: Iterable[Included], *, profile: str
) -> Places:
    """Return where everything stands. `base` is the system prompt without additions; `profile` is
    `id@version`.
    """
    front: list[Section] = []
    back: list[Section] = []
    places = Places(system=tuple(_system(base, turned, profile)))
    places = replace(
        places,
        after_user=tuple(_effect_section(said, profile, "after_last_user") for said in turned.after_user),
        at_depth=tuple(
            (said.depth, _effect_section(said, profile, f"depth({said.depth})")) for said in turned.at_depth
        ),
    )
    for item in items:
        section = _section(item, profile)
        place = item.rule.place
        if item.dropped:
            places = replace(places, left_out=(*places.left_out, section))
        elif place == "system_prepend" and section.role == "system":
            front.append(section)
        elif place == "system_append" and section.role == "system":
            back.append(section)
        elif place == "system_prepend":
            places = replace(places, before_system=(*places.before_system, section))
        elif place == "system_append":
            places = replace(places, after_system=(*places.after_system, section))
        elif place == "after_last_user":
            places = replace(places, after_user=(*places.after_user, section))
        elif place == "before_last_user":
            places = replace(places, before_user=(*places.before_user, section))
        elif (found := _DEPTH.fullmatch(place)) is not None:
            depth = int(found.group(1))
            places = replace(places, at_depth=(*places.at_depth, (depth, section)))
        else:
            places = replace(places, tail=(*places.tail, section))
    return replace(places, system=_as_one((*front, *places.system, *back)))


def _as_one(sections: tuple[Section, ...]) -> tuple[Section, ...]:
    """Parts of one role that follow each other are one message, with a blank line between them."""
    return tuple(replace(section, joined=index > 0) for index, section in enumerate(sections))


def _system(base: Sequence[Section], turned: Turned, profile: str) -> list[Section]:
    parts = [_effect_section(said, profile, "system") for said in turned.system]
    if turned.replaced:
        return parts
    split = len(parts) - turned.appended
    return [*parts[:split], *base, *parts[split:]]


def _effect_section(said: AuthoredText, profile: str, place: str) -> Section:
    return Section(
        tag=f"effect:{said.operation}",
        text=said.text,
        role=said.role,
        priority=PRIORITY,
        stability="append_only",
        sources=(Source(ref=f"operation:{said.operation}", why=f"{place}, profile {profile}"),),
        trust="operations",
        is_fenced=True,
    )


def _section(item: Included, profile: str) -> Section:
    rule, art = item.rule, item.art
    why = ", ".join(
        note
        for note in (
            f"version {art.version}" if art is not None and art.version else "",
            f"operation {art.operation}" if art is not None and art.operation else "",
            f"run {art.run}" if art is not None and art.run else "this run",
            f"profile {profile}" if profile else "",
            rule.place,
            item.shortened,
        )
        if note
    )
    is_kept = rule.on_trim == "keep"
    return Section(
        tag=rule.source,
        text="" if item.dropped else item.text,
        role=rule.role,
        priority=rule.priority,
        max_tokens=None if is_kept else rule.max_tokens,
        pinned=is_kept,
        truncation="drop" if rule.on_trim == "drop" else "end",
        stability="append_only",
        sources=(Source(ref=rule.source, why=why),),
        trust="operations",
        is_fenced=True,
        cut=item.cut,
        dropped=item.dropped,
    )


def around(
    places: Places, *, first: int, last: int, user: int, span: Callable[[int, int, int], Section]
) -> list[Section]:
    """The sections of a prompt: the system prompt, the conversation with what stands in it, the tail.

    Shapes: the conversation's messages have numbers `first..last`, `user` is that of the message that
    started the run (0 for none). `span(start, end, later)` gives the section of some of them, before which
    `later` others stand in the prompt: the newest message is always one of its own, since it is never cut.
    """
    inserts: dict[int, list[Section]] = {last: []}
    """By the number of the message that they stand before."""
    for depth, section in places.at_depth:
        inserts.setdefault(max(first, last + 1 - depth), []).append(section)
    here = user or last + 1
    inserts[here] = [*inserts.get(here, []), *places.before_user]
    behind = user + 1 if user else last + 1
    inserts[behind] = [*places.after_user, *inserts.get(behind, [])]
    cuts = sorted(inserts)
    sections = [*places.before_system, *places.system, *places.after_system]
    start = first
    for index, at in enumerate(cuts):
        if at > start:
            sections.append(span(start, at - 1, len(cuts) - index - (at > last)))
        sections.extend(inserts[at])
        start = max(start, at)
    if start <= last:
        sections.append(span(start, last, 0))
    return [*sections, *places.tail, *places.left_out]


async def shorten_inclusion(run: Run, item: Included, *, model: str, prefix: str = "") -> Included:
    """The inclusion within its limit, and what was done to it, which the manifest says.

    If the model fails or gives nothing, the text is cut at its end; the run goes on.
    """
    if not item.is_long:
        return item
    limit = item.rule.max_tokens
    assert limit is not None
    messages = [
        {"role": "system", "content": f"{wording('shorten-1')} Use at most {limit} tokens."},
        {"role": "user", "content": item.text},
    ]
    try:
        result = await run.step_model(
            model=model,
            messages=messages,
            key=f"{prefix}include/{item.rule.tag}",
            max_output_tokens=max(16, limit),
        )
    except (Conflict, CorruptStore, StoreUnavailable):
        raise
    except ArtelierError as error:
        return _cut(item, item.text, limit, note=f"cut, the model failed: {error.code}")
    if not result.text.strip():
        return _cut(item, item.text, limit, note="cut, the model gave nothing")
    return _cut(item, result.text, limit, note=f"shortened by model {model}")


def _cut(item: Included, text: str, limit: int, *, note: str) -> Included:
    kept = cut(text, tokens=limit, where="end")
    if kept == text:
        return replace(item, text=text, shortened=note)
    kept = balance_fences(kept)
    if not kept:  # not even the mark of what is gone has room
        return replace(item, text="", dropped="over_limit", shortened=note)
    return replace(item, text=kept, cut="end", shortened=note)


def names_shown(
    profile: OperationProfile | None,
    state: ArtState,
    situation: Situation,
    rag: Mapping[str, Any] | None = None,
) -> Mapping[str, Any]:
    """The names for a text that goes into the prompt. `rag`: passages that operations have found."""
    names = situation.names()
    names["art"] = state.names()
    if rag is not None:
        names["rag"] = rag
    scope = OperationScope(
        names=names, in_prompt=state.in_prompt, in_ui=state.in_ui, unseen=unseen(profile, state)
    )
    return scope.for_prompt()


async def inclusions(
    run: Run,
    rules: Sequence[PromptInclusion],
    state: ArtState,
    shown: Mapping[str, Any],
    *,
    trigger: str,
    model: str,
    prefix: str = "",
) -> list[Included]:
    """Return what the rules include, each within its limit. Errors: `InclusionFailed`; Flow."""
    items = include_artifacts(rules, state, shown, trigger=trigger)
    return [await shorten_inclusion(run, item, model=model, prefix=prefix) for item in items]


def unseen(profile: OperationProfile | None, state: ArtState) -> Mapping[str, frozenset[str]]:
    """Return the operations of a profile whose values no prompt, and no person, may be shown in a run."""
    written = profile.artifacts() if profile is not None else {}
    arts = [*state.arts.values(), *written.values()]
    tags: dict[Reader, set[str]] = {
        "prompt": {one.tag for one in arts if not one.in_prompt},
        "ui": {one.tag for one in arts if not one.in_ui},
    }
    if profile is None:
        return {"prompt": frozenset(), "ui": frozenset()}
    sources = [
        (one.operation_id, kind_named(one.kind), one.params) for one in profile.operations if one.enabled
    ]
    return {reader: hidden_values(sources, of, reader) if of else frozenset() for reader, of in tags.items()}
