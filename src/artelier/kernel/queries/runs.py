"""Reads of runs: one run, lists, trees of parents and children, who drives them.

Other packages join runs to their own rows through the published views `run_status` and `run_steps`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from artelier.errors import Conflict, InvalidRequest, NotFound
from artelier.kernel.run.status import RunStatus, quote_statuses
from artelier.log import BlobRef, LeaseEnd, Store, Stream, Tx

PUBLISHED = (
    """CREATE TEMP VIEW IF NOT EXISTS run_status AS
        SELECT id AS stream_id, tenant, run, status, reason, loop, agent, model, parent, parent_step, origin,
            goal, settings, result, message, started_us, ended_us, input_tokens, cached_input_tokens,
            output_tokens, cost,
            EXISTS(SELECT 1 FROM imports i WHERE i.tenant = runs.tenant AND i.run = runs.run) AS is_imported
        FROM runs""",
    """CREATE TEMP VIEW IF NOT EXISTS run_steps AS
        SELECT run AS stream_id, key, kind, status, requested, completed FROM steps""",
    """CREATE TEMP VIEW IF NOT EXISTS run_waits AS
        SELECT run AS stream_id, key, until_us FROM waits""",
)
"""The kernel's published views: a row per run, per step of a run, and per thing that a run waits for."""

ENDED = quote_statuses(status for status in RunStatus if status.is_final)
"""Statuses of runs that have ended, for SQL."""

DEPTH_MAX = 64
MEMBERS_MAX = 100_000
"""Runs that one question looks at; more of them are not counted."""

ASKED_MAX = 100
"""Open questions of descendants that are returned."""


class RunRow(msgspec.Struct, frozen=True):
    """A run as the view has it."""

    id: int
    """Row of its stream."""
    tenant: str
    run: str
    status: str
    reason: str
    loop: str
    """Name of the built-in loop; empty for a run whose code is the caller's."""
    agent: str
    model: str
    parent: str | None
    parent_step: str | None
    origin: str | None
    origin_seq: int | None
    goal: BlobRef | None
    settings: BlobRef | None
    tools: BlobRef | None
    result: BlobRef | None
    message: BlobRef | None
    replay: str
    started_us: int
    ended_us: int | None
    steps: int
    input_tokens: int
    cached_input_tokens: int
    output_tokens: int
    cost: int
    control_seq: int
    stepping: int
    status_us: int
    """When it came to its status."""


SELECT_RUN = f"SELECT {', '.join(RunRow.__struct_fields__)} FROM runs"


async def find_run(store: Store, tenant: str, run_id: str) -> RunRow | None:
    """Return a run; None if there is none, also for another tenant's run."""
    rows = await store.query(f"{SELECT_RUN} WHERE tenant = ? AND run = ?", (tenant, run_id))
    return RunRow(*rows[0]) if rows else None


async def run_row(store: Store, tenant: str, run_id: str) -> RunRow:
    """Return a run. Errors: `NotFound`, also for another tenant's run."""
    found = await find_run(store, tenant, run_id)
    if found is None:
        raise NotFound(f"no run {run_id!r}", hint="`artelier runs list` shows the runs there are.")
    return found


async def runs_by_id(store: Store, tenant: str, run_ids: Sequence[str]) -> dict[str, RunRow]:
    """Return those of these runs that there are, by id."""
    rows = await store.query(
        f"{SELECT_RUN} WHERE tenant = ? AND run IN (SELECT value FROM json_each(?))",
        (tenant, json.dumps(list(run_ids))),
    )
    return {row[2]: RunRow(*row) for row in rows}


async def begun_runs(store: Store, tenant: str, run_ids: Sequence[str]) -> set[str]:
    """Return those of these runs that have begun, here or in the store that they came from."""
    rows = await store.query(
        "SELECT o.value FROM json_each(?) o"
        " WHERE EXISTS (SELECT 1 FROM runs r WHERE r.tenant = ? AND r.run = o.value)"
        " OR EXISTS (SELECT 1 FROM imports i WHERE i.tenant = ? AND i.run = o.value)",
        (json.dumps(list(run_ids)), tenant, tenant),
    )
    return {run for (run,) in rows}


