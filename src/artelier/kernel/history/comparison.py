"""Two runs side by side: how much they share, and the first step at which they differ.

Steps are matched by key, in the order in which the first run asked for them, so that parallel work which
came in another order is no difference. Memory is bounded: both histories are read in pages.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TypedDict

from artelier.errors import Erased
from artelier.kernel import events as ev
from artelier.kernel.history.fork_lineage import Place, earlier_events, lineage
from artelier.kernel.history.step_history import PAGE
from artelier.kernel.prompt.renderer import Renderer
from artelier.kernel.prompt.request import Shape, difference
from artelier.kernel.queries.reports import TokenUse, run_object
from artelier.kernel.queries.runs import RunRow, run_row
from artelier.kernel.queries.steps import find_step
from artelier.kernel.run.services import Services
from artelier.log import Event, EventData, stored_blob
from artelier.log.queries import events_at

_KEYED = (
    ev.ModelRequested,
    ev.ModelCompleted,
    ev.ModelFailed,
    ev.ToolRequested,
    ev.ToolRefused,
    ev.ToolCompleted,
    ev.ToolUnresolved,
    ev.ToolReconciled,
    ev.StepCompleted,
    ev.StepFailed,
    ev.ApprovalRequested,
    ev.ApprovalGiven,
    ev.WaitStarted,
    ev.WaitEnded,
    ev.ContextCompacted,
    ev.ContextRestored,
    ev.StepReceipt,
    ev.StepCancelled,
    ev.StepTimedOut,
)
"""Events that belong to a step, other than notices on its way."""


def keyed_kinds() -> tuple[str, ...]:
    """Kinds of these events, receipts of other packages included."""
    receipts = ev.StepReceipt.__subclasses__()
    return tuple(cls.KIND for cls in (*_KEYED, *receipts) if cls is not ev.StepReceipt)


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """The end of a step: a label, the content, and the code of an error."""

    label: str = "open"
    ref: str | None = None
    code: str = ""

    def __str__(self) -> str:
        return f"{self.label} ({self.code})" if self.code else self.label


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFacts:
    """A step of one run."""

    key: str
    kind: str
    seq: int
    """Of its request, in the stream of `run_id`."""
    run_id: str
    """The run that asked: an origin of the one that was looked at, or itself."""
    request: EventData
    context: ev.ContextAssembled | None = None
    outcome: StepOutcome = field(default_factory=StepOutcome)

    def begins_at(self, stored: Event, *, since: int) -> bool:
        """Return True if an event is the first of this step after `since` in its stream."""
        elsewhere = stored.stream.id != self.run_id or self.seq <= since
        return elsewhere or stored.seq == self.seq

    @property
    def model(self) -> str:
        return self.request.model if isinstance(self.request, ev.ModelRequested) else ""

    @property
    def tool(self) -> str:
        return self.request.name if isinstance(self.request, ev.ToolRequested | ev.ToolRefused) else ""

    @property
    def arguments(self) -> str | None:
        """A reference to the request: a tool's arguments, or the question to a person."""
        if isinstance(self.request, ev.ToolRequested | ev.ToolRefused):
            return self.request.arguments
        return self.request.question if isinstance(self.request, ev.ApprovalRequested) else None


def key_of_step(data: EventData) -> str | None:
    """The key of the step that an event belongs to."""
    return data.key if isinstance(data, _KEYED) else None


def outcome_of(data: EventData | None) -> StepOutcome:
    """The outcome that an event says."""
    if isinstance(data, ev.ModelCompleted):
        return StepOutcome("completed", data.reply)
    if isinstance(data, ev.ModelFailed | ev.StepFailed):
        return StepOutcome("failed", data.message, data.code)
    if isinstance(data, ev.Cut):
        label = "timed_out" if isinstance(data, ev.StepTimedOut) else "cancelled"
        return StepOutcome(label, data.came)
    if isinstance(data, ev.ToolCompleted):
        return StepOutcome("error" if data.is_error else "completed", data.result)
    if isinstance(data, ev.ToolRefused):
        return StepOutcome("refused", data.result, data.code)
    if isinstance(data, ev.ToolUnresolved):
        return StepOutcome("unknown", data.probe_error, data.code)
    if isinstance(data, ev.ToolReconciled):
        labels = {"succeeded": "completed", "failed": "error"}
        return StepOutcome(labels.get(data.answer, "open"), data.result)
    if isinstance(data, ev.StepCompleted):
        return StepOutcome("completed", data.result)
    if isinstance(data, ev.ContextCompacted | ev.ContextRestored):
        return StepOutcome("completed", data.summary)
    if isinstance(data, ev.StepReceipt):
        return StepOutcome("completed")
    if isinstance(data, ev.ApprovalGiven):
        return StepOutcome(data.decision, data.answer)
    if isinstance(data, ev.WaitEnded):
        return StepOutcome(data.outcome, data.data)
    return StepOutcome()


class HistoryPlace(TypedDict):
    """An event of a run."""

    run: str
    seq: int


class SharedHistory(TypedDict):
    """The history that two runs have by reference."""

    events: int
    upto: HistoryPlace | None


