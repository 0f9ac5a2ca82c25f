"""Programs that undo what they have done, under code that changes all the time: orders, timers, versions.

They are judged like the other programs of a seed (`trial.py`), with one promise more.
"""

from __future__ import annotations

import random
from collections import Counter

from artelier_lab.torture.checks.audit import Audit
from artelier_lab.torture.perform import of
from artelier_lab.torture.script import Op, Program

ORDER = "order"


def draw_sagas(seed: int) -> list[Program]:
    """One or two runs that order, wait, and take back, twice; one of their parts may be a child."""
    rng = random.Random(f"sagas {seed}")
    sagas = [_saga(rng, f"saga-{number}") for number in range(rng.randint(1, 2))]
    return [*sagas, _changing(random.Random(f"changing {seed}"))]


def _changing(rng: random.Random) -> Program:
    """A run whose code changes while it is at work: once or twice, in the middle of what it has done."""
    names = [*(f"o{number}" for number in range(rng.randint(2, 3))), "again"]
    changed_in = {version: rng.choice(names) for version in (1, 2)}
    ops: list[Op] = [Op(kind="version", path="v0")]
    for name in names[:-1]:
        ops += [_changed(rng, name, changed_in), _pause(rng, f"p-{name}")]
    upto = rng.choice((None, None, "o0"))
    ops.append(Op(kind="taken_back", path="back", options={"upto": upto}))
    ops += [_changed(rng, "again", changed_in), _pause(rng, "p-again")]
    ops.append(Op(kind="taken_back", path="all", options={"upto": None}))
    return Program(
        run_id="changing",
        ops=tuple(ops),
        on_wait=rng.choice(("await", "suspend")),
        limits={},
        changes_s=tuple(sorted(rng.uniform(1.0, 40.0) for _ in range(rng.randint(1, 2)))),
        replay=rng.choice(("strict", "fork_on_drift")),
    )


def _changed(rng: random.Random, path: str, changed_in: dict[int, str]) -> Op:
    versions = tuple(version for version, name in changed_in.items() if name == path)
    options = {"tool": ORDER, "amount": rng.randint(1, 900), "key": path, "changed_in": versions}
    return Op(kind="changed", path=path, options=options)


def _saga(rng: random.Random, run_id: str) -> Program:
    ops: list[Op] = [Op(kind="version", path="v0")]
    for number in range(rng.randint(1, 3)):
        ops += [_order(rng, f"o{number}"), _pause(rng, f"p{number}")]
    if rng.random() < 0.5:
        below = tuple(_order(rng, f"c.0.{number}") for number in range(rng.randint(1, 2)))
        ops.append(Op(kind="child", path="c", options={"limits": {}}, branches=(below,)))
    ops += [_order(rng, "late"), Op(kind="version", path="v1")]
    upto = rng.choice((None, None, "o0", "late"))
    ops.append(Op(kind="compensate", path="back", options={"upto": upto}))
    ops += [_order(rng, "again"), Op(kind="compensate", path="all", options={"upto": None})]
    return Program(run_id=run_id, ops=tuple(ops), on_wait=rng.choice(("await", "suspend")), limits={})


def _order(rng: random.Random, path: str) -> Op:
    options = {"tool": ORDER, "valid": True, "amount": rng.randint(1, 900), "key": path}
    return Op(kind="use", path=path, options=options)


def _pause(rng: random.Random, path: str) -> Op:
    if rng.random() < 0.5:
        return Op(kind="sleep", path=path, options={"seconds": rng.choice((0.5, 45.0))})
    return Op(kind="wait", path=path, options={"name": "go", "timeout_s": rng.choice((None, 50.0))})


def _asked_by(order: str) -> str:
    """The key of an order: what a fork undoes for the run that it goes on for is named after that run."""
    tenant, _, rest = order.partition("/")
    run, _, step = rest.partition(":")
    return f"{tenant}/{step}" if step.startswith(f"{run}:") else order


class OrdersAreTakenBack:
    """A completed saga has undone each of its orders, and each once; nobody undid what was not ordered."""

    name = "what was done is undone once"

    async def check(self, audit: Audit) -> list[str]:
        found: list[str] = []
        outside = audit.simulation.outside
        undone: Counter[str] = Counter()
        for key, transfer in outside.transfers.items():
            decided = 1 + outside.decisions[key]
            if transfer.applied > decided:
                found.append(f"{key} was applied {transfer.applied} times, decided {decided} times")
            order, is_undoing, _ = key.partition("/undo")
            if is_undoing and transfer.applied:
                undone[_asked_by(order)] += 1
        for key, transfer in outside.transfers.items():
            if "/undo" in key or not transfer.applied:
                continue
            run = key.partition("/")[2].partition(":")[0]
            ended = audit.newest(of(run))
            if undone[key] > 1:
                found.append(f"{key} was undone {undone[key]} times")
            if ended is not None and ended.status == "completed" and not undone[key]:
                found.append(f"{key} was ordered and never undone")
        ordered = {key for key, transfer in outside.transfers.items() if transfer.applied}
        found += [f"{key} was undone and never ordered" for key in undone if key not in ordered]
        return found