async def runs_started(
    store: Store,
    tenant: str,
    *,
    status: str | None = None,
    loop: str | None = None,
    agent: str | None = None,
    after: int = 0,
    limit: int | None = None,
) -> list[RunRow]:
    """Return runs in the order they were started. `after` is the row that a page ended with."""
    where, parameters = "tenant = ? AND id > ?", [tenant, after]
    for name, value in (("status", status), ("loop", loop), ("agent", agent)):
        if value is not None:
            where, parameters = f"{where} AND {name} = ?", [*parameters, value]
    end = "" if limit is None else f" LIMIT {limit:d}"
    rows = await store.query(f"{SELECT_RUN} WHERE {where} ORDER BY id{end}", parameters)
    return [RunRow(*row) for row in rows]


async def children_of(store: Store, tenant: str, run_id: str, *, open_only: bool = False) -> list[RunRow]:
    """Return the children of a run by start; with `open_only`, those that have not ended."""
    more = f" AND status NOT IN {ENDED}" if open_only else ""
    rows = await store.query(
        f"{SELECT_RUN} WHERE tenant = ? AND parent = ?{more} ORDER BY id", (tenant, run_id)
    )
    return [RunRow(*row) for row in rows]


async def check_nothing_below(store: Store, tenant: str, run_id: str) -> None:
    """Check that an id is free for a new run: that no run names it as its parent. Errors: `Conflict`.

    What is below came with an import: its costs would count here, and to undo this run would undo it.
    """
    if await children_of(store, tenant, run_id):
        raise Conflict(
            f"run {run_id!r} cannot be new: there are runs below that id",
            hint="They were imported without it. Give the new run another id.",
        )


async def run_ids_like(store: Store, tenant: str, prefix: str, *, limit: int) -> list[str]:
    """Return ids of runs that begin with a prefix, the newest first."""
    rows = await store.query(
        "SELECT run FROM runs WHERE tenant = ? AND substr(run, 1, ?) = ? ORDER BY id DESC LIMIT ?",
        (tenant, len(prefix), prefix, limit),
    )
    return [run for (run,) in rows]


async def ids_between(store: Store, tenant: str, low: str, high: str) -> list[str]:
    """Return the runs with an id between two texts, by id."""
    rows = await store.query(
        "SELECT run FROM runs WHERE tenant = ? AND run > ? AND run < ? ORDER BY run", (tenant, low, high)
    )
    return [run for (run,) in rows]


async def count_between(store: Store, tenant: str, low: str, high: str) -> int:
    """Return how many runs have an id between two texts."""
    rows = await store.query(
        "SELECT count(*) FROM runs WHERE tenant = ? AND run > ? AND run < ?", (tenant, low, high)
    )
    return rows[0][0]


def open_between(tx: Tx, tenant: str, low: str, high: str, *, like: str = "%") -> str | None:
    """Return the first run that has not ended with an id between two texts that is `like` a pattern."""
    row = tx.one(
        f"SELECT run FROM runs WHERE tenant = ? AND run > ? AND run < ? AND run LIKE ?"
        f" AND status NOT IN {ENDED} ORDER BY run LIMIT 1",
        (tenant, low, high, like),
    )
    return None if row is None else str(row[0])


async def drift_forks(store: Store, tenant: str, low: str, high: str) -> list[str]:
    """Return the runs with an id between two texts that were forked because their code differed."""
    rows = await store.query(
        "SELECT r.run FROM runs r JOIN event_log e ON e.stream_id = r.id AND e.seq = 1"
        " WHERE r.tenant = ? AND r.run > ? AND r.run < ? AND e.kind = 'run.forked'"
        " AND CAST(json_extract(e.data, '$.drift') AS TEXT) IN ('1', 'true')",
        (tenant, low, high),
    )
    return [run for (run,) in rows]


# Trees

