"""The strict forms of the kinds that agents think with: what is wrong is told when it is saved."""

from __future__ import annotations

from typing import Any, cast

from artelier.artifacts import Kind, register_kind
from artelier.artifacts.content import Media
from artelier.artifacts.ref import safe_repr
from artelier.errors import InvalidArtifact
from artelier.world.mind_artifacts.prompt import read_library, read_prompt
from artelier.world.mind_artifacts.reflex import check_reflex
from artelier.world.mind_artifacts.workflow import read_workflow

_TEXT_OR_JSON: frozenset[Media] = frozenset(("text", "json"))
_JSON: frozenset[Media] = frozenset(("json",))

WORKFLOW_LIBRARY = "workflow_library"
"""The kind of `genesis_workflow_templates`: `{workflows: {name: workflow}}`, read by `id#name`."""


def register_minds() -> None:
    """Have prompts, libraries, workflows and reflexes checked in full when they are saved.

    Twice is once. Stored artifacts are not touched: an older one that would not pass is still read.
    """
    for kind in (
        Kind(name="prompt", media=_TEXT_OR_JSON, check=_check_prompt, default_access="private"),
        Kind(name="personality", media=_TEXT_OR_JSON, check=_check_prompt, default_access="private"),
        Kind(name="library", media=_JSON, check=_check_library, parts="prompts"),
        Kind(name="workflow", media=_JSON, check=_check_workflow, default_access="private"),
        Kind(name=WORKFLOW_LIBRARY, media=_JSON, check=_check_workflows, parts="workflows"),
        Kind(name="reflex", media=_TEXT_OR_JSON, check=check_reflex, default_access="private"),
    ):
        register_kind(kind, replace=True)


def _check_prompt(content: Any) -> None:
    read_prompt(content)


def _check_library(content: Any) -> None:
    read_library(content)


def _check_workflow(content: Any) -> None:
    read_workflow(content)


def _check_workflows(content: Any) -> None:
    given: object = None
    if isinstance(content, dict):
        given = cast("dict[str, object]", content).get("workflows")
    if not isinstance(given, dict):
        raise InvalidArtifact("invalid workflows", expected="an object", got=safe_repr(given))
    for name, workflow in cast("dict[str, Any]", given).items():
        try:
            read_workflow(workflow)
        except InvalidArtifact as error:
            raise InvalidArtifact(f"workflows.{name[:80]}: {error.message}") from None
