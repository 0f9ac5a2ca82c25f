"""Reports, answered from views: runs with their steps, trees and costs, waiting people, and a tenant's books.

Nothing here moves money. Every answer is bounded. Accounts, sums and limits are in `ledger/queries.py`.
"""

from __future__ import annotations

import asyncio
import shlex
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypedDict, cast

from artelier.errors import Erased, InvalidRequest, NotFound
from artelier.kernel import events as ev
from artelier.kernel.events import BILLING, ToolRequested, ToolUnresolved
from artelier.kernel.history.fork_effects import effects_of
from artelier.kernel.history.fork_lineage import key_owner_of, lineage
from artelier.kernel.queries.content import shown_fields, shown_json
from artelier.kernel.queries.runs import (
    RunRow,
    TreeTotal,
    asked_below,
    children_of,
    root_of,
    run_row,
    runs_started,
    totals,
)
from artelier.kernel.queries.steps import (
    find_outcome,
    has_failed_to_undo,
    open_approvals,
    run_steps,
    step_records,
    unsettled_calls,
)
from artelier.kernel.run.services import Services
from artelier.kernel.run.status import FINAL
from artelier.ledger.queries import PAGE_MAX, account_balance
from artelier.log import Store, run_stream
from artelier.log.queries import is_leased, rate_wait, stream_events
from artelier.money import format_usd

EVENTS_AT_ONCE = 1_000
"""Of a long run that are read before others have a turn."""

# --------------------------------------------------------------------------- reports
# Reports on runs, answered from views: lists, steps, trees, costs, waiting people, compactions.


class TokenUse(TypedDict):
    """The tokens of a run."""

    input_tokens: int
    cached_input_tokens: int
    output_tokens: int


class RunReport(TypedDict):
    """A run as the API and `--json` show it. Reports are dictionaries, because callers index them."""

    id: str
    tenant: str
    status: str
    reason: str
    loop: str
    agent: str
    model: str
    parent: str | None
    origin: str | None
    origin_seq: int | None
    steps: int
    usage: TokenUse
    cost_microusd: int
    started_us: int
    ended_us: int | None
    status_us: int
    """When it came to its status."""


class ListedRun(RunReport):
    """A run in a list, with the cost of its descendants."""

    total_cost_microusd: int


class RunList(TypedDict):
    """A page of runs."""

    items: list[ListedRun]
    next: int | None
    """The `after` of the next page; None for the last."""


class RunFamily(RunReport):
    """A run with its children."""

    total_cost_microusd: int
    children: list[RunFamily]


class UnsettledCall(TypedDict):
    """A call whose outcome is unknown, as a person needs to know it."""

    step: str
    tool: str
    arguments: Any
    """JSON data."""
    idempotency_key: str
    requested_us: int
    """When it was asked for."""
    unresolved_us: int
    """When its outcome was found to be unknown."""
    code: str
    """The cause: crash, deadline, cancelled, run_ended (it was at work then), or an error's code."""
    probe_error: Any
    """The probe's error, if it gave one."""


class StepReport(TypedDict):
    """A step of a run."""

    key: str
    kind: str
    status: str
    requested_seq: int
    completed_seq: int | None
    error: str | None


class StepCost(TypedDict):
    """The use and the cost of one model step, all its attempts together."""

    key: str
    input_tokens: int
    cached_input_tokens: int
    output_tokens: int
    cost_microusd: int
    """Of all its attempts."""
    price_known: bool
    estimated: bool
    """True if tokens or cost of one of its attempts are an estimate, since the provider did not say what was
    used.
    """
    suspicious: bool
    """True if the provider claims more than ten times the tokens that the request allows."""


class FamilyTotal(TypedDict):
    """The use and the cost of a run with all its descendants."""

    total_cost_microusd: int
    total_usage: TokenUse
    runs: int


class QuestionContent(TypedDict):
    """The stored text of a question to people."""

    question: str
    details: Any
    """JSON data."""


class OpenQuestion(QuestionContent):
    """A question that a run asks people, and waits for."""

    run_id: str
    step: str
    expires_us: int | None


class RateDelay(TypedDict):
    """The wait of a call until a provider may be asked again."""

    rate: str
    until_us: int


class RunDetail(RunReport, FamilyTotal):
    """A run with its goal, its result and everything that it waits for."""

    goal: Any
    """JSON data, as are `result` and `message`."""
    result: Any
    message: Any
    effects: str | None
    """Of a fork: `recorded`, `stub` or `live`."""
    changes: Any
    """Of a fork: JSON data, as `fork` took it; None for nothing."""
    root: str
    """The run at the top of its tree: the one to resume."""
    approvals: list[OpenQuestion]
    """Its own questions."""
    waits_for: list[OpenQuestion]
    """Those of its descendants."""
    rate_wait: RateDelay | None
    unknown_outcomes: list[str]
    """The steps of those."""
    unknown_calls: list[UnsettledCall]


