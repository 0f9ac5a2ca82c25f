"""A tool context for tests: what the kernel would hand over, with everything recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from artelier.ports.tool import PersonAnswer, ToolContext


class Recorder:
    """Makes contexts and keeps what tools did with them."""

    def __init__(self, *, answer: PersonAnswer | None = None) -> None:
        self.answer = PersonAnswer(decision="approve") if answer is None else answer
        self.notes: list[str] = []
        self.spent: list[int] = []
        self.questions: list[tuple[str, Mapping[str, Any] | None]] = []

    def context(self, *, key: str = "r1:c1/tool/0") -> ToolContext:
        async def spend(micro: int) -> None:
            self.spent.append(micro)

        async def ask(question: str, details: Mapping[str, Any] | None, before_acting: bool) -> PersonAnswer:
            self.questions.append((question, details))
            return self.answer

        return ToolContext(
            run_id="r1",
            tenant_id="acme",
            principal="agent:a",
            idempotency_key=key,
            deadline_us=None,
            progress=self.notes.append,
            spend=spend,
            cancelled=lambda: False,
            ask=ask,
        )
