"""A corpus of old agents with code steps, conditions and transitions: some written by hand, many drawn."""

from __future__ import annotations

import random
from typing import Any

METRICS = """
_locals = locals()
recent = _locals.get('recent_failures', [])
rich = balance >= 95
failures = failure_count + len(recent)
share = round(balance / 100, 2)
mood = 'calm' if failures == 0 else 'tense'
"""

PLANS = """
wm = working_memory or {}
streak = wm.get('streak', 0) + tick
is_review = streak % 3 == 0
for step in range(3):
    if step == tick % 3:
        phase = step
"""

WRITTEN: dict[str, dict[str, Any]] = {
    "cycle": {
        "state_machine": {
            "states": ["look", "make", "sell", "lost"],
            "transitions": ["look -> make", "make -> sell", "sell -> look"],
        },
        "steps": [
            {"name": "metrics", "type": "code", "code": METRICS},
            {
                "name": "a",
                "in_state": "look",
                "transition_to": "make",
                "prompt": "Look, {agent_id}: {balance} scrip, {share}, mood {mood}, {time_remaining} left.",
            },
            {
                "name": "b",
                "in_state": "make",
                "transition_to": "sell",
                "prompt": "Make. Revenue {revenue_earned:+.0f}, tick {tick}, failures {failures}.",
            },
            {"name": "c", "in_state": "sell", "transition_to": "look", "prompt": "Sell for {credits}."},
        ],
    },
    "gated": {
        "state_machine": {
            "states": ["poor", "rich"],
            "transitions": [
                {"from": "poor", "to": "rich", "condition": "rich and failures == 0"},
                {"from": "*", "to": "poor", "condition": "failures > 0 or balance < 90"},
            ],
        },
        "steps": [
            {"name": "metrics", "type": "code", "code": METRICS},
            {"name": "p", "in_state": "poor", "prompt": "Earn ({mood}).", "transition_to": "rich"},
            {"name": "r", "in_state": "rich", "prompt": "Spend.", "transition_to": "poor"},
        ],
    },
    "judged": {
        "state_machine": {
            "states": ["work", "judge", "ship"],
            "transitions": ["work -> judge", "judge -> work", "judge -> ship", "ship -> work"],
        },
        "steps": [
            {"name": "w", "in_state": "work", "prompt": "Work.", "transition_to": "judge"},
            {
                "name": "j",
                "type": "transition",
                "in_state": "judge",
                "prompt": "Go on or ship?",
                "transition_map": {"again": "work", "ship": "ship"},
            },
            {"name": "s", "in_state": "ship", "prompt": "Ship {artifacts}.", "transition_to": "work"},
        ],
    },
    "gate_then_judge": {
        "state_machine": {"states": ["work", "check", "judge"], "transitions": []},
        "steps": [
            {"name": "plans", "type": "code", "code": PLANS},
            {"name": "w", "in_state": "work", "prompt": "Phase {phase}.", "transition_to": "check"},
            {
                "name": "e",
                "type": "transition",
                "in_state": "check",
                "run_if": "is_review",
                "transition_to": "work",
            },
            {"name": "f", "type": "transition", "in_state": "check", "transition_to": "judge"},
            {
                "name": "j",
                "type": "transition",
                "in_state": "judge",
                "run_if": "phase > 0",
                "prompt": "Where?",
                "transition_map": {"yes": "work", "no": "check"},
            },
        ],
    },
    "several": {
        "state_machine": {"states": ["a", "b"], "transitions": ["a -> b", "b -> a"]},
        "steps": [
            {"name": "always", "prompt": "Always, {agent_id}."},
            {"name": "odd", "in_state": "a", "run_if": "tick % 2 == 1", "prompt": "Odd."},
            {"name": "even", "in_state": ["a", "b"], "run_if": "tick % 2 == 0", "prompt": "Even."},
            {
                "name": "go",
                "type": "transition",
                "run_if": "tick % 3 == 0",
                "in_state": "a",
                "transition_to": "b",
            },
            {"name": "back", "type": "transition", "in_state": "b", "transition_to": "a"},
        ],
    },
    "fails": {
        "state_machine": {"states": ["a", "b"]},
        "steps": [
            {"name": "halves", "type": "code", "code": "half = 10 / (tick % 3)"},
            {"name": "go", "in_state": "a", "prompt": "Half is {half}.", "transition_to": "b"},
            {"name": "back", "in_state": "b", "prompt": "Back.", "transition_to": "a"},
        ],
    },
    "shrugs": {
        "error_handling": {"default_on_failure": "skip"},
        "state_machine": {"states": ["a", "b"]},
        "steps": [
            {"name": "halves", "type": "code", "code": "half = 10 / (tick % 3)"},
            {"name": "lost", "type": "code", "code": "more = nowhere_defined + 1"},
            {
                "name": "go",
                "in_state": "a",
                "run_if": "half > 5 and not more",
                "prompt": "No.",
                "transition_to": "b",
            },
            {
                "name": "then",
                "in_state": "a",
                "run_if": "half > 5",
                "prompt": "Half is {half:.1f}.",
                "transition_to": "b",
            },
            {"name": "back", "in_state": "b", "prompt": "Back {half}.", "transition_to": "a"},
        ],
    },
    "late": {
        "state_machine": {
            "states": ["a", "b"],
            "transitions": [{"from": "a", "to": "b", "condition": "known"}, {"from": "b", "to": "a"}],
        },
        "steps": [
            {"name": "early", "in_state": "a", "prompt": "Too early.", "transition_to": "b"},
            {"name": "now", "type": "code", "code": "known = True"},
            {
                "name": "gate",
                "type": "transition",
                "in_state": "a",
                "run_if": "tick > 3",
                "transition_to": "b",
            },
            {"name": "back", "in_state": "b", "prompt": "Back.", "transition_to": "a"},
        ],
    },
    "anew": {
        "state_machine": {"states": ["a", "b"], "transitions": ["a -> b", "b -> a"]},
        "steps": [
            {
                "name": "first",
                "type": "code",
                "in_state": "a",
                "code": "count = 1\nif tick % 2 == 0:\n    flag = tick % 3 == 0",
            },
            {
                "name": "early",
                "in_state": "a",
                "run_if": "not flag",
                "prompt": "Early, {count}.",
                "transition_to": "b",
            },
            {"name": "then", "type": "code", "in_state": "a", "code": "flag = False\ncount = 2"},
            {"name": "said", "in_state": "a", "prompt": "Then {count}."},
            {"name": "more", "type": "code", "in_state": "a", "code": "count = 3"},
            {"name": "late", "in_state": "a", "run_if": "count == 3", "prompt": "Late {count}."},
            {
                "name": "go",
                "type": "transition",
                "in_state": "a",
                "run_if": "tick % 3 == 0",
                "transition_to": "b",
            },
            {"name": "back", "in_state": "b", "prompt": "Back.", "transition_to": "a"},
        ],
    },
    "by_machine": {
        "state_machine": {
            "states": ["day", "night", "feast"],
            "transitions": [
                {"from": "day", "to": "night", "condition": "tick % 2 == 0"},
                {"from": "night", "to": "day"},
                {"from": "*", "to": "feast", "condition": "tick == 5"},
            ],
        },
        "steps": [{"name": "live", "prompt": "Live in {_current_state}."}],
    },
}
"""Workflows by the id of their agent."""