class RunCost(FamilyTotal):
    """The cost of a run: its own, what is held for calls in flight, and that of each model step."""

    run_id: str
    total_cost_usd: str
    cost_microusd: int
    cost_usd: str
    held_microusd: int
    usage: TokenUse
    steps: list[StepCost]


def run_object(row: RunRow) -> RunReport:
    """A run as the API and `--json` show it."""
    return {
        "id": row.run,
        "tenant": row.tenant,
        "status": row.status,
        "reason": row.reason,
        "loop": row.loop,
        "agent": row.agent,
        "model": row.model,
        "parent": row.parent,
        "origin": row.origin,
        "origin_seq": row.origin_seq,
        "steps": row.steps,
        "usage": {
            "input_tokens": row.input_tokens,
            "cached_input_tokens": row.cached_input_tokens,
            "output_tokens": row.output_tokens,
        },
        "cost_microusd": row.cost,
        "started_us": row.started_us,
        "ended_us": row.ended_us,
        "status_us": row.status_us,
    }


def family_total(total: TreeTotal) -> FamilyTotal:
    """Return the use and the cost of a run with its descendants."""
    used = total.total_usage
    return {
        "total_cost_microusd": total.total_cost_microusd,
        "total_usage": {
            "input_tokens": used.input_tokens,
            "cached_input_tokens": used.cached_input_tokens,
            "output_tokens": used.output_tokens,
        },
        "runs": total.runs,
    }


async def show_run(services: Services, tenant: str, run_id: str) -> RunDetail:
    """Return one run with its goal, its result and what it waits for. Errors: `NotFound`."""
    row = await run_row(services.store, tenant, run_id)
    total = (await totals(services.store, tenant, [run_id]))[run_id]
    goal, result, message = [
        await shown_json(services, tenant, ref) for ref in (row.goal, row.result, row.message)
    ]
    fork = await effects_of(services, tenant, run_id) if row.origin is not None else None
    children = dict.fromkeys(run for run, _ in await asked_below(services.store, tenant, run_id))
    wait = await rate_wait(services.store, tenant, run_id, now_us=services.clock.now_us())
    unknown = await unknown_calls(services, row)
    return {
        **run_object(row),
        **family_total(total),
        "goal": goal,
        "result": result,
        "message": message,
        "effects": None if fork is None else fork.mode,
        "changes": None if fork is None else await _changes(services, tenant, run_id),
        "root": await root_of(services.store, tenant, run_id),
        "approvals": await approvals(services, tenant, run_id=run_id),
        "waits_for": [
            asked for child in children for asked in await approvals(services, tenant, run_id=child)
        ],
        "rate_wait": None if wait is None else {"rate": wait.window, "until_us": wait.until_us},
        "unknown_calls": unknown,
        "unknown_outcomes": [call["step"] for call in unknown],
    }


async def _changes(services: Services, tenant: str, run_id: str) -> object:
    """Return what a fork changes of its origin, as `fork` took it; None for nothing."""
    first = (await services.store.read(run_stream(tenant, run_id), limit=1))[0].decode()
    return await shown_json(services, tenant, first.changes) if isinstance(first, ev.RunForked) else None


async def unknown_calls(services: Services, row: RunRow) -> list[UnsettledCall]:
    """Return what a person needs to settle each unknown outcome of a run: which call it was, and what was
    tried.

    Each has step, tool, arguments, idempotency_key, requested_us, unresolved_us, code and probe_error. Those
    at work when the run ended have the code `run_ended`.
    """
    tenant, run_id = row.tenant, row.run
    has_ended = row.status in FINAL and not await is_leased(services.store, run_stream(tenant, run_id))
    calls: list[UnsettledCall] = []
    for step, asked, outcome in await unsettled_calls(services.store, row.id, has_ended=has_ended):
        request = asked.read(ToolRequested)
        said = ToolUnresolved(key=step.key, code="run_ended")
        if outcome is not None:
            said = outcome.read(ToolUnresolved)
        owner = await key_owner_of(services, tenant, run_id, step.key, request)
        calls.append(
            {
                "step": step.key,
                "tool": request.name,
                "arguments": await shown_json(services, tenant, request.arguments),
                "idempotency_key": f"{tenant}/{owner}:{step.key}",
                "requested_us": asked.at_us,
                "unresolved_us": (row.ended_us or asked.at_us) if outcome is None else outcome.at_us,
                "code": said.code,
                "probe_error": await shown_json(services, tenant, said.probe_error),
            }
        )
    return sorted(calls, key=lambda call: call["step"])


