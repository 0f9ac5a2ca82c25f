"""Read-only questions about runs, answered from views: lists, steps, trees, costs, waiting people."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from typing import Any, cast

import msgspec

from artelier.errors import Erased, InvalidRequest, NotFound
from artelier.kernel.events import BILLING, ToolRefused, ToolRequested, ToolUnresolved
from artelier.kernel.history.fork_effects import effects_of
from artelier.kernel.history.fork_lineage import key_owner_of
from artelier.kernel.run.context import RUN_COLUMNS, run_row
from artelier.kernel.run.services import Services
from artelier.kernel.run.tree import asked_below, root_of, totals
from artelier.log import PRESENT_US, WAITS, decode_stored, stored_blob
from artelier.log.contract import stored_name
from artelier.money import format_usd

PAGE_MAX = 1000


def run_object(row: dict[str, Any]) -> dict[str, Any]:
    """A run as the API and `--json` show it."""
    return {
        "id": row["run"],
        "tenant": row["tenant"],
        "status": row["status"],
        "reason": row["reason"],
        "loop": row["loop"],
        "agent": row["agent"],
        "model": row["model"],
        "parent": row["parent"],
        "origin": row["origin"],
        "origin_seq": row["origin_seq"],
        "steps": row["steps"],
        "usage": {
            "input_tokens": row["input_tokens"],
            "cached_input_tokens": row["cached_input_tokens"],
            "output_tokens": row["output_tokens"],
        },
        "cost_microusd": row["cost"],
        "started_us": row["started_us"],
        "ended_us": row["ended_us"],
    }


async def show_run(services: Services, tenant: str, run_id: str) -> dict[str, Any]:
    """One run with its goal, result, what it waits for, and the totals of `totals`.

    `approvals` are its own questions, `waits_for` the `{run_id, step, ...}` of its descendants; `root` is the
    run to resume. Errors: `NotFound`.
    """
    row = await run_row(services, tenant, run_id)
    shown = run_object(row) | (await totals(services, tenant, [run_id]))[run_id]
    for name in ("goal", "result", "message"):
        shown[name] = await shown_json(services, tenant, row[name])
    fork = await effects_of(services, tenant, run_id) if row["origin"] is not None else None
    shown["effects"] = None if fork is None else fork.mode
    shown["root"] = await root_of(services, tenant, run_id)
    shown["approvals"] = await approvals(services, tenant, run_id=run_id)
    children = dict.fromkeys(run for run, _ in await asked_below(services, tenant, run_id))
    shown["waits_for"] = [
        asked for child in children for asked in await approvals(services, tenant, run_id=child)
    ]
    shown["rate_wait"] = await rate_wait(services, tenant, run_id)
    shown["unknown_calls"] = await unknown_calls(services, tenant, run_id, row["id"])
    shown["unknown_outcomes"] = [call["step"] for call in shown["unknown_calls"]]
    return shown


async def rate_wait(services: Services, tenant: str, run_id: str) -> dict[str, Any] | None:
    """Return for which rate a call of the run waits, in whatever process, and until when at least."""
    rows = await services.store.query(
        f"{WAITS} ORDER BY at_us DESC LIMIT 1",
        (f"run:{tenant}/{run_id}", services.clock.now_us() - PRESENT_US),
    )
    if not rows:
        return None
    return {"rate": rows[0][0].partition("\n")[2], "until_us": rows[0][1]}


async def unknown_calls(services: Services, tenant: str, run_id: str, run: int) -> list[dict[str, Any]]:
    """Return what a person needs to settle each unknown outcome of a run: which call it was, and what was
    tried.

    Each has step, tool, arguments, idempotency_key, requested_us, unresolved_us, code and probe_error.
    """
    rows = await services.store.query(
        "SELECT s.key, q.at_us, q.data, u.at_us, u.data FROM steps s"
        " JOIN events q ON q.stream = s.run AND q.seq = s.requested"
        " JOIN events u ON u.stream = s.run AND u.seq = s.completed"
        " WHERE s.run = ? AND s.status = 'unknown' ORDER BY s.key",
        (run,),
    )
    calls: list[dict[str, Any]] = []
    for key, requested_us, requested, unresolved_us, unresolved in rows:
        request = decode_stored(requested, type=ToolRequested)
        said = decode_stored(unresolved, type=ToolUnresolved)
        owner = await key_owner_of(services, tenant, run_id, key, request)
        calls.append(
            {
                "step": key,
                "tool": request.name,
                "arguments": await shown_json(services, tenant, request.arguments),
                "idempotency_key": f"{tenant}/{owner}:{key}",
                "requested_us": requested_us,
                "unresolved_us": unresolved_us,
                "code": said.code,
                "probe_error": await shown_json(services, tenant, said.probe_error),
            }
        )
    return calls


async def blob_json(services: Services, tenant: str, ref: str | None) -> Any:
    if ref is None:
        return None
    return decode_stored(await stored_blob(services.store, tenant, ref))


async def content(services: Services, tenant: str, ref: str) -> Any:
    """Return stored content by its reference: JSON as data, else text or bytes. Errors: see
    `TenantKernel.content`."""
    if not isinstance(cast(object, ref), str) or not _BLOB.fullmatch(ref):
        raise InvalidRequest(
            "this names no stored content",
            expected="a reference of an event, b: and 43 characters",
            got=repr(ref)[:80],
            hint="An artifact is read with `as_principal(...).artifacts.read(ref)`.",
        )
    found = await services.store.blob(tenant, stored_name(ref))
    try:
        return msgspec.json.decode(found)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        pass
    try:
        return found.decode()
    except UnicodeDecodeError:
        return found


_BLOB = re.compile(r"b:[A-Za-z0-9_-]{43}")


async def shown_json(services: Services, tenant: str, ref: str | None) -> Any:
    """Stored JSON to look at: `[erased]` where it was erased, `[locked]` without the vault key."""
    try:
        return await blob_json(services, tenant, ref)
    except Erased as error:
        return error.mark


async def shown_fields(services: Services, tenant: str, ref: str | None) -> dict[str, Any]:
    """A stored JSON object to look at; empty where there is none, or it was erased."""
    found: Any = await shown_json(services, tenant, ref)
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


async def _question(services: Services, tenant: str, ref: str | None) -> dict[str, Any]:
    found: Any = await shown_json(services, tenant, ref)
    if isinstance(found, dict):
        return cast("dict[str, Any]", found)
    return {"question": found if isinstance(found, str) else Erased.mark}


async def list_runs(
    services: Services, tenant: str, *, status: str | None = None, after: int = 0, limit: int = 100
) -> dict[str, Any]:
    """`{items, next}`: runs in the order they were started, newest last. `next` continues the list.

    Each run has its own cost, and `total_cost_microusd` with that of its descendants.
    """
    limit = max(1, min(limit, PAGE_MAX))
    where, parameters = "tenant = ? AND id > ?", [tenant, after]
    if status is not None:
        where, parameters = f"{where} AND status = ?", [*parameters, status]
    rows = await services.store.query(
        f"SELECT {', '.join(RUN_COLUMNS)} FROM runs WHERE {where} ORDER BY id LIMIT ?",
        (*parameters, limit + 1),
    )
    items = [dict[str, Any](zip(RUN_COLUMNS, row, strict=True)) for row in rows]
    more = len(items) > limit
    page = [run_object(row) for row in items[:limit]]
    sums = await totals(services, tenant, [run["id"] for run in page])
    for run in page:
        run["total_cost_microusd"] = sums[run["id"]]["total_cost_microusd"]
    return {"items": page, "next": items[limit - 1]["id"] if more else None}


async def steps(services: Services, tenant: str, run_id: str) -> list[dict[str, Any]]:
    """The run's own steps in the order they were asked for: key, kind, status, seqs, error.

    An undoing whose tool failed is `failed`, with the `error` in words: what it was to undo still stands. The
    error of another call is a result, which the run's code has had.
    """
    row = await run_row(services, tenant, run_id)
    rows = await services.store.query(
        "SELECT key, kind, status, requested, completed FROM steps WHERE run = ? ORDER BY requested, key",
        (row["id"],),
    )
    names = ("key", "kind", "status", "requested_seq", "completed_seq")
    found: list[dict[str, Any]] = [{**dict(zip(names, step, strict=True)), "error": None} for step in rows]
    errors = await _errors_of_undoings(services, tenant, row["id"])
    for step in found:
        if (error := errors.get(step["key"])) is not None:
            step |= {"status": "failed", "error": error}
    return found


async def _errors_of_undoings(services: Services, tenant: str, run: int) -> dict[str, str]:
    """Return what failed undoings have said, by key."""
    rows = await services.store.query(
        "SELECT s.key, e.kind, e.data FROM steps s JOIN events e ON e.stream = s.run"
        " AND e.seq = s.completed WHERE s.run = ? AND s.kind = 'undo' AND s.status = 'completed'",
        (run,),
    )
    found: dict[str, str] = {}
    for key, kind, data in rows:
        fields = decode_stored(data, type=dict[str, Any])
        is_error = kind == ToolRefused.KIND or fields.get("is_error") or fields.get("answer") == "failed"
        if is_error:
            told = (await shown_fields(services, tenant, fields.get("result"))).get("error")
            error = cast("dict[str, Any]", told) if isinstance(told, dict) else {}
            found[key] = str(error.get("message") or error.get("code") or "failed")[:1_000]
    return found


async def tree(services: Services, tenant: str, run_id: str) -> dict[str, Any]:
    """The run with its children, each with its own and its total cost."""
    row = await run_row(services, tenant, run_id)
    rows = await services.store.query(
        "SELECT run FROM runs WHERE tenant = ? AND parent = ? ORDER BY id", (tenant, run_id)
    )
    children = [await tree(services, tenant, child) for (child,) in rows]
    return {
        **run_object(row),
        "total_cost_microusd": row["cost"] + sum(c["total_cost_microusd"] for c in children),
        "children": children,
    }


async def cost(services: Services, tenant: str, run_id: str) -> dict[str, Any]:
    """Return what a run cost: its own, held, and per model step; and with its descendants: see `totals`."""
    row = await run_row(services, tenant, run_id)
    rows = await services.store.query(
        "SELECT s.key, e.data FROM steps s JOIN events e ON e.stream = s.run AND e.seq = s.completed"
        " WHERE s.run = ? AND s.kind = 'model' ORDER BY s.completed",
        (row["id"],),
    )
    billed = Counter[str]()
    for (data,) in await services.store.query(
        f"SELECT data FROM events WHERE stream = ? AND kind IN ({', '.join('?' * len(BILLING))})",
        (row["id"], *BILLING),
    ):
        bill = decode_stored(data, type=dict[str, Any])
        billed[bill["key"]] += bill.get("cost", 0)
    items: list[dict[str, Any]] = []
    for key, data in rows:
        fields = decode_stored(data, type=dict[str, Any])
        items.append(
            {
                "key": key,
                "input_tokens": fields.get("input_tokens", 0),
                "cached_input_tokens": fields.get("cached_input_tokens", 0),
                "output_tokens": fields.get("output_tokens", 0),
                "cost_microusd": billed[key],  # all its attempts together
                "estimated": fields.get("estimated", False),
                "suspicious": fields.get("suspicious", False),
                "price_known": not fields.get("unpriced", False),
            }
        )
    held = await services.store.query(
        "SELECT balance FROM accounts WHERE tenant = ? AND account = ? AND asset = 'usd'",
        (tenant, f"hold:{run_id}"),
    )
    sums = (await totals(services, tenant, [run_id]))[run_id]
    return {
        "run_id": run_id,
        **sums,
        "total_cost_usd": format_usd(sums["total_cost_microusd"]),
        "cost_microusd": row["cost"],
        "cost_usd": format_usd(row["cost"]),
        "held_microusd": held[0][0] if held else 0,
        "usage": run_object(row)["usage"],
        "steps": items,
    }


async def approvals(services: Services, tenant: str, *, run_id: str | None = None) -> list[dict[str, Any]]:
    """Open questions to people: run, step, question, details."""
    where, parameters = (
        (
            "r.tenant = ? AND a.decision IS NULL AND (r.status NOT IN ('completed', 'failed', 'cancelled')"
            " OR a.key LIKE '%/undo%')"  # what an ended run has done may be undone with a person's yes
        ),
        [tenant],
    )
    if run_id is not None:
        where, parameters = f"{where} AND r.run = ?", [tenant, run_id]
    rows = await services.store.query(
        "SELECT r.run, a.key, a.question, a.expires_us FROM approvals a JOIN runs r ON r.id = a.run"
        f" WHERE {where} ORDER BY r.id, a.key",
        parameters,
    )
    return [
        {"run_id": run, "step": key, **await _question(services, tenant, question), "expires_us": expires_us}
        for run, key, question, expires_us in rows
    ]


async def only_approval(services: Services, tenant: str, run_id: str) -> str:
    """The step of the one approval that a run waits for.

    Errors: `NotFound` if there is none, which names the children that wait; `InvalidRequest` for several.
    """
    found = await approvals(services, tenant, run_id=run_id)
    if not found:
        await run_row(services, tenant, run_id)
        below = await asked_below(services, tenant, run_id)
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