_CONDITIONS = (
    "tick % 2 == 0",
    "tick % 3 == 1",
    "balance < 95",
    "balance >= 90 and tick > 2",
    "failure_count > 0",
    "not flag",
    "flag",
    "count > 2",
    "flag or tick > 4",
    "never_known",
    "not never_known",
    "'write' == last_action_type",
    "(count + tick) % 4 == 0",
)
_CODES = (
    "flag = tick % 2 == 0\ncount = tick + failure_count",
    "_l = locals()\ncount = _l.get('absent', 3) * 2\nif balance < 95:\n    flag = True",
    "count = [n for n in range(tick)][-1] if tick > 1 else 0\nflag = count > 1",
    "flag = 1 / (tick % 4) > 0.4",
    "from_memory = working_memory.get('streak', 0)\nflag = from_memory > tick\ncount = from_memory",
)


def drawn(seed: int) -> dict[str, Any]:
    """A workflow at random."""
    chance = random.Random(seed)
    states = [f"s{n}" for n in range(chance.randint(2, 5))]
    ways: list[Any] = []
    for _ in range(chance.choice((0, 3, 6, 9))):
        way: dict[str, Any] = {"from": chance.choice([*states, "*"]), "to": chance.choice(states)}
        if chance.random() < 0.4:
            way["condition"] = chance.choice(_CONDITIONS)
        ways.append(way)
    steps: list[dict[str, Any]] = []
    for number in range(chance.randint(2, 9)):
        kind = chance.choice(("code", "llm", "llm", "llm", "transition"))
        step: dict[str, Any] = {"name": f"n{number}", "type": kind}
        if chance.random() < 0.75 or kind == "transition":
            step["in_state"] = chance.sample(states, chance.randint(1, min(2, len(states))))
        if chance.random() < 0.35:
            step["run_if"] = chance.choice(_CONDITIONS)
        if kind == "code":
            step["code"] = chance.choice(_CODES)
            if chance.random() < 0.4:
                step["on_failure"] = "skip"
        elif kind == "llm":
            step["prompt"] = f"Do {number} at {{tick}} with {{balance}}; {{unheard_of}} remains."
        if kind == "llm" and chance.random() < 0.6:
            step["transition_to"] = chance.choice(states)
        if kind == "transition":
            if chance.random() < 0.6:
                step["transition_to"] = chance.choice(states)
            else:
                step["prompt"] = "Which?"
                step["transition_map"] = {"left": chance.choice(states), "right": chance.choice(states)}
        steps.append(step)
    return {"state_machine": {"states": states, "transitions": ways}, "steps": steps}
