"""The additions of a profile to a prompt: of a turn of a chat, and of a step of an agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from artelier.kernel import Run
from artelier.operations.graph.artifact_state import ArtState
from artelier.operations.graph.inclusion import Included, included
from artelier.operations.graph.inclusion_summary import shortened
from artelier.operations.graph.template_scope import Situation
from artelier.operations.kinds.contract import Scope
from artelier.operations.profile.definition import OperationProfile, PromptInclusion
from artelier.operations.profile.value_visibility import unseen


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
    scope = Scope(names=names, in_prompt=state.in_prompt, in_ui=state.in_ui, unseen=unseen(profile, state))
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
    items = included(rules, state, shown, trigger=trigger)
    return [await shortened(run, item, model=model, prefix=prefix) for item in items]