async def _question(services: Services, tenant: str, ref: str | None) -> QuestionContent:
    found: Any = await shown_json(services, tenant, ref)
    if isinstance(found, dict):
        return cast(QuestionContent, found)
    return {"question": found if isinstance(found, str) else Erased.mark, "details": None}


async def list_runs(
    services: Services, tenant: str, *, status: str | None = None, after: int = 0, limit: int = 100
) -> RunList:
    """`{items, next}`: runs in the order they were started, newest last. `next` continues the list.

    Each run has its own cost, and `total_cost_microusd` with that of its descendants.
    """
    limit = max(1, min(limit, PAGE_MAX))
    rows = await runs_started(services.store, tenant, status=status, after=after, limit=limit + 1)
    more, rows = len(rows) > limit, rows[:limit]
    sums = await totals(services.store, tenant, [row.run for row in rows])
    page: list[ListedRun] = [
        {**run_object(row), "total_cost_microusd": sums[row.run].total_cost_microusd} for row in rows
    ]
    return {"items": page, "next": rows[-1].id if more else None}


async def steps(
    services: Services,
    tenant: str,
    run_id: str,
    *,
    after: int = 0,
    before: int | None = None,
    limit: int | None = None,
    last: bool = False,
) -> list[StepReport]:
    """Return the run's own steps in the order they were asked for: key, kind, status, seqs, error.

    Those asked for after the event `after` and before `before`; with `limit`, that many of the first, or of
    the `last`. An undoing whose tool failed is `failed`, with the `error` in words: what it was to undo still
    stands. The error of another call is a result, which the run's code has had.
    """
    row = await run_row(services.store, tenant, run_id)
    rows = await run_steps(services.store, row.id, after=after, before=before, limit=limit, last=last)
    found: list[StepReport] = [
        {
            "key": step.key,
            "kind": step.kind,
            "status": step.status,
            "requested_seq": step.requested,
            "completed_seq": step.completed,
            "error": None,
        }
        for step in rows
    ]
    is_undone = any(step["kind"] == "undo" for step in found)
    errors = await _errors_of_undoings(services, tenant, row.id) if is_undone else {}
    for step in found:
        if (error := errors.get(step["key"])) is not None:
            step["status"], step["error"] = "failed", error
    return found


async def _errors_of_undoings(services: Services, tenant: str, run: int) -> dict[str, str]:
    """Return what failed undoings have said, by key."""
    found: dict[str, str] = {}
    for step, _, outcome in await step_records(services.store, run, "undo", status="completed"):
        if outcome is None:
            continue
        if has_failed_to_undo(outcome):
            result = outcome.read(dict[str, Any]).get("result")
            told = (await shown_fields(services, tenant, result)).get("error")
            error = cast("dict[str, Any]", told) if isinstance(told, dict) else {}
            found[step.key] = str(error.get("message") or error.get("code") or "failed")[:1_000]
    return found


async def tree(services: Services, tenant: str, run_id: str) -> RunFamily:
    """The run with its children, each with its own and its total cost."""
    row = await run_row(services.store, tenant, run_id)
    children = [
        await tree(services, tenant, child.run) for child in await children_of(services.store, tenant, run_id)
    ]
    return {
        **run_object(row),
        "total_cost_microusd": row.cost + sum(c["total_cost_microusd"] for c in children),
        "children": children,
    }


async def cost(services: Services, tenant: str, run_id: str, *, limit: int | None = None) -> RunCost:
    """Return what a run cost: its own, held, and per model step; and with its descendants: see `totals`.

    With `limit`, `steps` has the newest of them alone.
    """
    row = await run_row(services.store, tenant, run_id)
    held = await account_balance(services.store, tenant, f"hold:{run_id}")
    sums = family_total((await totals(services.store, tenant, [run_id]))[run_id])
    return {
        "run_id": run_id,
        **sums,
        "total_cost_usd": format_usd(sums["total_cost_microusd"]),
        "cost_microusd": row.cost,
        "cost_usd": format_usd(row.cost),
        "held_microusd": held or 0,
        "usage": run_object(row)["usage"],
        "steps": await _step_costs(services.store, row.id, limit=limit),
    }


