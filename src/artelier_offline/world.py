"""An agent of a world: one action by a few plain rules over the facts that it is shown.

The rules know the headings of a world's prompts, and take no fact from texts of others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from artelier.errors import OfflineCannot
from artelier.ports.model import ModelRequest
from artelier_offline.conversation import json_in

SHARE = 4
"""It spends at most one part in so many of what it has on one thing."""
PRICE = 5
"""Scrip that it asks for a copy."""
EVERY = 5
"""Ticks after which it writes its notes anew."""
STUCK_TICKS = 5
FAILURES_MAX = 3

_COPY = ".copy-"
"""In the id of a bought copy, after the id of what it is a copy of."""
_ACTING = "Act once. Answer with exactly one JSON object"
_NOW = re.compile(r"^## Now\n\nTick: (\d+)\nBalance: (-?\d+) scrip\nYour artifacts: (.*)$", re.M)
_LAST = re.compile(r"^Last action: (\S+), success: (\S+)$", re.M)
_NAME = re.compile(r"^You are ([A-Za-z0-9._:/-]+)\.$")
_DATA = re.compile(r"<data [^>\n]*>\n.*?\n</data>", re.S)
_OFFERS = re.compile(r"^## Open offers\n\n<data [^>\n]*>\n(.*?)\n</data>", re.M | re.S)
_OFFERED = re.compile(r"^- `([a-z_]+)\(", re.M)
_TOLD = {"offer", "artifact", "seller", "price"}
_PHASE = re.compile(r"^Current phase: (.+?)(?:, for (\d+) ticks)?$", re.M)
_PHASES = re.compile(r"^Available phases: (.+)$", re.M)
_SUCCESS = re.compile(r"^Success: (\S+)$", re.M)
_FAILURES = re.compile(r"^Failures in a row: (\d+)$", re.M)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Facts:
    """The facts in an agent's prompt, about the agent and the market."""

    agent: str
    tick: int
    balance: int
    artifacts: tuple[str, ...]
    last: str
    offers: tuple[Mapping[str, Any], ...]
    actions: frozenset[str]


def is_wanted(request: ModelRequest) -> bool:
    """Return True if an agent of a world is asked for an action, or for the next state of its workflow."""
    return any(one.role == "system" and one.text.startswith(_ACTING) for one in request.messages) or (
        '"next_state"' in _last_text(request) and _PHASES.search(_last_text(request)) is not None
    )


def decide(request: ModelRequest) -> str:
    """The action, or the choice of a state, as one JSON object.

    Errors: `OfflineCannot` for a prompt that shows no facts in the shape it knows.
    """
    if not any(one.text.startswith(_ACTING) for one in request.messages):
        return json.dumps(_phase(_DATA.sub("", _last_text(request))))
    return json.dumps(_action(_facts(request)), ensure_ascii=False)


def _last_text(request: ModelRequest) -> str:
    return request.messages[-1].text if request.messages else ""


def _facts(request: ModelRequest) -> _Facts:
    told = _last_text(request)
    # What others wrote stands between marks: without it no line can pretend to be a fact.
    bare = _DATA.sub("", told)
    systems = [one.text for one in request.messages if one.role == "system"]
    named = [found[1] for text in systems if (found := _NAME.match(text))]
    now = list(_NOW.finditer(bare))
    if not now or not named:
        raise OfflineCannot("this prompt of a world shows no facts of the tick")
    last = _LAST.search(bare, now[-1].start())
    offers = _OFFERS.search(told)
    listed = "\n".join(text for text in systems if text.startswith(_ACTING))
    artifacts = () if now[-1][3] == "none" else tuple(now[-1][3].split(", "))
    return _Facts(
        agent=named[0],
        tick=int(now[-1][1]),
        balance=int(now[-1][2]),
        artifacts=artifacts,
        last=last[1] if last else "none",
        offers=_read_offers(offers[1] if offers else ""),
        actions=frozenset(_OFFERED.findall(listed)),
    )


def _read_offers(lines: str) -> tuple[Mapping[str, Any], ...]:
    """Return the offers that are shown; a line that was cut off is none."""
    found = [cast("dict[str, Any]", one) for one in map(json_in, lines.splitlines()) if isinstance(one, dict)]
    return tuple(one for one in found if _TOLD <= set(one) and type(one["price"]) is int)


def _action(facts: _Facts) -> dict[str, Any]:
    """The first rule that applies."""
    for rule in (_buy, _note, _offer):
        action = rule(facts)
        if action is not None and action["action"] in facts.actions:
            return action
    return {"reasoning": "No rule of the offline model applies.", "action": "noop"}


def _buy(facts: _Facts) -> dict[str, Any] | None:
    """The cheapest thing on offer that it lacks and can easily pay; not twice in a row."""
    if facts.last == "accept":
        return None
    has = {_origin(own) for own in facts.artifacts}
    fitting = [
        offer
        for offer in facts.offers
        if offer["seller"] != facts.agent
        and 0 <= offer["price"] <= facts.balance // SHARE
        and _origin(str(offer["artifact"])) not in has
    ]
    if not fitting:
        return None
    best = min(fitting, key=lambda offer: (offer["price"], str(offer["offer"])))
    return {
        "reasoning": f"{best['artifact']} is the cheapest thing on offer that I lack.",
        "action": "accept",
        "offer_id": best["offer"],
        "price_max": best["price"],
    }


def _origin(id_: str) -> str:
    return id_.partition(_COPY)[0]


def _note(facts: _Facts) -> dict[str, Any] | None:
    """Return what it sees of the market, in a document of its own."""
    id_ = f"{facts.agent}_notes"
    if id_ in facts.artifacts and facts.tick % EVERY:
        return None
    if id_ not in facts.artifacts and facts.last == "write":
        return None  # the last try did not give it one
    lines = [f"{one['offer']}: {one['artifact']} for {one['price']} scrip" for one in facts.offers]
    seen = "\n".join(lines) or "nothing is for sale"
    return {
        "reasoning": "Notes on the market are written every few ticks.",
        "action": "write",
        "artifact_id": id_,
        "kind": "document",
        "content": f"At tick {facts.tick}:\n{seen}",
    }


def _offer(facts: _Facts) -> dict[str, Any] | None:
    """A copy of the first thing that it has, did not buy and does not offer yet."""
    offered = {one["artifact"] for one in facts.offers if one["seller"] == facts.agent}
    own = [one for one in facts.artifacts if one != facts.agent and _COPY not in one]
    spare = [one for one in own if one not in offered]
    if not spare or facts.last == "offer":
        return None
    return {
        "reasoning": f"A copy of {spare[0]} can be sold, and it stays mine.",
        "action": "offer",
        "artifact_id": spare[0],
        "price": PRICE,
        "sells": "copy",
    }


def _phase(told: str) -> dict[str, str]:
    """Errors: `OfflineCannot` for a prompt without the phases in the shape it knows."""
    here, listed = _PHASE.search(told), _PHASES.search(told)
    if here is None or listed is None:
        raise OfflineCannot("this prompt does not say which phases there are")
    phases = listed[1].split(", ")
    success, failures = _SUCCESS.search(told), _FAILURES.search(told)
    if here[1] not in phases or (failures is not None and int(failures[1]) >= FAILURES_MAX):
        return {"next_state": phases[0], "reason": "Begin again."}
    is_done = success is None or success[1] == "true"
    if is_done or int(here[2] or 0) >= STUCK_TICKS:
        after = phases[(phases.index(here[1]) + 1) % len(phases)]
        return {"next_state": after, "reason": "The next phase of the list."}
    return {"next_state": here[1], "reason": "The phase has not done its work."}
