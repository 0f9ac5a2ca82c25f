"""A run with its descendants: what they cost together, and which of them wait for a person."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from artelier.kernel.run.services import Services

DEPTH_MAX = 64
MEMBERS_MAX = 100_000
"""Runs that one question looks at; more of them are not counted."""

_FAMILY = (
    "WITH RECURSIVE family(root, run, depth) AS ("
    " SELECT value, value, 0 FROM json_each(?)"
    " UNION ALL SELECT f.root, r.run, f.depth + 1 FROM family f"
    f" JOIN runs r ON r.tenant = ? AND r.parent = f.run WHERE f.depth < {DEPTH_MAX}"
    f" LIMIT {MEMBERS_MAX})"
)


ASKED_MAX = 100
"""Open questions of descendants that are told."""


async def totals(services: Services, tenant: str, run_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return `{total_cost_microusd, total_usage, runs}` of each run with all its descendants, by run.

    Cost: one query, however deep the trees are.
    """
    rows = await services.store.query(
        f"{_FAMILY} SELECT f.root, count(*), sum(r.cost), sum(r.input_tokens),"
        " sum(r.cached_input_tokens), sum(r.output_tokens)"
        " FROM family f JOIN runs r ON r.tenant = ? AND r.run = f.run GROUP BY f.root",
        (json.dumps(list(run_ids)), tenant, tenant),
    )
    return {
        run: {
            "total_cost_microusd": cost,
            "total_usage": {"input_tokens": inputs, "cached_input_tokens": cached, "output_tokens": outputs},
            "runs": count,
        }
        for run, count, cost, inputs, cached, outputs in rows
    }


async def asked_below(services: Services, tenant: str, run_id: str) -> list[tuple[str, str]]:
    """`(run, step)` of the approvals that the descendants of a run wait for, in the order of their start."""
    rows = await services.store.query(
        f"{_FAMILY} SELECT r.run, a.key FROM family f JOIN runs r ON r.tenant = ? AND r.run = f.run"
        " JOIN approvals a ON a.run = r.id AND a.decision IS NULL"
        " WHERE f.depth > 0 AND r.status NOT IN ('completed', 'failed', 'cancelled')"
        " ORDER BY r.id, a.key LIMIT ?",
        (json.dumps([run_id]), tenant, tenant, ASKED_MAX),
    )
    return [(run, key) for run, key in rows]


async def root_of(services: Services, tenant: str, run_id: str) -> str:
    """The run at the top of a run's tree; itself if it is nobody's child."""
    rows = await services.store.query(
        "WITH RECURSIVE above(run, parent, depth) AS ("
        " SELECT run, parent, 0 FROM runs WHERE tenant = ? AND run = ?"
        " UNION ALL SELECT r.run, r.parent, a.depth + 1 FROM above a"
        f" JOIN runs r ON r.tenant = ? AND r.run = a.parent WHERE a.depth < {DEPTH_MAX})"
        " SELECT run FROM above ORDER BY depth DESC LIMIT 1",
        (tenant, run_id, tenant),
    )
    return rows[0][0] if rows else run_id


async def used_below(services: Services, tenant: str, run_id: str) -> dict[str, int]:
    """Return what a run and its descendants have used, by unit of a limit."""
    rows = await services.store.query(
        "WITH RECURSIVE family(run) AS (SELECT ? UNION SELECT r.run FROM runs r"
        " JOIN family f ON r.parent = f.run WHERE r.tenant = ?)"
        " SELECT sum(r.cost), sum(r.input_tokens + r.output_tokens), sum((SELECT count(*) FROM steps s"
        # As a cap counts them: models that are done, tools that were entered.
        "  WHERE s.run = r.id AND (s.kind = 'model' AND s.status IN ('completed', 'failed')"
        "  OR s.kind = 'tool' AND s.requested IS NOT s.completed)))"
        " FROM runs r JOIN family f ON r.run = f.run WHERE r.tenant = ?",
        (run_id, tenant, tenant),
    )
    return dict(zip(("usd", "tokens", "steps"), (int(n or 0) for n in rows[0]), strict=True))
