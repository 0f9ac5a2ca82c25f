"""The calls whose tools ask people, as the log tells of them: which of them have done nothing yet.

A tool says with its question that it has done nothing before it (`before_acting`). That holds while nobody
answers, and as long as the answer has not reached the tool, which `approval.heard` tells. Questions of older
versions have no such event: an answer that came when nobody drove the run, or in the instant in which a drive
ended, is heard by the next drive; any other counts as heard when it came. A tool that gives its question up
itself may have acted after that, unless its call was cut off with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from artelier.kernel import events as ev
from artelier.log import EventData

QUESTION_KINDS = (
    ev.ApprovalRequested.KIND,
    ev.ApprovalGiven.KIND,
    ev.ApprovalHeard.KIND,
    ev.SignalReceived.KIND,
    ev.RunSuspendedEvent.KIND,
    ev.ToolRetried.KIND,
    ev.ToolQuestionLeft.KIND,
    ev.StepCancelled.KIND,
    ev.StepTimedOut.KIND,
)
"""Events of one run's stream that it takes to know its calls."""


@dataclass(slots=True)
class _AskingCall:
    open: set[str] = field(default_factory=set[str])
    """Questions before acting that nobody has answered."""
    unheard: set[str] = field(default_factory=set[str])
    """Those whose answer has not reached the tool."""
    heard: set[str] = field(default_factory=set[str])
    """Those whose answer has, since the tool last said that it had done nothing."""
    left: set[str] = field(default_factory=set[str])
    """Those that it has given up since then."""
    cut_off: set[str] = field(default_factory=set[str])
    """Those that it has given up because its call was cut off in them, in this drive."""
    answered: set[str] = field(default_factory=set[str])
    """Those that the log has an answer to."""
    tell_hearing: set[str] = field(default_factory=set[str])
    """Those whose answers the log tells to be heard."""
    is_silent: bool = False
    """True if it has asked since then without saying so."""

    @property
    def is_untouched(self) -> bool:
        return not (self.heard or self.left or self.is_silent) and bool(self.open or self.unheard)

    def take_back(self) -> None:
        """Take note that the call did nothing after it gave its questions up."""
        self.open |= self.left - self.answered
        self.unheard |= self.left & self.answered
        self.left.clear()


