"""The rules of a profile about its templates: they parse, and show nobody what is not for them (I9)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from artelier.operations.kinds.shared_values import destination
from artelier.operations.profile.definition import (
    ArtifactUpsert,
    AssistantBlocks,
    AssistantPatch,
    Effect,
    PromptInclusion,
    UserVariant,
)
from artelier.operations.profile.draft_parser import OperationDraft
from artelier.operations.profile.rules import upserts
from artelier.operations.profile.validation_errors import Mistakes, Step, quote_text, steps_of

if TYPE_CHECKING:
    from artelier.operations.templates.template import Template
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, Literal

from artelier.errors import ArtelierError
from artelier.operations.kinds.shared_values import paths_in
from artelier.operations.profile.definition import Params

if TYPE_CHECKING:
    from artelier.operations.kinds.contract import OperationKind


Reader = Literal["prompt", "ui"]
Source = tuple[str, "OperationKind[Any]", Params]
"""An operation: its id, its kind and its params."""


def hidden_values(sources: Iterable[Source], tags: Collection[str], reader: Reader) -> frozenset[str]:
    """Ids of the operations whose values a reader may not be shown. `tags` are hidden from that reader.

    Cost: O(operations and their texts), once more for each helper whose helper comes later.
    """
    left, hidden = list(sources), set[str]()
    found = -1
    while len(hidden) > found:
        found = len(hidden)
        left = [one for one in left if one[0] not in hidden]
        hidden.update(id_ for id_, kind, params in left if _hides(kind, params, tags, hidden, reader))
    return frozenset(hidden)


def _hides(
    kind: OperationKind[Any], params: Params, tags: Collection[str], hidden: Collection[str], reader: Reader
) -> bool:
    for effect in params.effects:
        if isinstance(effect, ArtifactUpsert) and effect.value is None and effect.tag in tags:
            return True
    text = kind.shows(params)
    if text is None or destination(params)[reader == "ui"]:
        return False  # no text, or one that is made without what is hidden
    try:
        paths = paths_in(text)
    except ArtelierError:  # it will fail, and show nothing
        return False
    return any(
        reads(path, "art", tags) or reads(path, "deps", hidden) or reads(path, "rag", hidden)
        for path in paths
    )


def reads(path: tuple[str, ...], root: str, names: Collection[str]) -> bool:
    """Return True if a path of a template may read one of the names below a root."""
    return bool(names) and path[0] == root and (len(path) == 1 or path[1] in ("*", *names))


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
    """Return what each operation waits for, directly or through others."""
    needs = {draft.id: set(draft.dependencies()) for draft in drafts}
    found: dict[str, set[str]] = {}
    for id_ in needs:
        seen, left = set[str](), [*needs[id_]]
        while left:
            one = left.pop()
            if one not in seen:
                seen.add(one)
                left += needs.get(one, ())
        found[id_] = seen
    return found


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
    from artelier.operations.templates.template import InvalidTemplate, Template

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
