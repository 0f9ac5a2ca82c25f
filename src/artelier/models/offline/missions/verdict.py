"""A verdict by rule: each criterion met with a quote of an output, or what is missing."""

from __future__ import annotations

from typing import Any

from artelier.models.offline.missions.criteria import criteria_in, ruling
from artelier.models.offline.missions.prompt import Prompt
from artelier.models.offline.missions.topics import Output, Ruling

FIGURES_MIN = 3
"""Lines with figures from which an output must say where they come from."""

UNSAID = "A criterion is said."
SOURCED = "Figures and passages come with their source."


def judge(prompt: Prompt) -> dict[str, Any]:
    """The verdict as JSON data."""
    outputs = [Output(ref=one.source, text=one.text) for one in prompt.shown("Outputs")]
    criteria = criteria_in(prompt.section("Success criteria"))
    rulings = [(one, _ruled(one, outputs)) for one in criteria]
    if not any("source" in one.lower() for one in criteria) and any(map(_is_bare, outputs)):
        missing = "figures stand there without any source"
        rulings.append((SOURCED, Ruling(met=False, missing=missing)))
    if not rulings:
        rulings.append((UNSAID, Ruling(met=False, missing="there is no criterion to judge by")))
    met = sum(one.met for _, one in rulings)
    return {
        "criteria": [
            {
                "criterion": criterion,
                "met": one.met,
                "evidence": [{"ref": one.ref, "quote": one.quote}] if one.met else [],
                "missing": "" if one.met else one.missing,
            }
            for criterion, one in rulings
        ],
        "summary": f"{met} of {len(rulings)} criteria are met, judged by rule.",
    }


def _ruled(criterion: str, outputs: list[Output]) -> Ruling:
    if not outputs or not any(output.lines for output in outputs):
        return Ruling(met=False, missing="there is no output")
    return ruling(criterion, outputs)


def _is_bare(output: Output) -> bool:
    """Return True if an output gives figures and says of none where it is from."""
    figured = [line for line in output.said if any(map(str.isdigit, line))]
    return len(figured) >= FIGURES_MIN and not ruling("Names the sources.", [output]).met