_FAMILY = (
    "WITH RECURSIVE family(root, run, depth) AS ("
    " SELECT value, value, 0 FROM json_each(?)"
    " UNION ALL SELECT f.root, r.run, f.depth + 1 FROM family f"
    f" JOIN runs r ON r.tenant = ? AND r.parent = f.run WHERE f.depth < {DEPTH_MAX}"
    f" LIMIT {MEMBERS_MAX})"
)


class TokenUsage(NamedTuple):
    """Tokens that models were sent and have sent."""

    input_tokens: int
    cached_input_tokens: int
    output_tokens: int


class TreeTotal(NamedTuple):
    """A run with all its descendants."""

    total_cost_microusd: int
    total_usage: TokenUsage
    runs: int


async def totals(store: Store, tenant: str, run_ids: Sequence[str]) -> dict[str, TreeTotal]:
    """Return the totals of each run with all its descendants, by run.

    Cost: one query, however deep the trees are.
    """
    rows = await store.query(
        f"{_FAMILY} SELECT f.root, count(*), sum(r.cost), sum(r.input_tokens),"
        " sum(r.cached_input_tokens), sum(r.output_tokens)"
        " FROM family f JOIN runs r ON r.tenant = ? AND r.run = f.run GROUP BY f.root",
        (json.dumps(list(run_ids)), tenant, tenant),
    )
    return {run: TreeTotal(cost, TokenUsage(*usage), count) for run, count, cost, *usage in rows}


async def asked_below(store: Store, tenant: str, run_id: str) -> list[tuple[str, str]]:
    """Return `(run, step)` of the approvals that the descendants of a run wait for, in the order of their
    start."""
    rows = await store.query(
        f"{_FAMILY} SELECT r.run, a.key FROM family f JOIN runs r ON r.tenant = ? AND r.run = f.run"
        " JOIN approvals a ON a.run = r.id AND a.decision IS NULL"
        f" WHERE f.depth > 0 AND r.status NOT IN {ENDED}"
        " ORDER BY r.id, a.key LIMIT ?",
        (json.dumps([run_id]), tenant, tenant, ASKED_MAX),
    )
    return [(run, key) for run, key in rows]


async def root_of(store: Store, tenant: str, run_id: str) -> str:
    """Return the run at the top of a run's tree; itself if it is nobody's child."""
    rows = await store.query(
        "WITH RECURSIVE above(run, parent, depth) AS ("
        " SELECT run, parent, 0 FROM runs WHERE tenant = ? AND run = ?"
        " UNION ALL SELECT r.run, r.parent, a.depth + 1 FROM above a"
        f" JOIN runs r ON r.tenant = ? AND r.run = a.parent WHERE a.depth < {DEPTH_MAX})"
        " SELECT run FROM above ORDER BY depth DESC LIMIT 1",
        (tenant, run_id, tenant),
    )
    return rows[0][0] if rows else run_id


_USED_BELOW = (
    "WITH RECURSIVE family(run) AS (SELECT ? UNION SELECT r.run FROM runs r"
    " JOIN family f ON r.parent = f.run WHERE r.tenant = ?)"
    " SELECT sum(r.cost), sum(r.input_tokens + r.output_tokens), sum((SELECT count(*) FROM steps s"
    # As a cap counts them: models that are done, tools that were entered.
    "  WHERE s.run = r.id AND (s.kind = 'model' AND s.status IN ('completed', 'failed')"
    "  OR s.kind = 'tool' AND s.requested IS NOT s.completed)))"
    " FROM runs r JOIN family f ON r.run = f.run WHERE r.tenant = ?"
)


def _by_unit(row: Sequence[Any]) -> dict[str, int]:
    return dict(zip(("usd", "tokens", "steps"), (int(n or 0) for n in row), strict=True))


async def used_below(store: Store, tenant: str, run_id: str) -> dict[str, int]:
    """Return what a run and its descendants have used, by unit of a limit."""
    return _by_unit((await store.query(_USED_BELOW, (run_id, tenant, tenant)))[0])


