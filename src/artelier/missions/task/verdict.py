"""The records of a verdict: what rules, checks and an evaluator have said of the outputs of a task.

They are stored as JSON behind `task.evaluated`, and beside the step that asks the rules. A verdict of an
earlier version lacks fields that came later, so that each has a default.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, Struct, UnsetType


class OutputFault(Struct, frozen=True, kw_only=True):
    """A rule that an output breaks."""

    rule: str
    """Such as `placeholder`; a stable code."""
    ref: str
    found: tuple[str, ...] = ()
    """The passages that break it, verbatim and cut."""


class AnsweredFinding(OutputFault, frozen=True, kw_only=True):
    """A finding of a rule about words, with the evaluator's answer."""

    is_fault: bool | None = None
    """None if the evaluator passed over it."""
    why: str = ""


class CheckResult(Struct, frozen=True, kw_only=True):
    """The outcome of a check that the definition of a task has."""

    kind: str
    passed: bool
    found: str
    """In words, cut."""


class CriterionQuote(Struct, frozen=True, kw_only=True):
    """The place where an output meets a criterion."""

    ref: str
    quote: str


class JudgedCriterion(Struct, frozen=True, kw_only=True):
    """The evaluator's word on one criterion."""

    criterion: str
    met: bool
    evidence: tuple[CriterionQuote, ...] = ()
    missing: str = ""
    """The missing part, if it is not met."""


class RuleFindings(Struct, frozen=True, kw_only=True):
    """The findings of rules, before anybody is asked."""

    faults: tuple[OutputFault, ...] = ()
    checks: tuple[CheckResult, ...] = ()
    """Of those that need no tool; empty beside faults."""
    advice: tuple[OutputFault, ...] | UnsetType = UNSET
    """The findings of rules about words. A run with hard rules records none, as it never did."""


class StoredVerdict(Struct, frozen=True, kw_only=True):
    """A verdict as it is stored."""

    criteria: tuple[JudgedCriterion, ...] = ()
    checks: tuple[CheckResult, ...] = ()
    faults: tuple[OutputFault, ...] = ()
    summary: str = ""
    advice: tuple[AnsweredFinding, ...] | UnsetType = UNSET
    """Given if rules advise and have found something."""

    @property
    def findings(self) -> tuple[AnsweredFinding, ...]:
        """The advice; empty if there is none."""
        return () if self.advice is UNSET else self.advice


def read_verdict(value: object) -> StoredVerdict | None:
    """Return a verdict of its JSON; None where there is none to read, as for one that was erased."""
    try:
        return msgspec.convert(value, StoredVerdict)
    except msgspec.ValidationError:
        return None
