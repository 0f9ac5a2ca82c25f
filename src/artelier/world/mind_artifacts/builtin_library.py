"""The shipped prompts of `genesis_prompt_library` and the shipped workflow templates."""

from __future__ import annotations

import json
from functools import lru_cache
from importlib.resources import files
from typing import Any, cast

from artelier.errors import NotFound

PROMPT_LIBRARY = "genesis_prompt_library"
WORKFLOW_TEMPLATES = "genesis_workflow_templates"

PROMPTS: tuple[str, ...] = tuple(
    "observe_base ideate_base implement_base reflect_base transition_base trading_base "
    "meta_learning error_recovery coordination_request resource_optimization artifact_design "
    "market_analysis intelligence_trading".split()
)
WORKFLOWS: tuple[str, ...] = ("build_cycle", "trader", "researcher", "coordinator", "observer")

_VERSION = 1


def prompt_library() -> dict[str, Any]:
    """Content of the artifact `genesis_prompt_library` of kind `library`."""
    return {"prompts": {name: shipped_prompt(name) for name in PROMPTS}}


def shipped_prompt(name: str) -> str:
    """The template of one shipped prompt, such as `ideate_base`. Errors: `NotFound`."""
    return _text("library", name, "md", PROMPTS)


def workflow_templates() -> dict[str, Any]:
    """Content of `genesis_workflow_templates`: `{workflows: {name: content of a workflow}}`."""
    return {"workflows": {name: shipped_workflow(name) for name in WORKFLOWS}}


def shipped_workflow(name: str) -> dict[str, Any]:
    """Content of an artifact of kind `workflow`, such as `build_cycle`. Errors: `NotFound`."""
    return cast("dict[str, Any]", json.loads(_text("workflows", name, "json", WORKFLOWS)))


@lru_cache(maxsize=64)
def _text(folder: str, name: str, ending: str, known: tuple[str, ...]) -> str:
    if name not in known:
        raise NotFound("nothing of this name is shipped", expected=", ".join(known), got=name[:80])
    path = files("artelier.world.mind_artifacts") / folder / f"{name}-{_VERSION}.{ending}"
    return path.read_text("utf-8").strip()