def used_below_now(tx: Tx, tenant: str, run_id: str) -> dict[str, int]:
    """Return the same in a transaction."""
    row = tx.one(_USED_BELOW, (run_id, tenant, tenant))
    assert row is not None
    return _by_unit(row)


async def family_upto(store: Store, tenant: str, run_id: str, position: int) -> list[str]:
    """Return a run and its descendants that began up to a position."""
    rows = await store.query(
        "WITH RECURSIVE family(run) AS (SELECT ? UNION SELECT r.run FROM runs r"
        " JOIN family f ON r.parent = f.run JOIN event_log e ON e.stream_id = r.id AND e.seq = 1"
        " WHERE r.tenant = ? AND e.position <= ?) SELECT run FROM family",
        (run_id, tenant, position),
    )
    return [run for (run,) in rows]


async def family_in_loop(store: Store, tenant: str, run_id: str, loop: str, *, limit: int) -> list[str]:
    """Return a run and those of its descendants that are reached through runs of a built-in loop alone."""
    rows = await store.query(
        "WITH RECURSIVE family(run) AS (SELECT ? UNION SELECT r.run FROM family f JOIN runs r"
        " ON r.tenant = ? AND r.parent = f.run AND r.loop = ?) SELECT run FROM family LIMIT ?",
        (run_id, tenant, loop, limit),
    )
    return [run for (run,) in rows]


class TreeRun(NamedTuple):
    """A run of a tree, with the step of the top run that led there."""

    id: int
    run: str
    step: str | None
    """None for the top run itself."""


async def tree_below(store: Store, tenant: str, stream_id: int) -> list[TreeRun]:
    """Return a run and all runs below it, by generation and start."""
    rows = await store.query(
        "WITH RECURSIVE tree(id, run, step, depth) AS (SELECT id, run, NULL, 0 FROM runs WHERE id = ?"
        " UNION ALL SELECT r.id, r.run, coalesce(t.step, r.parent_step, ''), t.depth + 1 FROM tree t"
        " JOIN runs r ON r.tenant = ? AND r.parent = t.run)"
        " SELECT id, run, step FROM tree ORDER BY depth, id",
        (stream_id, tenant),
    )
    return [TreeRun(*row) for row in rows]


def is_below(tx: Tx, tenant: str, stream_id: int, run_id: str) -> bool:
    """Return True if a stream is that of a run, or of one below it."""
    row = tx.one(
        "WITH RECURSIVE up(run, parent) AS (SELECT run, parent FROM runs WHERE id = ? AND tenant = ?"
        " UNION ALL SELECT r.run, r.parent FROM up JOIN runs r ON r.tenant = ? AND r.run = up.parent)"
        " SELECT 1 FROM up WHERE run = ? LIMIT 1",
        (stream_id, tenant, tenant, run_id),
    )
    return row is not None


# Who drives them


class LeasedRun(NamedTuple):
    """A run whose lease was not given back."""

    tenant: str
    run: str
    holder: str
    progress: int
    """How far the run had come when its lease was taken."""
    end: LeaseEnd


async def leased_runs(store: Store, *, status: str | None = None, limit: int = -1) -> list[LeasedRun]:
    """Return the runs of all tenants that are driven or were left, by start."""
    where, parameters = ("", []) if status is None else (" WHERE r.status = ?", [status])
    rows = await store.query(
        "SELECT r.tenant, r.run, l.holder, l.progress, l.expires_us, l.expires_uptime_us"
        " FROM held_leases l JOIN runs r ON l.stream = r.tenant || '/main/run:' || r.run"
        f"{where} ORDER BY r.id LIMIT ?",
        (*parameters, limit),
    )
    return [
        LeasedRun(tenant, run, holder, progress, LeaseEnd(*end))
        for tenant, run, holder, progress, *end in rows
    ]


def holds_child(tx: Tx, stream: Stream, holder: str) -> bool:
    """Return True if a holder has the lease of a child of the run whose stream this is."""
    row = tx.one(
        "SELECT 1 FROM runs c JOIN held_leases l ON l.stream = c.tenant || '/main/run:' || c.run"
        " WHERE c.tenant = ? AND c.parent = ? AND l.holder = ? LIMIT 1",
        (stream.tenant, stream.id, holder),
    )
    return row is not None


