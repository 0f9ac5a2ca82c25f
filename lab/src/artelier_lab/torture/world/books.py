"""Another bookkeeping of a world, kept beside it: who owns, may read and has bought what, event by event.

It folds the world's stream on its own, by the rules as they are written down and not as they are programmed,
and notes every event that these rules do not allow.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from artelier_lab.torture.world.scenario import TOKEN

ESCROW = "genesis_escrow"


class Happened(NamedTuple):
    """One event of the world's space."""

    local: str
    seq: int
    kind: str
    actor: str
    tick: int
    data: dict[str, Any]


@dataclass(slots=True, kw_only=True)
class _Licence:
    artifact: str
    holder: str
    uses: int | None
    until: int | None
    used: int = 0


@dataclass(slots=True, kw_only=True)
class Books:
    """The state known after some events. `content` returns the text behind a reference."""

    agents: Sequence[str]
    content: Callable[[str], str]
    owners: dict[str, str] = field(default_factory=dict[str, str])
    access: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    gone: set[str] = field(default_factory=set[str])
    tokens: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """By artifact, of all its versions."""
    offers: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    """Those that are open."""
    licences: dict[str, _Licence] = field(default_factory=dict[str, _Licence])
    could: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """`(agent, token)`: it had the right to read it at some time."""
    findings: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    _last: Happened | None = None

    def take(self, event: Happened) -> None:
        """Take up one event; they come in the order of their positions."""
        handler = _HANDLERS.get(event.kind)
        if handler is not None:
            handler(self, event)
        self._look(event)
        self._last = event

    def found(self, promise: str, event: Happened, what: str) -> None:
        self.findings.append((promise, f"event {event.seq} ({event.kind}, tick {event.tick}): {what}"))

    # Rights

    def may_read(self, who: str, id_: str, *, tick: int) -> str:
        """Return the right by which somebody may read an artifact; empty for none.

        A contract may say anything, so its right is always `contract`.
        """
        access = self.access.get(id_, {})
        policy = access.get("policy")
        if id_ in self.gone or policy is None:
            return ""
        if policy == "contract":
            return "contract"
        allowed = access.get("allow", {}).get("read", ()) if policy == "allow" else ()
        if self.owners[id_] == who or who in allowed or "*" in allowed:
            return "owner" if self.owners[id_] == who else "list"
        if policy in ("public", "owner_writes"):
            return policy
        if (
            any(
                offer["artifact"] == id_ and offer["seller"] == who and offer["sells"] == "ownership"
                for offer in self.offers.values()
            )
            and self.owners[id_] == ESCROW
        ):
            return "seller"
        for licence in self.licences.values():
            if licence.artifact == id_ and licence.holder == who:
                if licence.until is not None and licence.until >= tick:
                    return "licence"
                if licence.uses is not None and licence.used <= licence.uses:
                    return "counted"
        return ""

    def _learn(self, id_: str, *, tick: int) -> None:
        for agent in self.agents if self.tokens[id_] else ():
            if self.may_read(agent, id_, tick=tick):
                self.could |= {(agent, token) for token in self.tokens[id_]}

    # Artifacts

    def written(self, event: Happened) -> None:
        data, id_ = event.data, event.data["id"]
        if data["owner"] != self.owners.get(id_, event.actor):
            self.found("ownership", event, f"a write gives {id_} to {data['owner']}")
        self.owners[id_], self.access[id_] = data["owner"], data["access"]
        self.tokens[id_] |= set(TOKEN.findall(self.content(data["content"])))
        self._learn(id_, tick=event.tick)

    def deleted(self, event: Happened) -> None:
        id_ = event.data["id"]
        if self.owners[id_] == ESCROW:
            self.found("escrow", event, f"{id_} is deleted out of escrow")
        self.gone.add(id_)

    def transferred(self, event: Happened) -> None:
        data, id_ = event.data, event.data["id"]
        if self.owners.get(id_) != data["giver"] or id_ in self.gone:
            self.found("ownership", event, f"{data['giver']} gives {id_} of {self.owners.get(id_)}")
        self.owners[id_] = data["to"]
        self.access[id_] = data.get("access") or self.access[id_]
        self._learn(id_, tick=event.tick)

    def charged(self, event: Happened) -> None:
        name = event.data.get("licence", "")
        licence = self.licences.get(name)
        if licence is not None and licence.uses is not None:
            licence.used += 1
            if licence.used > licence.uses:
                self.found("licences", event, f"{name} was sold for {licence.uses} uses")

    # Sales

    def offered(self, event: Happened) -> None:
        data = event.data
        owner = self.owners.get(data["artifact"])
        expected = ESCROW if data["sells"] == "ownership" else data["seller"]
        if owner != expected or data["seller"] != event.actor:
            self.found("ownership", event, f"{data['seller']} offers what {owner} owns")
        self.offers[data["offer"]] = data

    def accepted(self, event: Happened) -> None:
        data = event.data
        name, buyer, price = data["offer"], data["buyer"], data["price"]
        offer = self.offers.get(name)
        if offer is None or offer["price"] != price or offer.get("to", "") not in ("", buyer):
            self.found("sales", event, f"{name} is no offer of {price} to {buyer}")
            return
        self._paid_once(event)
        if data["sells"] == "ownership":
            del self.offers[name]
            if self.owners[data["artifact"]] != buyer:
                self.found("ownership", event, f"{buyer} has bought, and does not own")
        if data["sells"] == "licence":
            self.licences[f"{name}.{event.seq}"] = _Licence(
                artifact=data["artifact"], holder=buyer, uses=data.get("uses"), until=data.get("until_tick")
            )
        if data["sells"] == "copy":
            self.tokens[data["got"]] |= self.tokens[data["artifact"]]
            self._learn(data["got"], tick=event.tick)
        self._learn(data["artifact"], tick=event.tick)

    def _paid_once(self, event: Happened) -> None:
        """The price leaves the buyer once, and nobody else pays anything."""
        data = event.data
        gives: defaultdict[str, int] = defaultdict(int)
        for source, target, _asset, amount in data.get("postings", ()):
            gives[source] -= amount
            gives[target] += amount
        buyer = f"principal:{data['buyer']}"
        expected = 0 if data["buyer"] == data["seller"] else -data["price"]
        losers = {account for account, sum_ in gives.items() if sum_ < 0}
        if gives[buyer] < expected or losers - {buyer}:
            self.found("sales", event, f"{data['price']} was asked, and moved is {dict(gives)}")
        if expected and sum(max(sum_, 0) for sum_ in gives.values()) != data["price"]:
            self.found("sales", event, f"{data['price']} was asked, and moved is {dict(gives)}")

    def cancelled(self, event: Happened) -> None:
        offer = self.offers.pop(event.data["offer"], None)
        if offer is None:
            self.found("sales", event, "it was not open")
        elif (
            offer["sells"] == "ownership"
            and offer["artifact"] not in self.gone
            and self.owners[offer["artifact"]] != offer["seller"]
        ):
            self.found("escrow", event, "its seller has not got it back")

    # Reading

    def _look(self, event: Happened) -> None:
        """Check the content that an agent is shown as the result of an action."""
        act = event.data.get("act")
        if not act:
            return
        who, ref = event.actor, str(act.get("ref", "")).partition("@")[0].partition("#")[0]
        if event.kind == "action.taken" and act["action"] == "read":
            right = self.may_read(who, ref, tick=event.tick)
            if not right:
                self.found("rights", event, f"{who} reads {ref} without a right")
            elif right == "counted" and not self._was_counted(who, ref):
                self.found("licences", event, f"{who} reads {ref}, and no use is counted")
        result = act.get("result")
        shown = set(TOKEN.findall(self.content(result))) if result else set[str]()
        for token in shown:
            if act["action"] == "invoke":
                self.found("rights", event, f"a program has told {who} {token}")
            elif (who, token) not in self.could:
                self.found("rights", event, f"{who} is shown {token}, to which it never had a right")

    def _was_counted(self, who: str, id_: str) -> bool:
        last = self._last
        return (
            last is not None
            and last.kind == "artifact.charged"
            and bool(last.data.get("licence"))
            and (last.data["payer"], last.data["id"]) == (who, id_)
        )


_HANDLERS: dict[str, Callable[[Books, Happened], None]] = {
    "artifact.written": Books.written,
    "artifact.deleted": Books.deleted,
    "artifact.transferred": Books.transferred,
    "artifact.charged": Books.charged,
    "offer.made": Books.offered,
    "offer.accepted": Books.accepted,
    "offer.cancelled": Books.cancelled,
}
