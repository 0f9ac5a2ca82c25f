"""Probes under torture: runs that pay at a bank that can be asked, and what its word may lead to."""

from __future__ import annotations

import random
from collections import Counter

import msgspec

from artelier.kernel.run.crash_recovery import REDISPATCHES_MAX
from artelier_lab.torture.checks.audit import Audit
from artelier_lab.torture.script import Op, Program

LATE = 0.7
"""The share of payments of these runs whose answer is lost, late or never comes."""


def draw_payments(seed: int) -> list[Program]:
    """Runs that do little but pay, one after another and side by side."""
    rng = random.Random(f"payments {seed}")
    return [
        Program(
            run_id=f"payer-{number}",
            ops=tuple(_payment(rng, f"o{n}") for n in range(3)),
            on_wait="suspend",
            limits={},
        )
        for number in range(2)
    ]


def _payment(rng: random.Random, path: str) -> Op:
    if rng.random() < 0.3:
        branches = tuple((_wire(rng, f"{path}.{n}", key=f"{path}.{n}"),) for n in range(2))
        return Op(kind="parallel", path=path, branches=branches)
    return _wire(rng, path)


def _wire(rng: random.Random, path: str, **more: str) -> Op:
    options = {"tool": "wire", "valid": True, "amount": rng.randint(1, 900), **more}
    return Op(kind="use", path=path, options=options)


class ProbesRepeatNoEffect:
    """A call is entered again on a probe's word only when the probe has said it and nobody could still act.

    That no payment was made twice is checked with every other one (`StepsHappenOnce`): a probe's word allows
    one more dispatch, never one more effect.
    """

    name = "I4: a probe's word repeats no effect"

    async def check(self, audit: Audit) -> list[str]:
        simulation = audit.simulation
        found: list[str] = []
        entered: dict[tuple[str, str], tuple[int, ...]] = {}
        again: Counter[tuple[str, str]] = Counter()
        for name, at_us, raw in audit.rows(
            "SELECT s.name, e.at_us, e.data FROM events e JOIN streams s ON s.id = e.stream"
            " WHERE s.name LIKE 'run:%' AND e.kind IN ('tool.requested', 'tool.retried')"
            " ORDER BY e.position"
        ):
            data = msgspec.json.decode(raw)
            step = (name.removeprefix("run:"), data["key"])
            process, before = tuple(data.get("process", ())), entered.get(step, ())
            entered[step] = process
            if data.get("by") != "probe":
                continue
            again[step] += 1
            died_us = simulation.died.get(before)
            if before != process and (died_us is None or died_us > at_us):
                found.append(f"{step} was entered again although process {before} lived")
        told = simulation.outside.not_happened
        for (run, key), times in again.items():
            if times > REDISPATCHES_MAX:
                found.append(f"{run} {key} was entered again {times} times on a probe's word")
            if times > told[f"{run}:{key}"]:
                found.append(f"{run} {key}: its probe said {told[f'{run}:{key}']} of {times} words")
        return found