class Control(NamedTuple):
    """A command that was recorded for a run."""

    position: int
    tenant: str
    run: str


async def controls_after(store: Store, position: int, *, limit: int) -> list[Control]:
    """Return the runs that commands were recorded for, after a position."""
    rows = await store.query(
        "SELECT position, tenant, run FROM controls WHERE position > ? ORDER BY position LIMIT ?",
        (position, limit),
    )
    return [Control(*row) for row in rows]


async def is_imported(store: Store, tenant: str, run_id: str) -> bool:
    """Return True if a run was driven in another store. Its lease is there; so it takes no new steps here."""
    return bool(await store.query("SELECT 1 FROM imports WHERE tenant = ? AND run = ?", (tenant, run_id)))


# Runs at work


def _is_upper(condition: str = "") -> str:
    """Return the condition that no open run above a run `r` drives it; `condition` says more of that one."""
    return (
        f"NOT EXISTS (SELECT 1 FROM runs p WHERE p.tenant = r.tenant AND p.run = r.parent{condition}"
        f" AND p.status NOT IN {ENDED})"
    )


def _within(name: str | None) -> tuple[str, list[str | int]]:
    """Return a condition with its values: a run `r` is this one or named below it."""
    if name is None:
        return "", []
    return " AND (r.run = ? OR substr(r.run, 1, ?) = ?)", [name, len(name) + 1, f"{name}/"]


async def open_roots(
    store: Store, tenant: str, *, within: str | None = None, limit: int
) -> list[tuple[str, str]]:
    """Return `(run, status)` of the open runs that no open run above them drives, oldest first.

    With `within`, of that run and of those that are named below it.
    """
    more, values = _within(within)
    rows = await store.query(
        f"SELECT r.run, r.status FROM runs r WHERE r.tenant = ? AND r.status NOT IN {ENDED}{more}"
        f" AND {_is_upper()} ORDER BY r.id LIMIT ?",
        (tenant, *values, limit),
    )
    return [(run, status) for run, status in rows]


async def paused_runs(store: Store, tenant: str, *, within: str | None = None, limit: int) -> list[str]:
    """Return the runs that are paused, parents before their children. `within`: see `open_roots`."""
    more, values = _within(within)
    rows = await store.query(
        f"SELECT r.run FROM runs r WHERE r.tenant = ? AND r.status = 'paused'{more} ORDER BY r.id LIMIT ?",
        (tenant, *values, limit),
    )
    return [run for (run,) in rows]


async def open_runs_of(store: Store, tenant: str, agent: str, *, limit: int) -> list[str]:
    """Return the open runs of an agent that no other open run of its own drives, oldest first."""
    rows = await store.query(
        f"SELECT r.run FROM runs r WHERE r.tenant = ? AND r.agent = ? AND r.status NOT IN {ENDED}"
        f" AND {_is_upper(' AND p.agent = r.agent')} ORDER BY r.id LIMIT ?",
        (tenant, agent, limit),
    )
    return [run for (run,) in rows]


class AgentRuns(NamedTuple):
    """The runs that an agent has had."""

    runs: int
    last_us: int | None
    last_run: str | None


async def agent_runs(store: Store, tenant: str, agent: str) -> AgentRuns:
    """Return how many runs an agent has had, and the newest."""
    rows = await store.query(
        "SELECT count(*), max(started_us), (SELECT r.run FROM runs r WHERE r.tenant = ?"
        " AND r.agent = ? ORDER BY r.id DESC LIMIT 1) FROM runs WHERE tenant = ? AND agent = ?",
        (tenant, agent, tenant, agent),
    )
    return AgentRuns(*rows[0])


