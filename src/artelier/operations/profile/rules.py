"""The rules of a profile that are about operations and their relations. Pure; each notes all it finds."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any, Literal

from artelier.errors import ArtelierError
from artelier.operations.kinds.contract import OperationKind, destination, paths_in
from artelier.operations.profile.definition import (
    AFTER,
    BEFORE,
    ONLY_AFTER,
    ONLY_BEFORE,
    TAG,
    ArtifactUpsert,
    AssistantBlocks,
    AssistantPatch,
    Effect,
    Params,
    PromptInclusion,
    UserVariant,
)
from artelier.operations.profile.draft_parser import (
    Mistakes,
    OperationDraft,
    Step,
    order_mistake,
    quote_text,
    steps_of,
    texts_in,
)

if TYPE_CHECKING:
    from artelier.operations.template_engine.template import Template

RINGS_MAX = 20
"""Named in one answer."""

Drafts = Sequence[OperationDraft]

_TAG = re.compile(TAG)


def check_operations(drafts: Drafts, mistakes: Mistakes) -> None:
    """Every rule over all operations of a profile."""
    _ids(drafts, mistakes)
    _orders(drafts, mistakes)
    _sets(drafts, mistakes)
    _dependencies(drafts, mistakes)
    _rings(drafts, mistakes)
    _conditions(drafts, mistakes)
    _hooks_of_effects(drafts, mistakes)
    _tags(drafts, mistakes)
    _writers(drafts, mistakes)
    _params(drafts, mistakes)


def by_id(drafts: Drafts) -> Mapping[str, OperationDraft]:
    """The first operation of each id."""
    return {draft.id: draft for draft in reversed(drafts) if draft.id}


def upserts(draft: OperationDraft) -> list[tuple[int, ArtifactUpsert]]:
    """Return what an operation may write, each with its place among the effects."""
    return [(index, one) for index, one in draft.effects if isinstance(one, ArtifactUpsert)]


def _ids(drafts: Drafts, mistakes: Mistakes) -> None:
    first = by_id(drafts)
    for draft in drafts:
        given: object = draft.data.get("operation_id")
        path = draft.path("operation_id")
        if given is None or (isinstance(given, str) and not draft.id):
            mistakes.add(path, "empty_id", "every operation needs an id")
        elif draft.id and first[draft.id] is not draft:
            mistakes.add(path, "duplicate_id", f"another operation is called {quote_text(draft.id)}")


def _orders(drafts: Drafts, mistakes: Mistakes) -> None:
    for draft in drafts:
        wrong = order_mistake(draft.data)
        if wrong is not None:
            mistakes.add(draft.path("order"), *wrong)


def _sets(drafts: Drafts, mistakes: Mistakes) -> None:
    """Hooks, triggers and dependencies hold each value once."""
    for draft in drafts:
        for name in ("hooks", "triggers", "depends_on"):
            seen: set[str] = set()
            for index, one in texts_in(draft.data.get(name)):
                if one in seen:
                    said = f"{quote_text(one)} stands here twice"
                    mistakes.add(draft.path(name, index), "duplicate_value", said)
                seen.add(one)


def _dependencies(drafts: Drafts, mistakes: Mistakes) -> None:
    known = by_id(drafts)
    for draft in drafts:
        for index, name in draft.depends_on:
            path = draft.path("depends_on", index)
            if name == draft.id:
                mistakes.add(path, "self_dependency", "an operation cannot wait for itself")
            elif name not in known:
                mistakes.add(path, "unknown_dependency", f"no operation is called {quote_text(name)}")
            else:
                apart = [hook for hook in draft.hooks if hook not in known[name].hooks]
                if apart:
                    said = f"{quote_text(name)} does not run at {', '.join(apart)}"
                    mistakes.add(path, "cross_hook_dependency", said)


def _rings(drafts: Drafts, mistakes: Mistakes) -> None:
    """Each ring of dependencies is named once; then it is opened, to find the next."""
    known = by_id(drafts)
    waits = {id_: {*one.dependencies()} & set(known) - {id_} for id_, one in known.items()}
    for _ in range(RINGS_MAX):
        try:
            TopologicalSorter(waits).prepare()
            return
        except CycleError as error:
            ring: list[str] = list(reversed(error.args[1]))  # each waits for the next
        start = min(range(len(ring) - 1), key=lambda at: ring[at])
        turned = [*ring[start:-1], *ring[: start + 1]]
        draft = known[turned[0]]
        index = next(at for at, name in draft.depends_on if name == turned[1])
        said = f"a ring: {' waits for '.join(turned)}"
        mistakes.add(draft.path("depends_on", index), "cycle", said)
        waits[turned[0]] = waits[turned[0]] - {turned[1]}


def _conditions(drafts: Drafts, mistakes: Mistakes) -> None:
    known = by_id(drafts)
    for draft in drafts:
        for index, condition in draft.conditions:
            path = draft.path("run_conditions", index)
            source = known.get(condition.source)
            if condition.source not in set(draft.dependencies()):
                said = f"{quote_text(condition.source)} must be in depends_on"
                mistakes.add((*path, "source"), "condition_source_not_dependency", said)
            if source is None or source.kind is None:
                continue
            if source.kind.name != "guard":
                said = f"{quote_text(condition.source)} is no guard but {source.kind.name}"
                mistakes.add((*path, "source"), "condition_source_not_guard", said)
            elif source.params is not None:
                declared = source.kind.keys(source.params)
                if condition.key not in declared:
                    names = ", ".join(sorted(declared)[:20]) or "none"
                    said = f"the guard does not declare {quote_text(condition.key)}; it has {names}"
                    mistakes.add((*path, "key"), "undeclared_guard_key", said)


def _hooks_of_effects(drafts: Drafts, mistakes: Mistakes) -> None:
    for draft in drafts:
        for index, effect in draft.effects:
            path = draft.path("params", "effects", index, "type")
            if isinstance(effect, ONLY_BEFORE) and AFTER in draft.hooks:
                said = "the prompt is sent by then: this effect is for before_main_llm alone"
                mistakes.add(path, "prompt_effect_after_main_llm", said)
            if isinstance(effect, ONLY_AFTER) and BEFORE in draft.hooks:
                said = "there is no reply yet: this effect is for after_main_llm alone"
                mistakes.add(path, "assistant_effect_before_main_llm", said)


def _tags(drafts: Drafts, mistakes: Mistakes) -> None:
    """Each tag is known in advance, and each operation writes one, once."""
    for draft in drafts:
        first = ""
        for index, effect in upserts(draft):
            tag, path = effect.tag, draft.path("params", "effects", index, "tag")
            if "{{" in tag or "{%" in tag:
                mistakes.add(path, "dynamic_tag", "a tag is a fixed name, no template")
            elif not _TAG.fullmatch(tag):
                said = "a tag has a-z, 0-9 and _, begins with a letter, and has at most 64 characters"
                mistakes.add(path, "invalid_tag", said)
            if first and tag != first:
                said = f"the operation writes {quote_text(first)} already, and may write one tag"
                mistakes.add(path, "multiple_tags", said)
            elif first:
                mistakes.add(path, "duplicate_effect", "an operation writes its tag once")
            first = first or tag
            _check_write(draft, index, effect, mistakes)


def _check_write(draft: OperationDraft, index: int, effect: ArtifactUpsert, mistakes: Mistakes) -> None:
    path = draft.path("params", "effects", index)
    appends, kept = effect.write_mode == "append", effect.retention
    if effect.persistence == "run_only":
        if appends:
            said = "a value of one run has no entries to append to: persist it, or replace"
            mistakes.add((*path, "write_mode"), "write_conflict", said)
        if kept.max_versions is not None or kept.ttl_s is not None:
            said = "a value of one run has no past to retain"
            mistakes.add((*path, "retention"), "write_conflict", said)
    elif appends and kept.max_versions == 0:
        said = "a feed that retains no entry is always empty"
        mistakes.add((*path, "retention", "max_versions"), "write_conflict", said)


def _writers(drafts: Drafts, mistakes: Mistakes) -> None:
    writers: dict[str, OperationDraft] = {}
    for draft in drafts:
        for index, effect in upserts(draft):
            writer = writers.setdefault(effect.tag, draft)
            if writer is not draft:
                said = f"{quote_text(effect.tag)} is written by {quote_text(writer.id)} too"
                path = draft.path("params", "effects", index, "tag")
                mistakes.add(path, "duplicate_writer", said)


def _params(drafts: Drafts, mistakes: Mistakes) -> None:
    """Add the mistakes in params that only the kind can find."""
    for draft in drafts:
        if draft.kind is not None and draft.params is not None:
            for one in draft.kind.problems(draft.params):
                # The place is inside params, in the kind's own words: `prompt`, `schema.properties`.
                path = draft.path("params", *steps_of(one.path))
                mistakes.add(path, one.code or "invalid_params", one.message)


Reader = Literal["prompt", "ui"]
Source = tuple[str, "OperationKind[Any]", Params]
"""An operation: its id, its kind and its params."""


def hidden_values(sources: Iterable[Source], tags: Collection[str], reader: Reader) -> frozenset[str]:
    """Ids of the operations whose values a reader may not be shown. `tags` are hidden from that reader.

    Cost: O(operations and their texts).
    """
    readers: dict[str, list[str]] = {}
    """The operations that show the value of an operation; under `*`, of any."""
    hidden, left = set[str](), list[str]()
    for id_, kind, params in sources:
        paths = _shown_paths(kind, params, reader)
        if _writes(params, tags) or any(reads(path, "art", tags) for path in paths):
            left.append(id_)
        for path in paths:
            if path[0] in ("deps", "rag"):
                readers.setdefault(path[1] if len(path) > 1 else "*", []).append(id_)
    while left:
        one = left.pop()
        if one not in hidden:
            hidden.add(one)
            left += [*readers.pop(one, ()), *readers.pop("*", ())]
    return frozenset(hidden)


def _writes(params: Params, tags: Collection[str]) -> bool:
    """Return True if the value of an operation becomes an artifact of these tags as it is."""
    return any(
        isinstance(effect, ArtifactUpsert) and effect.value is None and effect.tag in tags
        for effect in params.effects
    )


def _shown_paths(kind: OperationKind[Any], params: Params, reader: Reader) -> Collection[tuple[str, ...]]:
    """Return what the value of an operation may be made from, unless it is made without what is hidden."""
    text = kind.shows(params)
    if text is None or destination(params)[reader == "ui"]:
        return ()
    try:
        return paths_in(text)
    except ArtelierError:  # it will fail, and show nothing
        return ()


def reads(path: tuple[str, ...], root: str, names: Collection[str]) -> bool:
    """Return True if a path of a template may read one of the names below a root."""
    return bool(names) and path[0] == root and (len(path) == 1 or path[1] == "*" or path[1] in names)


READERS: tuple[Reader, ...] = ("prompt", "ui")
ANY = ("*", "size", "first", "last")
"""Behind a name in a template: no key that is known in advance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Text:
    """A template of a profile, and who sees what becomes of it."""

    at: tuple[Step, ...]
    text: str
    prompt: bool = False
    ui: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Hidden:
    """The tags and values that one reader may not be shown."""

    tags: Mapping[str, str]
    """With their usage."""
    values: frozenset[str]
    """Of these operations."""


