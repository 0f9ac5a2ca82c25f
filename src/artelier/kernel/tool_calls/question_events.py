"""Events of questions to people, and of what becomes of those of tools.

They stand apart from `kernel/events.py`, which has no room and gives them on.
"""

from __future__ import annotations

from artelier.log import BlobRef, EventData, event


@event("approval.requested")
class ApprovalRequested(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """The run asks people something and waits."""

    key: str
    question: BlobRef
    """JSON of `{question, details}`."""
    expires_us: int | None = None
    before_acting: bool = False
    """True if the tool that asks says that it has done nothing yet: it may be entered again."""
    tells_hearing: bool = False
    """True if an `approval.heard` tells that the answer has reached the tool. False in older histories, where
    it did with the answer, if the run was driven then."""


@event("approval.heard")
class ApprovalHeard(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to a question before acting (`key`) reaches its tool, which may act from now on."""

    key: str


@event("tool.question_left")
class ToolQuestionLeft(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A tool gave its question up (`key`), such as by a timeout of its own, and may act from now on."""

    key: str
