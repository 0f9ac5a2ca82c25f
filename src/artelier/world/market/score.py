"""The mint's valuation of an artifact: use by others and test cases, never its owner's claim."""

from __future__ import annotations

from typing import Any, NamedTuple

from artelier.artifacts import Call, InvocationFailed, Verdict, Working
from artelier.artifacts import Ref as TheRef
from artelier.artifacts.content import canonical_json, decode_content
from artelier.artifacts.invoke.code_scope import in_scope
from artelier.artifacts.invoke.invocation_tree import Admitted, BudgetSpent, Tree
from artelier.artifacts.kinds import runnable_code
from artelier.artifacts.queries import Standing
from artelier.errors import ArtelierError
from artelier.world.tick.tick_context import Scene

MINT = "genesis_mint"
"""The service that runs test cases, and whose income returns with that of the others."""

POINTS_PER_SCRIP = 10
"""In older worlds."""

PER_USER = 10
"""In older worlds: points for each other agent that has used it: ten of them are the full score (guess)."""


class Score(NamedTuple):
    """0 to 100, and whether something like it was there before."""

    points: int
    is_duplicate: bool = False
    reward: int = 0
    """Scrip for the winner."""


async def score(scene: Scene, standing: Standing) -> Score:
    """Return the mint's score of an artifact as it stands. Cost: one scan of the versions of the world.

    Every agent that has used it since it was last scored is a scrip, if it passes all test cases of its kind.
    """
    if await _is_duplicate(scene, standing):
        return Score(0, is_duplicate=True)
    cases = scene.config.mint.cases.get(standing.kind, [])
    if not scene.config.asks_consent:
        return await _score_of_all_use(scene, standing, cases)
    users = await new_users(scene, standing)
    if cases and users:
        users = users * await _count_passed(scene, standing, cases) // len(cases)
    others = max(1, len(scene.agents) - 1)
    return Score(min(100, 100 * users // others), reward=users)


async def _score_of_all_use(scene: Scene, standing: Standing, cases: list[dict[str, Any]]) -> Score:
    """Return the score of older worlds: all use there ever was, or half of it and half the test cases."""
    used = min(100, PER_USER * await _users(scene, standing))
    points = used
    if cases:
        points = (used + 100 * await _count_passed(scene, standing, cases) // len(cases)) // 2
    return Score(points, reward=points // POINTS_PER_SCRIP)


async def new_users(scene: Scene, standing: Standing, *, since: int = 0) -> int:
    """Count the agents that act now and have used it since it was last scored, its maker and owner apart.

    Units: `since` is a tick, the first that counts. What is used in the tick that ends a round counts in the
    next one.
    """
    scope = (scene.tenant, scene.space)
    rows = await scene.stage.store.query(
        "SELECT COALESCE(MAX(tick), 0) FROM world_rounds WHERE tenant = ? AND space = ? AND artifact = ?",
        (*scope, standing.id),
    )
    rows = await scene.stage.store.query(
        "SELECT user FROM world_uses WHERE tenant = ? AND space = ? AND artifact = ?"
        " AND user <> ? AND user <> ? AND used >= ? AND used < ?",
        (*scope, standing.id, standing.owner, standing.creator, max(rows[0][0], since), scene.tick),
    )
    return sum(user in scene.agents for (user,) in rows)


async def _users(scene: Scene, standing: Standing) -> int:
    """Agents that have used it, themselves or by a program of theirs, and neither made nor own it."""
    rows = await scene.stage.store.query(
        "SELECT COUNT(*) FROM world_uses u JOIN world_agents g ON g.tenant = u.tenant"
        " AND g.space = u.space AND g.agent = u.user"
        " WHERE u.tenant = ? AND u.space = ? AND u.artifact = ? AND u.user <> ? AND u.user <> ?",
        (scene.tenant, scene.space, standing.id, standing.owner, standing.creator),
    )
    return rows[0][0]


async def _is_duplicate(scene: Scene, standing: Standing) -> bool:
    """Return True if another artifact had this content first, or this one was made as a copy."""
    at = standing.at
    assert at is not None
    if at.sources and ".copy-" in standing.id:
        return True
    rows = await scene.stage.store.query(
        "SELECT MIN(v.written_us) FROM artifact_versions v WHERE v.tenant = ? AND v.space = ?"
        " AND v.content = ? AND v.id <> ?",
        (scene.tenant, scene.space, at.content, standing.id),
    )
    return rows[0][0] is not None and rows[0][0] <= at.written_us


async def _count_passed(scene: Scene, standing: Standing, cases: list[dict[str, Any]]) -> int:
    """Return how many test cases its program passes. What it does in them is dropped."""
    at = standing.at
    assert at is not None
    content = decode_content(at.media, await scene.working.blob(at.content))
    code = runnable_code(standing.kind, content)
    if code is None:
        return 0
    passed = 0
    for number, case in enumerate(cases):
        tree = Tree(
            scene.interpreter,
            in_scope,
            services=scene.services,
            seed=f"{scene.config.seed}/{scene.tick}/case/{number}",
        )
        args: Any = case.get("args", {})
        call = Call(caller=MINT, id=standing.id, args=args if isinstance(args, dict) else {})
        verdict = Verdict(TheRef(standing.id), "invoke", MINT, standing=standing)
        admitted = Admitted(call, verdict, standing, code, dict(call.args))
        try:
            result = await tree.run(Working(scene.working), admitted)
        except (ArtelierError, InvocationFailed, BudgetSpent):
            continue  # it fails this case, however it does that
        passed += canonical_json(result) == canonical_json(case.get("expected"))
    return passed