def check_texts(
    drafts: Sequence[OperationDraft],
    inclusions: Sequence[tuple[int, PromptInclusion]],
    system: object,
    mistakes: Mistakes,
) -> None:
    """Every template of a profile; that those of params parse, the kinds tell themselves."""
    written = {effect.tag: effect for draft in drafts for _, effect in upserts(draft)}
    hidden = {reader: _find_hidden(reader, drafts, written) for reader in READERS}
    for one in _texts(drafts, inclusions, system):
        template = _parse(one, mistakes)
        if template is not None:
            _check_shown(one, template, hidden, mistakes)
    for draft in drafts:
        for one in _of_params(draft):
            template = _parse(one, Mistakes())
            if template is not None:
                _check_shown(one, template, hidden, mistakes)
    _check_dependencies(drafts, mistakes)


def _check_dependencies(drafts: Sequence[OperationDraft], mistakes: Mistakes) -> None:
    """A text of an operation reads values only of what the operation waits for, however far."""
    passages = {draft.id for draft in drafts if draft.kind is None or draft.kind.name == "rag"}
    above = _above(drafts)
    for draft in drafts:
        for one in _of_operation(draft):
            template = _parse(one, Mistakes())
            for path in sorted(template.paths()) if template is not None else ():
                if len(path) < 2 or path[0] not in ("deps", "rag") or path[1] in ANY:
                    continue
                if path[1] in above[draft.id] or (path[0] == "rag" and path[1] in passages):
                    continue
                name = quote_text(".".join(path[:2]))
                said = f"{name} is read here, and {quote_text(path[1])} is not among its dependencies"
                mistakes.add(one.at, "unknown_dependency", said)