async def _step_costs(store: Store, run: int, *, limit: int | None) -> list[StepCost]:
    billed = await _billed(store, run)
    newest = await run_steps(store, run, kind="model", limit=limit, last=limit is not None)
    records = await step_records(store, run, "model", after=newest[0].requested - 1) if newest else []
    done = [(step.key, outcome) for step, _, outcome in records if outcome is not None]
    items: list[StepCost] = []
    for key, outcome in sorted(done, key=lambda one: one[1].seq):
        fields = outcome.read(dict[str, Any])
        items.append(
            {
                "key": key,
                "input_tokens": fields.get("input_tokens", 0),
                "cached_input_tokens": fields.get("cached_input_tokens", 0),
                "output_tokens": fields.get("output_tokens", 0),
                "cost_microusd": billed[key].cost,
                "estimated": billed[key].is_estimated,
                "suspicious": billed[key].is_suspicious,
                "price_known": not fields.get("unpriced", False),
            }
        )
    return items


@dataclass
class _StepBill:
    """All the attempts of one model step together, also those that were cut off or lost with a process."""

    cost: int = 0
    """Micro-dollars."""
    is_estimated: bool = False
    is_suspicious: bool = False

    def add(self, event: Mapping[str, Any]) -> None:
        self.cost += event.get("cost", 0)
        self.is_estimated |= event.get("estimated", False)
        self.is_suspicious |= event.get("suspicious", False)


async def _billed(store: Store, run: int) -> Mapping[str, _StepBill]:
    """Return what each step was billed. A step that was asked for again has bills before its request."""
    billed = defaultdict[str, _StepBill](_StepBill)
    after: int | None = 0
    while after is not None:
        page = await stream_events(store, run, *BILLING, after=after, limit=EVENTS_AT_ONCE)
        for event in page:
            bill = event.read(dict[str, Any])
            billed[bill["key"]].add(bill)
        after = page[-1].seq if len(page) == EVENTS_AT_ONCE else None
        await asyncio.sleep(0)
    return billed


async def approvals(services: Services, tenant: str, *, run_id: str | None = None) -> list[OpenQuestion]:
    """Open questions to people: run, step, question, details."""
    return [
        {
            "run_id": asked.run,
            "step": asked.key,
            **await _question(services, tenant, asked.question),
            "expires_us": asked.expires_us,
        }
        for asked in await open_approvals(services.store, tenant, run_id=run_id)
    ]


async def only_approval(services: Services, tenant: str, run_id: str) -> str:
    """The step of the one approval that a run waits for.

    Errors: `NotFound` if there is none, which names the children that wait; `InvalidRequest` for several.
    """
    found = await approvals(services, tenant, run_id=run_id)
    if not found:
        await run_row(services.store, tenant, run_id)
        below = await asked_below(services.store, tenant, run_id)
        commands = [f"`artelier approve {shlex.join(asked)}`" for asked in below[:5]]
        raise NotFound(
            f"run {run_id!r} waits for no approval" + (" of its own" if below else ""),
            hint=f"A child of it does: {' or '.join(commands)}." if below else None,
        )
    if len(found) > 1:
        raise InvalidRequest(
            f"run {run_id!r} waits for several approvals",
            expected="one of their steps: " + ", ".join(item["step"] for item in found),
        )
    return found[0]["step"]


Receipt = ev.ContextCompacted | ev.ContextRestored

_KINDS: dict[str, type[ev.ContextCompacted] | type[ev.ContextRestored]] = {
    ev.ContextCompacted.KIND: ev.ContextCompacted,
    ev.ContextRestored.KIND: ev.ContextRestored,
}


async def receipts_of(services: Services, tenant: str, run_id: str) -> list[tuple[str, Receipt]]:
    """`(step key, event)` of every compaction and undo of a run, newest first. Errors: `NotFound`.

    Cost: O(events of the run): for people, and for an undo; no step waits for it.
    """
    found: list[tuple[str, Receipt]] = []
    for place in await lineage(services, tenant, run_id):
        rows = await stream_events(services.store, place.stream_id, *_KINDS, upto=place.upto)
        for row in reversed(rows):
            event = row.read(_KINDS[row.kind])
            found.append((event.key, event))
    return found


async def receipt_of(services: Services, tenant: str, run_id: str, key: str) -> Receipt:
    """The receipt of one step. Errors: `NotFound`."""
    for place in await lineage(services, tenant, run_id):
        outcome = await find_outcome(services.store, place.stream_id, key, upto=place.upto)
        if outcome is not None and outcome.kind in _KINDS:
            return outcome.read(_KINDS[outcome.kind])
    raise NotFound(f"no compaction {key!r} in run {run_id}")