async def depth_in_loop(store: Store, tenant: str, run_id: str, loop: str) -> int:
    """Return how many runs of a loop stand above a run, without a run of another kind between them."""
    rows = await store.query(
        "WITH RECURSIVE above(run, depth) AS (SELECT parent, 0 FROM runs WHERE tenant = ? AND run = ?"
        " UNION ALL SELECT r.parent, a.depth + 1 FROM above a"
        f" JOIN runs r ON r.tenant = ? AND r.run = a.run AND r.loop = ? WHERE a.depth < {DEPTH_MAX})"
        " SELECT max(depth) FROM above",
        (tenant, run_id, tenant, loop),
    )
    return rows[0][0] or 0


class LoopUsage(NamedTuple):
    """Tokens and answered model calls of some runs together."""

    input_tokens: int
    output_tokens: int
    calls: int


async def loop_usage(store: Store, tenant: str, loop: str, *, newest: int) -> LoopUsage:
    """Return what the newest runs of a loop have used together."""
    rows = await store.query(
        "WITH newest AS (SELECT id, input_tokens, output_tokens FROM runs"
        " WHERE tenant = ? AND loop = ? ORDER BY id DESC LIMIT ?)"
        " SELECT coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0),"
        " (SELECT count(*) FROM steps s JOIN newest n ON n.id = s.run"
        "  WHERE s.kind = 'model' AND s.status = 'completed') FROM newest",
        (tenant, loop, newest),
    )
    return LoopUsage(*rows[0])


async def is_reopened_after(store: Store, tenant: str, run_id: str, failed: str) -> bool:
    """Return True if a run was reopened after another one, which stands as failed, had failed."""
    rows = await store.query(
        "SELECT (SELECT max(e.position) FROM runs r JOIN event_log e ON e.stream_id = r.id"
        "  AND e.kind = 'run.reopened' WHERE r.tenant = ? AND r.run = ?)"
        " > (SELECT max(e.position) FROM runs r JOIN event_log e ON e.stream_id = r.id"
        "  AND e.kind = 'run.failed' WHERE r.tenant = ? AND r.run = ? AND r.status = 'failed')",
        (tenant, run_id, tenant, failed),
    )
    return bool(rows[0][0])


async def runs_between(
    store: Store, tenant: str, low: str, high: str, *, loop: str, upto: int, limit: int
) -> list[str]:
    """Return the runs of a loop with an id between two texts that had begun at a position, by id."""
    rows = await store.query(
        "SELECT r.run FROM runs r JOIN event_log e ON e.stream_id = r.id AND e.seq = 1"
        " WHERE r.tenant = ? AND r.run > ? AND r.run < ? AND r.loop = ? AND e.position <= ?"
        " ORDER BY r.run LIMIT ?",
        (tenant, low, high, loop, upto, limit),
    )
    return [run for (run,) in rows]


async def numbered_run(
    store: Store, tenant: str, name: str, *, loop: str, oldest_open: bool = False
) -> RunRow | None:
    """Return the newest of the runs `<name>/000001` and on, or the oldest of those that have not ended."""
    which = f"status NOT IN {ENDED} ORDER BY run" if oldest_open else "1 ORDER BY run DESC"
    rows = await store.query(
        f"{SELECT_RUN} WHERE tenant = ? AND run > ? AND run < ? AND loop = ? AND run GLOB ?"
        f" AND {which} LIMIT 1",
        (tenant, f"{name}/", f"{name}0", loop, f"{name}/{'[0-9]' * 6}"),
    )
    return RunRow(*rows[0]) if rows else None


def is_over(tx: Tx, tenant: str, run_id: str) -> bool:
    """Return True if a run has ended, or is a record of another store. One that never started is not over."""
    row = tx.one(
        f"SELECT 1 FROM runs WHERE tenant = ? AND run = ? AND status IN {ENDED}"
        " UNION ALL SELECT 1 FROM imports WHERE tenant = ? AND run = ? LIMIT 1",
        (tenant, run_id, tenant, run_id),
    )
    return row is not None