def _of_operation(draft: OperationDraft) -> Iterator[_Text]:
    """All templates of an operation, whoever sees them."""
    for index, effect in draft.effects:
        yield from _of_effect(effect, draft.path("params", "effects", index))
    if draft.kind is None or draft.params is None:
        return
    texts = dict(draft.kind.templates(draft.params))
    value = draft.kind.shows(draft.params)
    if value is not None and not texts:
        texts = {"template" if draft.kind.name == "template" else "input": value}
    for name, text in texts.items():
        yield _Text(at=draft.path("params", *steps_of(name)), text=text)


def _above(drafts: Sequence[OperationDraft]) -> Mapping[str, set[str]]:
    """Return what each operation waits for, directly or through others.

    Cost: O(operations ** 2), however much they wait for; a ring is no matter.
    """
    needs = {draft.id: set(draft.dependencies()) for draft in drafts}
    bits = {id_: 1 << number for number, id_ in enumerate(needs)}
    found = {id_: sum(bits[one] for one in of if one in bits) for id_, of in needs.items()}
    for through, bit in bits.items():  # Warshall's transitive closure, a row at a time
        for id_, above in found.items():
            if above & bit:
                found[id_] = above | found[through]
    return {id_: needs[id_] | {one for one in bits if found[id_] & bits[one]} for id_ in needs}


