"""Cognition as artifacts, without a world: prompts, workflows, reflexes, working memory, subscriptions."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from artelier.world.mind_artifacts.condition import read_condition
    from artelier.world.mind_artifacts.prompt import (
        ChosenPrompt,
        PromptArtifact,
        Reading,
        Skip,
        SubscriptionLimits,
        choose_prompt,
        memory_facts,
        memory_text,
        prompt_library,
        read_library,
        read_prompt,
        shipped_prompt,
        shipped_workflow,
        subscribe,
        subscribed_sections,
        unsubscribe,
        wanted_ids,
        workflow_templates,
    )
    from artelier.world.mind_artifacts.reflex import ReflexJob, ReflexOutcome, run_reflex, run_reflexes
    from artelier.world.mind_artifacts.template import MissingVariable, clip
    from artelier.world.mind_artifacts.transition import (
        Transition,
        TransitionAnswer,
        asks_model,
        begin,
        built_in,
        facts_of,
        next_state,
        parse_choice,
        way_asked,
        with_position,
    )
    from artelier.world.mind_artifacts.workflow import (
        InvalidWorkflow,
        MindState,
        Workflow,
        WorkflowStep,
        read_workflow,
        register_minds,
    )

_HOMES = {
    "ChosenPrompt": "prompt",
    "InvalidWorkflow": "workflow",
    "MindState": "workflow",
    "MissingVariable": "template",
    "PromptArtifact": "prompt",
    "Reading": "prompt",
    "ReflexJob": "reflex",
    "ReflexOutcome": "reflex",
    "TransitionAnswer": "transition",
    "Skip": "prompt",
    "WorkflowStep": "workflow",
    "SubscriptionLimits": "prompt",
    "Transition": "transition",
    "Workflow": "workflow",
    "asks_model": "transition",
    "way_asked": "transition",
    "begin": "transition",
    "built_in": "transition",
    "choose_prompt": "prompt",
    "clip": "template",
    "facts_of": "transition",
    "memory_facts": "prompt",
    "memory_text": "prompt",
    "next_state": "transition",
    "parse_choice": "transition",
    "prompt_library": "prompt",
    "read_condition": "condition",
    "read_library": "prompt",
    "read_prompt": "prompt",
    "read_workflow": "workflow",
    "register_minds": "workflow",
    "run_reflex": "reflex",
    "run_reflexes": "reflex",
    "shipped_prompt": "prompt",
    "shipped_workflow": "prompt",
    "subscribe": "prompt",
    "subscribed_sections": "prompt",
    "unsubscribe": "prompt",
    "wanted_ids": "prompt",
    "with_position": "transition",
    "workflow_templates": "prompt",
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


def __getattr__(name: str) -> object:
    # Lazy: a rule-only agent needs neither templates nor the sandbox's checks.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
