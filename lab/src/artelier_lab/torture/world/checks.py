"""The invariants of a world that has come to its end, whatever went wrong on the way."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from artelier import Kernel
from artelier.errors import ArtelierError
from artelier.log import blob_name
from artelier.log.blobs import unpack
from artelier.testing.economy.books import ConsentBooks
from artelier.world.events import world_space, world_stream
from artelier.world.history.world_diff import hash_world
from artelier_lab.torture.engine import Reader, engine
from artelier_lab.torture.world.books import ESCROW, Books, Happened
from artelier_lab.torture.world.player import WORLD, Played, opened
from artelier_lab.torture.world.scenario import DrawnModel, DrawnWorld

SPACE = world_space(WORLD)
STREAM = world_stream("default", WORLD).local


class WorldAudit(NamedTuple):
    """A world at its end: its drawing, what was seen, its file."""

    drawn: DrawnWorld
    played: Played
    db: Reader
    events: list[Happened]
    books: Books

    def rows(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return self.db.execute(sql, parameters).fetchall()


Finding = tuple[str, str]


def audit_world(drawn: DrawnWorld, played: Played, path: Path) -> tuple[list[Finding], Counter[str]]:
    """Every promise that is broken, and how often each action was done or rejected."""
    findings: list[Finding] = [("a world goes on", text) for text in played.findings]
    findings += asyncio.run(_verified(drawn, path))
    with engine().reading(path) as db:
        events = _events(db)
        books = Books(agents=drawn.agents, content=_content(db))
        for event in events:
            books.take(event)
        findings += [(f"world: {promise}", text) for promise, text in books.findings]
        audit = WorldAudit(drawn, played, db, events, books)
        for name, check in CHECKS.items():
            findings += [(f"world: {name}", text) for text in check(audit)]
        return findings, _actions(events)


async def _verified(drawn: DrawnWorld, path: Path) -> list[Finding]:
    kernel = opened(path, DrawnModel(len(drawn.agents)))
    try:
        report = kernel.verify()
    finally:
        await kernel.aclose()
    return [("world: the log is the truth", text) for text in report.findings]


def _events(db: Reader) -> list[Happened]:
    rows = db.execute(
        "SELECT s.name, e.seq, e.kind, e.actor, e.at_us, e.data FROM events e"
        " JOIN streams s ON s.id = e.stream WHERE s.space = ? ORDER BY e.position",
        (SPACE,),
    )
    return [
        Happened(local, seq, kind, actor, tick, msgspec.json.decode(data))
        for local, seq, kind, actor, tick, data in rows
    ]


def _content(db: Reader) -> Callable[[str], str]:
    def content(ref: str) -> str:
        row = db.execute(
            "SELECT codec, content, size FROM blobs WHERE name = ?", (blob_name(ref),)
        ).fetchone()
        return unpack(*row).decode(errors="replace") if row else ""

    return content


def _actions(events: list[Happened]) -> Counter[str]:
    done: Counter[str] = Counter()
    for event in events:
        if act := event.data.get("act"):
            name = act["action"] or "malformed"
            rejected = event.kind == "action.rejected" or event.data.get("outcome") == "failed"
            done[f"world: {name}{' rejected' if rejected else ''}"] += 1
    return done


def _money(audit: WorldAudit) -> list[str]:
    """All accounts add up to zero, only sources owe, what is held is a bid, and the events say the same."""
    found: list[str] = []
    sums: Counter[str] = Counter()
    held = 0
    moved: Counter[tuple[str, str]] = Counter()
    for event in audit.events:
        for source, target, asset, amount in event.data.get("postings", ()):
            moved[source, asset] -= amount
            moved[target, asset] += amount
    for account, asset, balance in audit.rows(
        "SELECT account, asset, balance FROM accounts WHERE space = ?", SPACE
    ):
        sums[asset] += balance
        if balance < 0 and not account.startswith(("source:", "mint:")):
            found.append(f"{account} owes {-balance} {asset}")
        if account.startswith("hold:"):
            held += balance
        if moved[account, asset] != balance:
            found.append(f"{account} has {balance}, its events gave {moved[account, asset]}")
    found += [f"{asset} adds up to {n}" for asset, n in sums.items() if n]
    bids = audit.rows("SELECT COALESCE(SUM(amount), 0) FROM world_bids WHERE space = ?", SPACE)
    if held != bids[0][0]:
        found.append(f"{held} scrip are held, and bids are {bids[0][0]}")
    return found


def _ownership(audit: WorldAudit) -> list[str]:
    """Everything has the owner that its events gave it; the escrow owns what is openly for sale."""
    found: list[str] = []
    escrowed: list[str] = []
    for id_, owner, deleted in audit.rows("SELECT id, owner, deleted FROM artifacts WHERE space = ?", SPACE):
        if audit.books.owners.get(id_) != owner or bool(deleted) != (id_ in audit.books.gone):
            found.append(f"{id_} belongs to {owner}, by its events to {audit.books.owners.get(id_)}")
        if owner == ESCROW and id_ != ESCROW and not deleted:
            escrowed.append(id_)
    for_sale = [offer["artifact"] for offer in audit.books.offers.values() if offer["sells"] == "ownership"]
    if sorted(escrowed) != sorted(for_sale):
        found.append(f"in escrow are {sorted(escrowed)}, for sale are {sorted(for_sale)}")
    rows = audit.rows("SELECT offer FROM world_offers WHERE space = ? AND status = 'open'", SPACE)
    if {offer for (offer,) in rows} != set(audit.books.offers):
        found.append("the open offers are others than the events say")
    return found


def _ticks(audit: WorldAudit) -> list[str]:
    """Every tick is there once and whole: its events stand together, and its last one counts them."""
    found: list[str] = []
    acted, rejected, passed = 0, 0, 0
    for event in audit.events:
        if event.local != STREAM:
            continue
        if event.kind == "tick.passed":
            told = event.data
            if told["tick"] != passed + 1 or told["acted"] != acted:
                found.append(f"tick {passed + 1} has {acted} actions, and ends with {told}")
            if told.get("rejected", 0) != rejected:
                found.append(f"tick {told['tick']} has {rejected} rejections, and tells of {told}")
            passed, acted, rejected = told["tick"], 0, 0
        elif event.tick not in (passed, passed + 1):
            found.append(f"event {event.seq} of tick {event.tick} stands after tick {passed}")
        elif event.data.get("act"):
            acted += 1
            rejected += event.kind == "action.rejected" or event.data.get("outcome") == "failed"
    if passed != audit.drawn.ticks or acted:
        found.append(f"after tick {passed} of {audit.drawn.ticks} come {acted} actions")
    return found


def _sight(audit: WorldAudit) -> list[str]:
    """Nobody's facts or prompts ever held a secret that it had no right to."""
    return [
        f"{agent} has seen {token}, to which it never had a right"
        for agent, token in dict.fromkeys(audit.played.seen)
        if (agent, token) not in audit.books.could
    ]