class Divergence(TypedDict):
    """The first thing in which two runs differ; `key` is None for what is no step."""

    key: str | None
    kind: str
    what: str
    section: str | None
    a: str | None
    b: str | None
    at_a: HistoryPlace | None
    at_b: HistoryPlace | None


class RunTotals(TypedDict):
    """The end of a run, and what it took."""

    status: str
    reason: str
    steps: int
    usage: TokenUse
    cost_microusd: int


class RunComparison(TypedDict):
    """Two runs side by side; see `TenantKernel.diff`."""

    run_a: str
    run_b: str
    shared: SharedHistory
    equal_steps: int
    first_divergence: Divergence | None
    a: RunTotals
    b: RunTotals


SHOWN_CHARS = 300
"""Of each side of a difference."""


async def compare(services: Services, tenant: str, run_a: str, run_b: str) -> RunComparison:
    """`{run_a, run_b, shared, equal_steps, first_divergence, a, b}`; see `TenantKernel.diff`.

    Errors: `NotFound`.
    """
    a = await _RunSide.open(services, tenant, run_a)
    b = await _RunSide.open(services, tenant, run_b)
    shared = _share(a, b)
    pair = _Pair(a, b)
    found = await pair.first_divergence()
    return {
        "run_a": run_a,
        "run_b": run_b,
        "shared": shared,
        "equal_steps": pair.equal,
        "first_divergence": found,
        "a": a.totals(),
        "b": b.totals(),
    }


@dataclass(slots=True)
class _Stretch:
    """Events of one place after `after`."""

    place: Place
    after: int


class _RunSide:
    """One of the two runs."""

    def __init__(self, services: Services, row: RunRow, places: list[Place], renderer: Renderer) -> None:
        self.services = services
        self.row = row
        self.places = places
        self.renderer = renderer
        self.own = [_Stretch(place, 0) for place in reversed(places)]
        """What is not shared with the other run, oldest first."""

    @classmethod
    async def open(cls, services: Services, tenant: str, run_id: str) -> _RunSide:
        row = await run_row(services.store, tenant, run_id)
        places = await lineage(services, tenant, run_id)
        head, _ = await services.store.head(places[0].stream)
        own = Place(run_id=run_id, stream_id=places[0].stream_id, stream=places[0].stream, upto=head)
        renderer = await Renderer.open(services, tenant, run_id, forgiving=True)
        return cls(services, row, [own, *places[1:]], renderer)

    def totals(self) -> RunTotals:
        shown = run_object(self.row)
        return {
            "status": shown["status"],
            "reason": shown["reason"],
            "steps": shown["steps"],
            "usage": shown["usage"],
            "cost_microusd": shown["cost_microusd"],
        }

    async def steps(self) -> AsyncIterator[StepFacts]:
        """The steps that are not shared, in order: asked for since, or before and settled since."""
        for stretch in self.own:
            after, upto = stretch.after, stretch.place.upto
            before: set[str] = set()
            while after < upto:
                page = await self.services.store.read(
                    stretch.place.stream, after=after, limit=min(PAGE, upto - after)
                )
                seen: set[str] = set()
                for stored in page:
                    key = key_of_step(stored.decode())
                    if key is None or key in seen or key in before:
                        continue
                    seen.add(key)
                    facts = await self.facts(key)
                    if facts is not None and facts.begins_at(stored, since=stretch.after):
                        yield facts
                before = seen
                after = page[-1].seq if page else upto
                await asyncio.sleep(0)

    async def facts(self, key: str) -> StepFacts | None:
        """Return what the run knows of a step; None if it never asked for it."""
        for place in self.places:
            step = await find_step(self.services.store, place.stream_id, key, upto=place.upto)
            if step is not None:
                done = None if step.status == "open" else step.completed
                return await self._facts(place, key, step.kind, step.requested, done)
            if place is not self.places[0] and (earlier := await self._earlier(place, key)):
                return await self._facts(place, key, *earlier)
        return None

    async def _earlier(self, place: Place, key: str) -> tuple[str, int, int | None] | None:
        """Kind, request and outcome of a step that an origin has asked for again after the fork."""
        found = await earlier_events(self.services, place, key, kinds=keyed_kinds())
        if not found:
            return None
        requests = [(seq, kind) for seq, kind in found if kind.endswith((".requested", ".started"))]
        seq, kind = (requests or found)[-1]
        noun = kind.partition(".")[0]
        return "compute" if noun == "step" else noun, seq, found[-1][0]

    async def _facts(
        self, place: Place, key: str, kind: str, requested: int, completed: int | None
    ) -> StepFacts:
        done = completed if completed is not None and completed <= place.upto else None
        wanted = [requested - 1, requested, done or requested]
        rows = await events_at(self.services.store, place.stream_id, wanted)
        found = {seq: row.decode() for seq, row in rows.items()}
        context = found.get(requested - 1)
        outcome = found.get(done) if done is not None else None
        return StepFacts(
            key=key,
            kind=kind,
            seq=requested,
            run_id=place.run_id,
            request=found[requested],
            context=context if isinstance(context, ev.ContextAssembled) else None,
            outcome=outcome_of(outcome),
        )

    async def parts(self, context: ev.ContextAssembled) -> list[Shape]:
        """Return what each part of a prompt adds to it."""
        head = await self.renderer.head(context)
        return [
            Shape.of(part.tag, await self.renderer.content(part), joined=part.joined)
            for part in (*head.parts, *context.parts)
        ]

    async def content(self, ref: str | None) -> bytes:
        if ref is None:
            return b"null"
        try:
            return await stored_blob(self.services.store, self.row.tenant, ref)
        except Erased as error:
            return error.mark.encode()  # what can no longer be read is not compared


