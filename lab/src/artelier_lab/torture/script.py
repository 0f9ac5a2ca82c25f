"""Random programs: what the hand-written agents of a seed do, step by step.

A program is data; `perform.py` runs it. It is deterministic on purpose: what it gives must be the same with
faults and without. Where a choice of people or of time decides, its value is left out of the result.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any

DEPTH_MAX = 2

LEAVES = (("ask", 10), ("use", 9), ("compute", 3), ("approve", 2), ("sleep", 2), ("wait", 2), ("notes", 1))
NESTS = (("gather", 3), ("parallel", 2), ("branch", 1), ("child", 2))

TOOLS = (
    ("look", 5),
    ("put", 4),
    ("pay", 6),
    ("wire", 6),
    ("refuse", 1),
    ("big", 1),
    ("broken", 1),
    ("hang", 1),
    ("forbidden", 1),
    ("risky", 2),
    ("vouch", 2),
    ("consult", 1),
    ("nothing_of_the_kind", 1),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """One thing that a program does. `path` names it within its run."""

    kind: str
    path: str
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    branches: tuple[tuple[Op, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One run: its code and how it is opened."""

    run_id: str
    ops: tuple[Op, ...]
    on_wait: str
    limits: dict[str, Any]
    """Caps of the run while there are faults; an operator lifts them."""
    changes_s: tuple[float, ...] = ()
    """Virtual seconds at which its code changes, while there are faults."""
    replay: str = "strict"
    """What is done where changed code meets what was recorded."""

    @property
    def names(self) -> tuple[str, ...]:
        """The run and all its children."""
        return (self.run_id, *(f"{self.run_id}::{op.path}" for op in children(self.ops)))


def children(ops: tuple[Op, ...]) -> list[Op]:
    """All child runs in a program, at any depth. Children have no children of their own."""
    found: list[Op] = []
    for op in ops:
        if op.kind == "child":
            found.append(op)
        else:
            for branch in op.branches:
                found.extend(children(branch))
    return found


RACES = ("wait_for", "first", "durable_first", "timeout", "left")
"""What a program does at its end with steps that it does not wait for."""


def draw_programs(seed: int) -> list[Program]:
    rng = random.Random(f"programs {seed}")
    programs = [_program(rng, f"run-{number}") for number in range(rng.randint(1, 4))]
    races = random.Random(f"races {seed}")  # of its own, so that all other draws stay as they were
    return [_with_race(races, program) for program in programs]


def _with_race(rng: random.Random, program: Program) -> Program:
    if rng.random() < 0.4:
        return program
    race = Op(
        kind="race", path="race", options={"how": rng.choice(RACES), "seconds": rng.choice((0.5, 2.0, 5.0))}
    )
    return replace(program, ops=(*program.ops, race))


def _program(rng: random.Random, run_id: str) -> Program:
    limits: dict[str, Any] = {}
    if rng.random() < 0.25:
        limits = rng.choice(
            ({"usd": "0.004"}, {"tokens": 6_000}, {"steps": 5}, {"wall_s": 60.0}, {"usd": "0"})
        )
    return Program(
        run_id=run_id,
        ops=_ops(rng, "o", rng.randint(2, 7), depth=0, child=False),
        on_wait=rng.choice(("await", "suspend")),
        limits=limits,
    )


def _ops(rng: random.Random, prefix: str, count: int, *, depth: int, child: bool) -> tuple[Op, ...]:
    return tuple(_op(rng, f"{prefix}{number}", depth=depth, child=child) for number in range(count))


def _pick(rng: random.Random, weighted: tuple[tuple[str, int], ...]) -> str:
    return rng.choices([name for name, _ in weighted], [weight for _, weight in weighted])[0]


def _op(rng: random.Random, path: str, *, depth: int, child: bool) -> Op:
    nests = () if depth >= DEPTH_MAX else NESTS
    if child:
        nests = tuple(item for item in nests if item[0] != "child")
    kind = _pick(rng, LEAVES + nests)
    if kind in ("gather", "branch", "child", "parallel"):
        return _nest(rng, kind, path, depth=depth, child=child)
    return Op(kind=kind, path=path, options=_OPTIONS[kind](rng))


def _nest(rng: random.Random, kind: str, path: str, *, depth: int, child: bool) -> Op:
    if kind == "parallel":
        steps = tuple(
            (Op(kind="use", path=f"{path}.{n}", options={**_use(rng), "key": f"{path}.{n}"}),)
            for n in range(rng.randint(2, 4))
        )
        return Op(kind=kind, path=path, branches=steps)
    width = rng.randint(2, 3) if kind == "gather" else 1
    branches = tuple(
        _ops(rng, f"{path}.{n}.", rng.randint(1, 3), depth=depth + 1, child=child or kind == "child")
        for n in range(width)
    )
    options: dict[str, Any] = {}
    if kind == "child":
        options["limits"] = rng.choice(({}, {}, {"usd": "0.003"}, {"steps": 2}))
    return Op(kind=kind, path=path, options=options, branches=branches)


def _ask(rng: random.Random) -> dict[str, Any]:
    return {
        "messages": rng.choice(("plain", "conversation", "tail", "system", "two")),
        "tools": rng.choice((False, True, True)),
        "output": rng.random() < 0.2,
        "stream": rng.random() < 0.15,
        "max_output_tokens": rng.choice((None, 50, 300)),
        "key": rng.random() < 0.2,
    }


def _use(rng: random.Random) -> dict[str, Any]:
    return {"tool": _pick(rng, TOOLS), "valid": rng.random() < 0.92, "amount": rng.randint(1, 900)}


def _compute(rng: random.Random) -> dict[str, Any]:
    return {"fails": rng.random() < 0.15, "slow": rng.random() < 0.2}


def _approve(rng: random.Random) -> dict[str, Any]:
    return {"expires_s": rng.choice((None, None, 5.0, 60.0))}


def _sleep(rng: random.Random) -> dict[str, Any]:
    return {"seconds": rng.choice((0.0, 0.5, 3.0, 45.0, 120.0))}


def _wait(rng: random.Random) -> dict[str, Any]:
    return {"name": rng.choice(("go", "stock")), "timeout_s": rng.choice((None, None, 2.0, 50.0))}


def _notes(rng: random.Random) -> dict[str, Any]:
    return {"key": rng.random() < 0.5}


_OPTIONS = {
    "ask": _ask,
    "use": _use,
    "compute": _compute,
    "approve": _approve,
    "sleep": _sleep,
    "wait": _wait,
    "notes": _notes,
}
