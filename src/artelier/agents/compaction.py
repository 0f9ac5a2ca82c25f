"""Keeping a run's prompts within its model's window: when to compact, what to keep, how to take it back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from artelier.agents.run_config import AgentState, Job
from artelier.context import (
    CompactionStrategy,
    MessageBlock,
    Section,
    Wish,
    assemble,
    compact,
    kept_from,
    prompt_tokens,
    section_tokens,
)
from artelier.errors import ArtelierError, NotFound
from artelier.kernel import Conversation, ModelResult, Prompt, Run, message_tokens
from artelier.kernel.events import ContextCompacted, ContextRestored
from artelier.kernel.prompt.manifest import canonical
from artelier.log import Blob, BlobRef
from artelier.tokens import estimate_tokens

SAFETY = 0.97
"""Of the room, for what the estimate may be wrong by before the first reply taught it better."""


class ContextWindow:
    """The sizes of one run's prompts."""

    def __init__(self, run: Run, job: Job, conversation: Conversation) -> None:
        self.run = run
        self.job = job
        self.conversation = conversation
        self._tools: tuple[object, int] = (None, 0)
        self._schema_tokens: int | None = None

    # Sizes

    def overhead(self) -> int:
        """About how many tokens tools and the output schema take in each prompt."""
        if self._schema_tokens is None:
            schema = self.run.schema_of(self.job.output_schema)
            self._schema_tokens = estimate_tokens(canonical(schema)) if schema else 0
        offered = self.run.core.offered_tools()
        if self._tools[0] != offered:
            self._tools = (offered, sum(estimate_tokens(tool.canonical()) for tool in offered))
        return self._tools[1] + self._schema_tokens

    def raw_tokens(self, sections: Sequence[Section]) -> int:
        return sum(map(section_tokens, sections)) + self.overhead()

    def budget(self, state: AgentState) -> int:
        """Estimated tokens that the sections of a prompt may have together."""
        room = int(self.job.prompt_tokens_max * SAFETY)
        return max(1, state.estimate.raw_budget(room) - self.overhead())

    def assemble_prompt(self, state: AgentState, sections: Sequence[Section]) -> tuple[Prompt, int]:
        """The prompt and its estimate. Errors: `ContextTooLong` if what is pinned does not fit."""
        prompt = assemble(sections, budget_tokens=self.budget(state))
        return prompt, prompt_tokens(prompt) + self.overhead()

    def learn_from_bill(self, state: AgentState, result: ModelResult, *, raw: int) -> AgentState:
        """Return what the bill of the last prompt teaches."""
        billed = result.reply.usage.input_tokens if result.reply is not None else 0
        return state.replace(estimate=state.estimate.learn_from_bill(raw=raw, billed=billed))

    def note_overflow(self, state: AgentState, *, raw: int) -> AgentState:
        """The provider refused a prompt as too long: it counts at least a window for it."""
        billed = max(self.job.window_tokens, state.estimate.tokens(raw))
        return state.replace(estimate=state.estimate.learn_from_bill(raw=raw, billed=billed))

    # Compaction

    async def strategy(self, state: AgentState) -> CompactionStrategy:
        """The run's own, or the one that a person chose for it since."""
        if state.policy is None:
            return self.job.strategy()
        return CompactionStrategy.from_stored(await self.run.core.load_json(state.policy))

    async def compact_if_due(
        self, state: AgentState, sections: Sequence[Section], *, force: str = ""
    ) -> AgentState:
        """The state after a compaction, if one is due; else the same state."""
        core = self.run.core
        number = state.cycle + 1
        key = f"c{number}/{'tightening' if force else 'compaction'}"
        # The receipt, or the calls of one that was cut off: what was begun is brought to its end.
        recorded = await core.history.knows(key) or core.history.expects(key)
        if not recorded and (core.actor is None or core.history.is_bound(f"c{number}")):
            if not force or core.actor is None:
                return state  # there was none then
        strategy = await self.strategy(state)
        raw = self.raw_tokens(sections)
        why = force or self._why(state, strategy, sections, raw)
        if not (recorded or why):
            return state
        block = await self._block(state, sections, strategy, forced=bool(force))
        if block is None:
            return state
        wish = Wish(
            why=why or "messages",
            model=self.job.model,
            strategy=strategy,
            window_tokens=self.job.window_tokens,
            tokens_before=state.estimate.tokens(raw),
            kept=[section.text for section in sections if section.tag in ("memory", "task")],
        )
        receipt = await compact(self.run, block, wish, key=key)
        self.conversation.forget_before(receipt.end + 1)
        return state.replace(
            shown=receipt.end + 1, summary=receipt.summary, trust=receipt.trust, compaction=key
        )

    def _why(
        self, state: AgentState, strategy: CompactionStrategy, sections: Sequence[Section], raw: int
    ) -> str:
        tokens = state.estimate.tokens(raw)
        if tokens > int(self.job.prompt_tokens_max * SAFETY):
            return "fraction"
        messages = sum(
            len(section.range.messages) if section.range is not None else 1
            for section in sections
            if not section.is_empty and section.stability != "volatile"
        )
        if len(self.conversation) < state.hold:
            return ""
        return strategy.trigger_of(messages=messages, tokens=tokens, window_tokens=self.job.window_tokens)

    async def _block(
        self, state: AgentState, sections: Sequence[Section], strategy: CompactionStrategy, *, forced: bool
    ) -> MessageBlock | None:
        """The messages that a summary shall stand for; None if nothing can be summarised."""
        shown = next((s.range for s in sections if s.tag == "conversation" and s.range), None)
        if shown is None:
            return None
        sizes = [message_tokens(message) for message in shown.messages]
        others = sum(section_tokens(s) for s in sections if s.tag not in ("conversation", "summary"))
        room = self.budget(state) - others - strategy.summary_tokens_max
        # Well below what triggers it, so that the next one is not due at once.
        room = min(room, self.job.window_tokens // (4 if forced else 2))
        index = kept_from(shown.messages, sizes, keep=strategy.keep_recent_messages, room_tokens=max(0, room))
        if index <= 0:
            return None
        summary = await self.run.core.load_json(state.summary)
        if summary is None and self.job.earlier is not None:
            summary = self.job.earlier.summary
        block = shown.messages[:index]
        earlier = self.job.earlier
        before = state.trust if state.summary or earlier is None else earlier.trust
        untrusted = before != "trusted" or any(message.role == "tool" for message in block)
        return MessageBlock(
            conversation=self.conversation.name,
            start=shown.start,
            end=shown.start + index - 1,
            messages=block,
            summary=summary or "",
            summary_ref=state.summary,
            tokens=sum(sizes[:index]),
            trust="untrusted" if untrusted else "trusted",
        )

    # Undo

    async def undone(self, state: AgentState) -> AgentState:
        """Obey a person who wants a compaction undone, or another policy from here on."""
        key = f"c{state.cycle + 1}"
        asked: Any = await self.run.poll_signal(ASKED, key=f"{key}/asked")
        try:
            wish = msgspec.convert(asked, CompactionWish)
        except msgspec.ValidationError:
            return state  # also where nobody has asked
        if wish.policy is not None:
            try:
                strategy = CompactionStrategy(**wish.policy)
            except (ArtelierError, TypeError):
                return state  # refused at the door; what another version wrote changes nothing
            _, ref = await self.run.reading(lambda: _now(strategy.settings()), key=f"{key}/policy")
            state = state.replace(policy=BlobRef(ref))
        if wish.undo and state.compaction:
            state = await self._undo_compaction(state, key)
        return state

    async def _undo_compaction(self, state: AgentState, key: str) -> AgentState:
        old = await self._receipt(state.compaction)

        async def make(full: str) -> tuple[ContextRestored, list[Blob]]:
            restored = ContextRestored(
                key=full, compaction=state.compaction, start=old.start, summary=old.previous
            )
            return restored, []

        receipt = await self.run.receipt(ContextRestored, make, key=f"{key}/restored")
        await self._remember(receipt.start)
        before = await self._before(old)
        return state.replace(
            shown=receipt.start,
            summary=receipt.summary,
            compaction=before,
            hold=len(self.conversation) + 2,
            trust=state.trust,
        )

    async def _remember(self, first: int) -> None:
        """Bring messages back into memory that were let go."""
        if first >= self.conversation.first:
            return
        from artelier.kernel import Renderer

        renderer = await Renderer.open(self.run.core.services, self.run.tenant_id, self.run.id)
        messages = await renderer.messages(self.conversation.name, first, self.conversation.first - 1)
        self.conversation.recall(messages)

    async def _receipt(self, key: str) -> ContextCompacted:
        from artelier.kernel import receipt_of

        found = await receipt_of(self.run.core.services, self.run.tenant_id, self.run.id, key)
        if not isinstance(found, ContextCompacted):
            raise NotFound(f"no compaction {key!r} in run {self.run.id}")
        return found

    async def _before(self, receipt: ContextCompacted) -> str:
        """Key of the compaction whose summary stands again; empty if none does."""
        if receipt.previous is None:
            return ""
        from artelier.kernel import receipts_of

        services = self.run.core.services
        for key, event in await receipts_of(services, self.run.tenant_id, self.run.id):
            if isinstance(event, ContextCompacted) and event.summary == receipt.previous:
                return key
        return ""


async def _now(value: object) -> object:
    return value


# The wishes of a person about a run's compactions; they reach the loop as a signal


ASKED = "artelier.compaction"
"""Name of the signal, which carries a `CompactionWish`."""


class CompactionWish(msgspec.Struct, frozen=True, kw_only=True):
    """The wish of a person about a run's compactions."""

    undo: bool = False
    policy: dict[str, Any] | None = None
    """Fields of the strategy that holds from then on; None for the one that there is."""
