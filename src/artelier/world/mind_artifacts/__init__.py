"""Cognition as artifacts, without a world: prompts, workflows, reflexes, working memory, subscriptions."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from artelier.world.mind_artifacts.artifact_kinds import register_minds
    from artelier.world.mind_artifacts.artifact_lookup import Reading, Skip
    from artelier.world.mind_artifacts.builtin_library import (
        prompt_library,
        shipped_prompt,
        shipped_workflow,
        workflow_templates,
    )
    from artelier.world.mind_artifacts.condition import read_condition
    from artelier.world.mind_artifacts.prompt import PromptArtifact, read_library, read_prompt
    from artelier.world.mind_artifacts.prompt_fallback import ChosenPrompt, choose_prompt
    from artelier.world.mind_artifacts.prompt_variables import built_in, facts_of, with_position
    from artelier.world.mind_artifacts.reflex import ReflexJob, ReflexOutcome, run_reflex, run_reflexes
    from artelier.world.mind_artifacts.subscriptions import (
        SubscriptionLimits,
        subscribe,
        subscribed_sections,
        unsubscribe,
        wanted_ids,
    )
    from artelier.world.mind_artifacts.template import MissingVariable
    from artelier.world.mind_artifacts.transition import (
        Transition,
        TransitionAnswer,
        asks_model,
        begin,
        next_state,
        parse_choice,
        way_asked,
    )
    from artelier.world.mind_artifacts.truncation import clip
    from artelier.world.mind_artifacts.workflow import (
        InvalidWorkflow,
        MindState,
        Workflow,
        WorkflowStep,
        read_workflow,
    )
    from artelier.world.mind_artifacts.working_memory import memory_facts, memory_text

_HOMES = {
    "ChosenPrompt": "prompt_fallback",
    "InvalidWorkflow": "workflow",
    "MindState": "workflow",
    "MissingVariable": "template",
    "PromptArtifact": "prompt",
    "Reading": "artifact_lookup",
    "ReflexJob": "reflex",
    "ReflexOutcome": "reflex",
    "TransitionAnswer": "transition",
    "Skip": "artifact_lookup",
    "WorkflowStep": "workflow",
    "SubscriptionLimits": "subscriptions",
    "Transition": "transition",
    "Workflow": "workflow",
    "asks_model": "transition",
    "way_asked": "transition",
    "begin": "transition",
    "built_in": "prompt_variables",
    "choose_prompt": "prompt_fallback",
    "clip": "truncation",
    "facts_of": "prompt_variables",
    "memory_facts": "working_memory",
    "memory_text": "working_memory",
    "next_state": "transition",
    "parse_choice": "transition",
    "prompt_library": "builtin_library",
    "read_condition": "condition",
    "read_library": "prompt",
    "read_prompt": "prompt",
    "read_workflow": "workflow",
    "register_minds": "artifact_kinds",
    "run_reflex": "reflex",
    "run_reflexes": "reflex",
    "shipped_prompt": "builtin_library",
    "shipped_workflow": "builtin_library",
    "subscribe": "subscriptions",
    "subscribed_sections": "subscriptions",
    "unsubscribe": "subscriptions",
    "wanted_ids": "subscriptions",
    "with_position": "prompt_variables",
    "workflow_templates": "builtin_library",
}

__all__ = [
    "ChosenPrompt",
    "InvalidWorkflow",
    "MindState",
    "MissingVariable",
    "PromptArtifact",
    "Reading",
    "ReflexJob",
    "ReflexOutcome",
    "Skip",
    "SubscriptionLimits",
    "Transition",
    "TransitionAnswer",
    "Workflow",
    "WorkflowStep",
    "asks_model",
    "begin",
    "built_in",
    "choose_prompt",
    "clip",
    "facts_of",
    "memory_facts",
    "memory_text",
    "next_state",
    "parse_choice",
    "prompt_library",
    "read_condition",
    "read_library",
    "read_prompt",
    "read_workflow",
    "register_minds",
    "run_reflex",
    "run_reflexes",
    "shipped_prompt",
    "shipped_workflow",
    "subscribe",
    "subscribed_sections",
    "unsubscribe",
    "wanted_ids",
    "way_asked",
    "with_position",
    "workflow_templates",
]


def __getattr__(name: str) -> Any:
    # Lazy: a rule-only agent needs neither templates nor the sandbox's checks.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
