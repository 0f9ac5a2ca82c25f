"""The world of one seed, judged: passed without faults, then with them, then compared and audited."""

from __future__ import annotations

import time
from pathlib import Path

from artelier_lab.torture.trial import Verdict
from artelier_lab.torture.world.checks import audit_world, hashed
from artelier_lab.torture.world.faults import WorldFaults
from artelier_lab.torture.world.player import play
from artelier_lab.torture.world.scenario import draw_world


def try_world(seed: int, folder: Path) -> Verdict:
    """Judge one seed's world; its databases are left in `folder`."""
    started_s = time.perf_counter()
    verdict = Verdict(seed=seed)
    quiet_path, path = folder / f"{seed}-world-quiet.db", folder / f"{seed}-world.db"
    quiet = play(draw_world(seed), quiet_path, None)
    verdict.findings += [("a world without faults", text) for text in quiet.findings]
    faults = WorldFaults(seed)
    drawn = draw_world(seed)
    played = play(drawn, path, faults)
    findings, verdict.calls = audit_world(drawn, played, path)
    verdict.findings += findings
    expected, got = hashed(drawn, quiet_path), hashed(drawn, path)
    if expected and got and expected != got:
        text = f"{got} after {faults.lives} lives, {expected} without faults"
        verdict.findings.append(("world: the same seed is the same world", text))
    verdict.counts = faults.counts
    verdict.counts["world: not compared"] += not (expected and got)
    verdict.statuses["world passed"] += not verdict.findings
    verdict.wall_s = time.perf_counter() - started_s
    return verdict