def _share(a: _RunSide, b: _RunSide) -> SharedHistory:
    """Cut what both have by reference off both; says how many events that are and where they end."""
    count = 0
    last: HistoryPlace | None = None
    while a.own and b.own and a.own[0].place.run_id == b.own[0].place.run_id:
        left, right = a.own[0], b.own[0]
        upto = min(left.place.upto, right.place.upto)
        count += upto
        last = {"run": left.place.run_id, "seq": upto}
        for side, stretch in ((a, left), (b, right)):
            stretch.after = upto
            if stretch.place.upto == upto:
                side.own.pop(0)
        if left.place.upto != right.place.upto:
            break
    return {"events": count, "upto": last}


class _Pair:
    """Walks both runs until they part."""

    def __init__(self, a: _RunSide, b: _RunSide) -> None:
        self._a = a
        self._b = b
        self.equal = 0

    async def first_divergence(self) -> Divergence | None:
        async for facts in self._a.steps():
            found = await self._step(facts.key, facts, await self._b.facts(facts.key))
            if found is not None:
                return found
            self.equal += 1
        async for facts in self._b.steps():
            if await self._a.facts(facts.key) is None:
                return await self._step(facts.key, None, facts)
        return await self._ends()

    async def _step(self, key: str, a: StepFacts | None, b: StepFacts | None) -> Divergence | None:
        if a is None or b is None:
            return _divergence(key, a, b, "missing", _side(a), _side(b))
        for what, left, right in (
            ("kind", a.kind, b.kind),
            ("model", a.model, b.model),
            ("tool", a.tool, b.tool),
        ):
            if left != right:
                return _divergence(key, a, b, what, left, right)
        if (found := await self._request(key, a, b)) is not None:
            return found
        if not await self._same(a.arguments, b.arguments):
            return await self._contents(key, a, b, "arguments", a.arguments, b.arguments)
        if a.outcome.label != b.outcome.label or a.outcome.code != b.outcome.code:
            return _divergence(key, a, b, "outcome", str(a.outcome), str(b.outcome))
        if not await self._same(a.outcome.ref, b.outcome.ref):
            what = "reply" if a.kind == "model" else "result"
            return await self._contents(key, a, b, what, a.outcome.ref, b.outcome.ref)
        return None

    async def _request(self, key: str, a: StepFacts, b: StepFacts) -> Divergence | None:
        """Return where two prompts differ. Their hashes may differ for the key alone, after an import."""
        if a.context is None or b.context is None or a.context.request == b.context.request:
            return None
        left = await self._a.renderer.render_event(a.context)
        right = await self._b.renderer.render_event(b.context)
        found = difference(left, right, await self._a.parts(a.context))
        if found is None:
            return None
        section, old, new = found
        return {**_divergence(key, a, b, "request", old, new), "section": section}

    async def _same(self, left: str | None, right: str | None) -> bool:
        if left == right:
            return True
        return await self._a.content(left) == await self._b.content(right)

    async def _contents(
        self, key: str, a: StepFacts, b: StepFacts, what: str, left: str | None, right: str | None
    ) -> Divergence:
        old, new = await self._a.content(left), await self._b.content(right)
        return _divergence(key, a, b, what, old.decode(), new.decode())

    async def _ends(self) -> Divergence | None:
        """All steps are equal: whether the runs ended alike."""
        left, right = self._a.row, self._b.row
        for what, one, other in (
            ("status", left.status, right.status),
            ("reason", left.reason, right.reason),
        ):
            if one != other:
                return _divergence(None, None, None, what, one, other)
        if not await self._same(left.result, right.result):
            old, new = await self._a.content(left.result), await self._b.content(right.result)
            return _divergence(None, None, None, "result", old.decode(), new.decode())
        return None


def _side(facts: StepFacts | None) -> str | None:
    return None if facts is None else f"{facts.kind} step, {facts.outcome}"


def _divergence(
    key: str | None, a: StepFacts | None, b: StepFacts | None, what: str, left: str | None, right: str | None
) -> Divergence:
    facts = a or b

    def short(value: str | None) -> str | None:
        return value and value[:SHOWN_CHARS]

    def place(one: StepFacts | None) -> HistoryPlace | None:
        return None if one is None else {"run": one.run_id, "seq": one.seq}

    return {
        "key": key,
        "kind": facts.kind if facts is not None else "run",
        "what": what,
        "section": None,
        "a": short(left),
        "b": short(right),
        "at_a": place(a),
        "at_b": place(b),
    }
