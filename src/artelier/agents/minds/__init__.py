"""Cognition as artifacts, without a world: prompts, workflows, reflexes, working memory, subscriptions."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from artelier.agents.minds.choice import ChosenPrompt, choose_prompt
    from artelier.agents.minds.clipping import clip
    from artelier.agents.minds.condition import read_condition
    from artelier.agents.minds.facts import built_in, facts_of, with_position
    from artelier.agents.minds.kinds import register_minds
    from artelier.agents.minds.prompt import PromptArtifact, read_library, read_prompt
    from artelier.agents.minds.reading import Reading, Skip
    from artelier.agents.minds.reflex import ReflexJob, ReflexOutcome, run_reflex, run_reflexes
    from artelier.agents.minds.shipped import (
        prompt_library,
        shipped_prompt,
        shipped_workflow,
        workflow_templates,
    )
    from artelier.agents.minds.subscriptions import (
        SubscriptionLimits,
        subscribe,
        subscribed_sections,
        unsubscribe,
        wanted_ids,
    )
    from artelier.agents.minds.template import MissingVariable
    from artelier.agents.minds.transition import (
        Reply,
        Transition,
        asks_model,
        begin,
        next_state,
        parse_choice,
        way_asked,
    )
    from artelier.agents.minds.workflow import (
        InvalidWorkflow,
        MindState,
        Step,
        Workflow,
        read_workflow,
    )
    from artelier.agents.minds.working_memory import memory_facts, memory_text

_HOMES = {
    "ChosenPrompt": "choice",
    "InvalidWorkflow": "workflow",
    "MindState": "workflow",
    "MissingVariable": "template",
    "PromptArtifact": "prompt",
    "Reading": "reading",
    "ReflexJob": "reflex",
    "ReflexOutcome": "reflex",
    "Reply": "transition",
    "Skip": "reading",
    "Step": "workflow",
    "SubscriptionLimits": "subscriptions",
    "Transition": "transition",
    "Workflow": "workflow",
    "asks_model": "transition",
    "way_asked": "transition",
    "begin": "transition",
    "built_in": "facts",
    "choose_prompt": "choice",
    "clip": "clipping",
    "facts_of": "facts",
    "memory_facts": "working_memory",
    "memory_text": "working_memory",
    "next_state": "transition",
    "parse_choice": "transition",
    "prompt_library": "shipped",
    "read_condition": "condition",
    "read_library": "prompt",
    "read_prompt": "prompt",
    "read_workflow": "workflow",
    "register_minds": "kinds",
    "run_reflex": "reflex",
    "run_reflexes": "reflex",
    "shipped_prompt": "shipped",
    "shipped_workflow": "shipped",
    "subscribe": "subscriptions",
    "subscribed_sections": "subscriptions",
    "unsubscribe": "subscriptions",
    "wanted_ids": "subscriptions",
    "with_position": "facts",
    "workflow_templates": "shipped",
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
    "Reply",
    "Skip",
    "Step",
    "SubscriptionLimits",
    "Transition",
    "Workflow",
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