def _find_hidden(
    reader: Reader, drafts: Sequence[OperationDraft], written: Mapping[str, ArtifactUpsert]
) -> _Hidden:
    tags = {
        tag: effect.usage
        for tag, effect in written.items()
        if not (effect.in_prompt if reader == "prompt" else effect.in_ui)
    }
    sources = [
        (draft.id, draft.kind, draft.params)
        for draft in drafts
        if draft.kind is not None and draft.params is not None
    ]
    return _Hidden(tags=tags, values=hidden_values(sources, tags, reader))


def _texts(
    drafts: Sequence[OperationDraft], inclusions: Sequence[tuple[int, PromptInclusion]], system: object
) -> Iterator[_Text]:
    if isinstance(system, str):
        yield _Text(at=("system",), text=system, prompt=True)
    for draft in drafts:
        for index, effect in draft.effects:
            yield from _of_effect(effect, draft.path("params", "effects", index))
    for index, rule in inclusions:
        at = ("inclusions", index)
        if rule.template is not None:
            yield _Text(at=(*at, "template"), text=rule.template, prompt=True)
        if rule.when.condition is not None:
            yield _Text(at=(*at, "when", "condition"), text=rule.when.condition)


def _of_effect(effect: Effect, at: tuple[Step, ...]) -> Iterator[_Text]:
    if isinstance(effect, ArtifactUpsert):
        if effect.value is not None:
            yield _Text(at=(*at, "value"), text=effect.value)
    elif isinstance(effect, AssistantBlocks):
        for index, block in enumerate(effect.blocks):
            if block.text is not None:
                where = (*at, "blocks", index, "text")
                yield _Text(at=where, text=block.text, prompt=block.prompt, ui=block.ui)
    elif effect.text is not None:
        is_said = isinstance(effect, UserVariant | AssistantPatch)
        yield _Text(at=(*at, "text"), text=effect.text, prompt=True, ui=is_said)


def _of_params(draft: OperationDraft) -> Iterator[_Text]:
    """Templates of params: those of prompts that an operation asks, and one whose text is its value."""
    if draft.kind is None or draft.params is None:
        return
    value = draft.kind.shows(draft.params)
    in_prompt, in_ui = destination(draft.params) if value is not None else (True, False)
    texts = draft.kind.templates(draft.params)
    if value is not None and in_ui and not texts:
        texts = {"template" if draft.kind.name == "template" else "input": value}
    for name, text in texts.items():
        at = draft.path("params", *steps_of(name))
        yield _Text(at=at, text=text, prompt=in_prompt, ui=in_ui)


def _parse(one: _Text, mistakes: Mistakes) -> Template | None:
    from artelier.operations.template_engine.renderer import InvalidTemplate
    from artelier.operations.template_engine.template import Template

    try:
        return Template.parse(one.text)
    except InvalidTemplate as error:
        mistakes.add(one.at, "invalid_template", str(error))
        return None


def _check_shown(one: _Text, template: Template, hidden: Mapping[str, _Hidden], mistakes: Mistakes) -> None:
    for reader, is_seen in (("prompt", one.prompt), ("ui", one.ui)):
        if not is_seen:
            continue
        out = hidden[reader]
        who = "a prompt" if reader == "prompt" else "people"
        for path in sorted(template.paths()):
            said = ""
            if path[0] == "art" and (len(path) == 1 or path[1] == "*"):
                said = f"which artifact {who} would be shown here is not known in advance: name it"
            elif path[0] == "art" and path[1] in out.tags:
                said = f"art.{path[1]} is {out.tags[path[1]]}: {who} may not be shown it"
            elif reads(path, "deps", out.values) or reads(path, "rag", out.values):
                name = quote_text(".".join(path[:2]))
                said = f"{name} may hold an artifact that {who} may not be shown"
            if said:
                mistakes.add(one.at, f"usage_forbids_{reader}", said)
