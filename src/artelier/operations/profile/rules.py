"""The rules of a profile that are about operations and their relations. Pure; each notes all it finds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from artelier.operations.profile.definition import AFTER, BEFORE, ONLY_AFTER, ONLY_BEFORE, TAG, ArtifactUpsert
from artelier.operations.profile.draft_parser import OperationDraft, order_mistake, texts_in
from artelier.operations.profile.validation_errors import Mistakes, quote_text, steps_of

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
