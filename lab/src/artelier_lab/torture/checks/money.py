"""The invariants of money at the end of every simulation, worked out from the log alone."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import Any

from artelier.ledger import DEBT
from artelier_lab.torture.checks.audit import Audit
from artelier_lab.torture.perform import TENANT

_TURNED_AWAY = frozenset(("rate_limited", "provider_unavailable", "model_refused_call"))
"""Codes of calls that a provider does not bill."""
_CUT_OFF = frozenset(("model_timeout", "cancelled", "deadline", "interrupted"))
"""Codes of calls that a provider was at work on; what was cut off between two attempts has the code of the
first."""

_EVENTS = (
    "SELECT s.name, e.kind, e.data FROM events e JOIN streams s ON s.id = e.stream"
    " WHERE s.tenant = ? AND (instr(e.data, '\"postings\"') > 0 OR instr(e.data, '\"counts\"') > 0"
    " OR e.kind IN ('run.started', 'limit.set')) ORDER BY e.position"
)


def excess_of(audit: Audit) -> int:
    """Return the micro-dollars that calls were billed beyond what was held for them."""
    return sum(
        posting[3]
        for _, _, data in audit.events("model.completed", "model.failed")
        for posting in data.get("postings", ())
        if posting[0].startswith("source:") and posting[1] == "spent"
    )


class OverrunsAreDebt:
    """Nothing is reserved or spent while less is available than that, or while a limit is exceeded."""

    name = "I7: an overrun is debt"

    async def check(self, audit: Audit) -> list[str]:
        books, found = _Books(), list[str]()
        for stream, kind, data in audit.rows(_EVENTS, TENANT):
            told = json.loads(data)
            run = stream.removeprefix("run:")
            if kind in ("model.requested", "tool.charged"):
                found += [f"{run} {told['key']}: {kind} {why}" for why in books.refusals(run, told)]
            books.add(run, kind, told)
        return found


class _Books:
    """Balances and limits as they stood when each event was recorded."""

    def __init__(self) -> None:
        self._balances = Counter[str]()
        self._caps: dict[tuple[str, str], int | None] = {}
        self._used = Counter[tuple[str, str]]()
        self._parents: dict[str, str | None] = {}
        self._extra = defaultdict[str, tuple[str, ...]](tuple)

    def refusals(self, run: str, told: dict[str, Any]) -> list[str]:
        """Return why an event should not have been recorded."""
        need = sum(posting[3] for posting in told.get("postings", ()) if posting[0] == "tenant")
        available = self._balances["tenant"] + self._balances[DEBT]
        found: list[str] = []
        if need > available:
            found.append(f"took {need}, and {available} were available")
        for scope in self._scopes(run):
            for unit in ("usd", "tokens", "steps"):
                cap, used = self._caps.get((scope, unit)), self._used[scope, unit]
                if cap is not None and used > cap:
                    found.append(f"was let through while {scope} had used {used} of {cap} {unit}")
        return found

    def _scopes(self, run: str) -> list[str]:
        scopes, at = [*self._extra[run], "tenant"], run
        while True:
            scopes.append(f"run:{at}")
            above = self._parents.get(at)
            if above is None:
                return scopes
            at = above

    def add(self, run: str, kind: str, told: dict[str, Any]) -> None:
        if kind == "run.started":
            self._parents[run] = told.get("parent")
            self._extra[run] = tuple(told.get("scopes", ()))
        if kind == "limit.set":
            pair = (told["scope"], told["unit"])
            self._caps[pair] = told.get("cap")
            self._used[pair] = max(self._used[pair], told.get("used", 0))
        for source, target, asset, amount in told.get("postings", ()):
            if asset == "usd":
                self._balances[source] -= amount
                self._balances[target] += amount
        for scope, unit, *amounts in told.get("counts", ()):
            if (scope, unit) in self._caps and len(amounts) > 1:
                self._used[scope, unit] += amounts[1]


class AttemptsAreBilled:
    """Every call that an adapter got was answered, turned away, or billed without an answer."""

    name = "I7: every attempt is billed"

    async def check(self, audit: Audit) -> list[str]:
        calls = sum(len(requests) for requests in audit.simulation.outside.received.values())
        ended, found = 0, list[str]()
        billed: dict[tuple[str, str], str] = {}
        """By run and step: how the attempt ended that was billed last."""
        for run, kind, data in audit.events("model.completed", "model.failed", "model.attempted"):
            is_billed = data.get("cost", 0) > 0
            at, code = (run, data["key"]), data.get("code", "")
            if kind == "model.failed" and not is_billed and billed.pop(at, None) == code:
                continue  # the attempt was billed, and no money was left for the next one
            billed[at] = code if is_billed else ""
            turned_away = data.get("code") in _TURNED_AWAY
            ended += kind == "model.completed" or turned_away or is_billed
            if data.get("code") in _CUT_OFF and not is_billed:
                found.append(f"{run} {data['key']}: a call cost nothing that was {data['code']}")
        if calls > ended:
            found.append(f"{calls} calls were made, and {ended} were billed or turned away")
        return found