def _consent(audit: WorldAudit) -> list[str]:
    """Nobody pays more than the price that its thought saw, or than it said."""
    config = audit.drawn.config
    books = ConsentBooks(
        content=audit.books.content,
        activation=config["activation"],
        stages=config.get("stages", ()),
        caps=audit.played.caps,
    )
    for event in audit.events:
        books.take(local=event.local, kind=event.kind, actor=event.actor, tick=event.tick, data=event.data)
    return books.findings


CHECKS: dict[str, Callable[[WorldAudit], list[str]]] = {
    "money": _money,
    "ownership": _ownership,
    "ticks": _ticks,
    "sight": _sight,
    "consent": _consent,
}


def hashed(drawn: DrawnWorld, path: Path) -> str:
    """The hash of a world at its last tick; empty if something ended by the wall clock, which may differ."""

    async def ask() -> str:
        kernel: Kernel = opened(path, DrawnModel(len(drawn.agents)))
        try:
            rows = await kernel.store.query(
                "SELECT count(*) FROM events WHERE (kind = 'reflex.fell_through' AND"
                " json_extract(data, '$.why') IN ('timeout', 'crashed'))"
                """ OR instr(data, '"wall":{"') > 0"""  # of an invocation, of an act, of a move of a workflow
            )
            if rows[0][0]:
                return ""
            return (await hash_world(kernel.for_tenant(), WORLD)).sha256
        except ArtelierError as error:
            return f"{path.name}: {error.code}: {error}"  # equal to no other: it is a finding
        finally:
            await kernel.aclose()

    return asyncio.run(ask())