def has_run(tx: Tx, tenant: str, run_id: str) -> bool:
    """Return True if a run was started or imported under this id, in a transaction."""
    return tx.one("SELECT 1 FROM runs WHERE tenant = ? AND run = ?", (tenant, run_id)) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """The labels of the runs that a worker takes; an empty tuple takes any."""

    loops: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()

    @classmethod
    def parse(cls, texts: Sequence[str]) -> Labels:
        """Read `KEY=VALUE` texts; several of one key are alternatives. Errors: `InvalidRequest`."""
        found: dict[str, tuple[str, ...]] = {"loop": (), "model": (), "agent": ()}
        if len(texts) > LABELS_MAX:
            raise InvalidRequest("too many labels", expected=f"at most {LABELS_MAX}", got=len(texts))
        for text in texts:
            key, _, value = text.partition("=")
            if key not in found or not value or len(value) > LABEL_CHARS_MAX:
                raise InvalidRequest(
                    "a label names what a run says of itself",
                    expected=f"loop=NAME, model=NAME or agent=ID, of at most {LABEL_CHARS_MAX} characters",
                    got=repr(text)[:80],
                )
            found[key] = (*found[key], value)
        return cls(loops=found["loop"], models=found["model"], agents=found["agent"])

    def __bool__(self) -> bool:
        return bool(self.loops or self.models or self.agents)


LABELS_MAX = 100
LABEL_CHARS_MAX = 200


@dataclass(frozen=True, kw_only=True)
class DueLook:
    """The runs that a worker could take now."""

    now_us: int
    limit: int
    tenant: str | None = None
    labels: Labels = Labels()
    but: frozenset[str] = frozenset()
    """Names of runs' streams that are left out: somebody drives them, or they cannot be driven here."""

    @cached_property
    def but_json(self) -> str:
        """The names as SQL reads them."""
        return json.dumps(list(self.but))


AWAKE = "status IN ('pending', 'running')"
"""Of runs that wait for nothing, for SQL: the condition of the index `runs_awake`, which must be the same."""

_DUE = f"""
WITH RECURSIVE awake(id, tenant, run, parent, loop, model, agent) AS (
  SELECT id, tenant, run, parent, loop, model, agent FROM runs WHERE {AWAKE}
  UNION
  SELECT r.id, r.tenant, r.run, r.parent, r.loop, r.model, r.agent FROM waits w JOIN runs r ON r.id = w.run
   WHERE w.until_us <= ? AND r.status = 'waiting'
  UNION
  SELECT p.id, p.tenant, p.run, p.parent, p.loop, p.model, p.agent FROM awake a
    JOIN runs p ON p.tenant = a.tenant AND p.run = a.parent
   WHERE p.status IN ('waiting', 'waiting_approval', 'unknown_outcome', 'budget_exhausted'))
SELECT r.tenant, r.run FROM awake r
 WHERE r.parent IS NULL AND r.loop <> '' AND r.tenant = coalesce(?, r.tenant)
   AND r.tenant || '/main/run:' || r.run NOT IN (SELECT value FROM json_each(?))
   AND (? = '[]' OR r.loop IN (SELECT value FROM json_each(?)))
   AND (? = '[]' OR r.model IN (SELECT value FROM json_each(?)))
   AND (? = '[]' OR r.agent IN (SELECT value FROM json_each(?)))
   AND NOT EXISTS (SELECT 1 FROM imports i WHERE i.tenant = r.tenant AND i.run = r.run)
 ORDER BY row_number() OVER (PARTITION BY r.tenant ORDER BY r.id), r.id LIMIT ?
"""
"""A run that waits for its child is woken by what wakes the child; one that is paused is not."""


async def due_runs(store: Store, look: DueLook) -> list[tuple[str, str]]:
    """Return runs at the top of their trees that should be driven now, as (tenant, run id).

    First comes the oldest of each tenant, then the second of each. They are runs of built-in loops that are
    not over and wait for nothing.
    Cost: O(runs that are awake), however many have ended.
    """
    labels = look.labels
    wanted = [json.dumps(one) for one in (labels.loops, labels.models, labels.agents)]
    parameters = [look.now_us, look.tenant, look.but_json]
    parameters += [text for one in wanted for text in (one, one)]
    return [(tenant, run) for tenant, run in await store.query(_DUE, (*parameters, look.limit))]
