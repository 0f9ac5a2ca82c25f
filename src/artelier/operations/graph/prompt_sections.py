"""The additions of a profile to a prompt: of a turn of a chat, and of a step of an agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from artelier.kernel import Run
from artelier.operations.graph.artifact_state import ArtState
from artelier.operations.graph.inclusion import Included, include_artifacts
from artelier.operations.graph.inclusion_summary import shorten_inclusion
from artelier.operations.graph.template_scope import Situation
from artelier.operations.kinds import kind_named
from artelier.operations.kinds.contract import OperationScope
from artelier.operations.profile.definition import PromptInclusion
from artelier.operations.profile.operation_profile import OperationProfile
from artelier.operations.profile.value_visibility import Reader, hidden_values


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