class ToolQuestions:
    """The questions that the calls of one run ask before they act; `key in questions` if a call has done
    nothing yet.
    """

    def __init__(self) -> None:
        self._calls: dict[str, _AskingCall] = {}
        self._told: set[str] = set()
        """Answers and signals that this drive was given."""

    def __contains__(self, key: str) -> bool:
        call = self._calls.get(key)
        return call is not None and call.is_untouched

    def untouched(self) -> frozenset[str]:
        """Return the calls that have done nothing yet."""
        return frozenset(key for key in self._calls if key in self)

    def missed(self, came: set[str]) -> tuple[str, ...]:
        """Return the questions whose answer has not reached their tool. `came`: the answers to this drive."""
        return tuple(
            sorted(
                key
                for call in self._calls.values()
                for key in call.unheard | (call.open & came) | call.cut_off
            )
        )

    def is_open(self, question: str) -> bool:
        """Return True for a question before acting that is not given up, and to which the tool has heard no
        answer.
        """
        call = self._call_of(question)
        return call is not None and question in call.open | call.unheard

    def cut_off(self, key: str) -> None:
        """Note that a call was cut off in its question, and did nothing after it."""
        if (call := self._calls.get(key)) is not None:
            call.cut_off |= call.left
            call.take_back()

    def needs_hearing(self, question: str) -> bool:
        """Return True if the log is to tell that the tool hears the answer to a question, before it does."""
        call = self._call_of(question)
        return call is not None and question in call.tell_hearing and self.is_open(question)

    def hear(self, question: str) -> None:
        """Note that an answer reaches the tool now."""
        call = self._call_of(question)
        if call is not None and question in call.open | call.unheard:
            call.open.discard(question)
            call.unheard.discard(question)
            call.heard.add(question)

    def open_beside(self, question: str) -> list[str]:
        """Return the open questions of a call that must be answered before it hears the answer to this one.

        It has asked them side by side, and nobody has heard of the answer: behind it the call might act, and
        be left in another question, as if it had done nothing.
        """
        call = self._call_of(question)
        if call is None or question not in call.unheard or call.heard or call.is_silent:
            return []
        return sorted(call.open)

    def fold(self, data: EventData) -> None:
        """Take note of the next event of the run's past, or of a call or question of this drive."""
        if isinstance(data, ev.ToolRequested):
            self._calls.pop(data.key, None)
        elif isinstance(data, ev.ToolRetried):
            self._enter_again(data.key)
        elif isinstance(data, ev.ToolQuestionLeft):
            call = self._call_of(data.key)
            if call is not None and self.is_open(data.key):
                call.open.discard(data.key)
                call.unheard.discard(data.key)
                call.left.add(data.key)
        elif isinstance(data, ev.StepCancelled | ev.StepTimedOut):
            if (call := self._calls.get(data.key)) is not None:
                call.take_back()
        elif isinstance(data, ev.ApprovalRequested):
            self._ask(data)
        elif isinstance(data, ev.ApprovalGiven):
            self._answer(data)
        elif isinstance(data, ev.ApprovalHeard):
            self.hear(data.key)
        elif isinstance(data, ev.SignalReceived):
            self._told.add(f"signal {data.name}")
        elif isinstance(data, ev.RunSuspendedEvent):
            self._leave(data)

    def _enter_again(self, key: str) -> None:
        if (call := self._calls.get(key)) is None:
            return
        call.take_back()  # it asks again
        call.cut_off.clear()
        if not call.open:  # it may have heard, unless the end of the drive says so
            call.heard |= call.unheard - call.tell_hearing
            call.unheard &= call.tell_hearing

    def _ask(self, asked: ev.ApprovalRequested) -> None:
        key, number = _parts(asked.key)
        if asked.before_acting and number:
            call = self._calls.setdefault(key, _AskingCall())
            call.open.add(asked.key)
            if asked.tells_hearing:
                call.tell_hearing.add(asked.key)
            call.heard.clear()
            call.left.clear()
            call.is_silent = False
        elif (call := self._calls.get(key)) is not None:
            call.is_silent = True

    def _answer(self, answer: ev.ApprovalGiven) -> None:
        call = self._call_of(answer.key)
        is_unheard = answer.queued or (call is not None and answer.key in call.tell_hearing)
        if not is_unheard:
            self._told.add(answer.key)
        if call is None:
            return
        call.answered.add(answer.key)
        if answer.key in call.open:
            call.open.discard(answer.key)
            (call.unheard if is_unheard else call.heard).add(answer.key)

    def _leave(self, left: ev.RunSuspendedEvent) -> None:
        """A drive that has ended hears nothing more."""
        unheard = {left.reason, *left.unheard}
        # Earlier versions named one question. A drive that ended since something had come which it did not
        # hear any more, and to which one thing had come, did not hear that.
        if left.status == "pending" and left.reason != "interrupted" and len(self._told) == 1:
            unheard |= self._told
        for question in unheard:
            call = self._call_of(question)
            if call is not None and question in call.left:
                call.take_back()
            elif call is not None and question in call.heard:
                call.heard.discard(question)
                call.unheard.add(question)
        self._told.clear()

    def _call_of(self, question: str) -> _AskingCall | None:
        return self._calls.get(_parts(question)[0])


def _parts(question: str) -> tuple[str, str]:
    """Return the call that asks a question, and which of its questions it is; empty if no tool asks it."""
    key, _, number = question.rpartition("/ask/")
    return (key, number) if number.isdecimal() else ("", "")
