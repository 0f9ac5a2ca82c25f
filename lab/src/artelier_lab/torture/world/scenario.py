"""A small world as a seed draws it: what stands in it, and what its agents try, most of it in bad faith.

Every agent guards a secret: a private document with a token. Nobody ever copies what he has read into what
he writes, so a token reaches only those whom the world itself shows it to.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from artelier import ModelReply, ModelRequest, Usage
from artelier.ports.model import FREE, Price

TOKEN = re.compile(r"token-[0-9a-f]{16}")
"""What a secret looks like."""

TICK = re.compile(r"^Tick: (\d+)$", re.MULTILINE)
"""How the prompt of an agent says which tick it is."""

NAMED = re.compile(r"I am (a\d+);")
"""How the prompt of an agent that asks a model begins."""

TOOLS: tuple[str, ...] = (
    "def run(x):\n    return x * 2\n",
    "def run(x):\n    pay(caller, 1)\n    return balance()\n",
    "def run(x):\n    return read('secret-{k}')\n",
    "def run(x):\n    write(id='made-{k}', kind='document', content='by a tool ' + str(x))\n    return 1\n",
    "def run(x):\n    return invoke('tool-{k}', x=x + 1)\n",
    "def run(x):\n    try:\n        pay('a{k}', 5)\n        return invoke('tool-{k}', x=x)\n"
    "    except Exception as error:\n        return 'caught'\n",
    "def run(x):\n    pay('a{k}', 3)\n    raise ValueError('no')\n",
    "def run(x):\n    while True:\n        balance()\n",
)
"""Programs: honest, greedy, prying, nested in circles, failing, endless."""

CONTRACTS: tuple[str, ...] = (
    "def check(caller, action, target, context):\n    return caller in ('a0', 'a{k}')\n",
    "def check(caller, action, target, context):\n"
    "    return {{'allow': True, 'price': 2, 'payer': caller}}\n",
    "def check(caller, action, target, context):\n    return 'yes, please'\n",
    "def check(caller, action, target, context):\n    return context['tick'] % 2 == 0\n",
    "def check(caller, action, target, context):\n"
    "    return {{'allow': True, 'price': 1, 'payer': 'a{k}'}}\n",
)
"""Rules of access: some deny by being nonsense, one sends the bill to a stranger."""

REFLEX = """def reflex(context):
    n = context["seed"]
    offers = context["offers"]
    if offers and n % 3 == 0:
        return {"action": "accept", "offer_id": offers[n % len(offers)]["offer"], "price_max": 20}
    if n % 5 == 0:
        return None
    if n % 5 == 1:
        return {"action": "read", "ref": "secret-" + str(n % COUNT)}
    if n % 5 == 2:
        return {"action": "offer", "artifact_id": "doc-" + str(n % COUNT), "price": n % 9}
    return {"action": "transfer", "to": "a" + str(n % COUNT), "amount": 1 + n % 40}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thing:
    """An artifact that stands at the beginning."""

    id: str
    owner: str
    kind: str
    content: Any
    access: Any = None
    prices: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnWorld:
    """All that decides the course of a small world."""

    seed: int
    agents: tuple[str, ...]
    models: frozenset[str]
    """Agents that ask a model."""
    config: dict[str, Any]
    things: tuple[Thing, ...]
    ticks: int
    policies: Mapping[str, Callable[[dict[str, Any]], Any]]

    @property
    def asks_models(self) -> bool:
        """True if any agent may: those whose reflex gives no action do."""
        return any(thing.kind == "agent" and "policy" not in thing.content for thing in self.things)


def draw_world(seed: int) -> DrawnWorld:
    """The world of a seed, always the same."""
    rng = random.Random(f"world {seed}")
    count = rng.randint(5, 15)
    agents = tuple(f"a{n}" for n in range(count))
    kinds = {agent: rng.choices(("policy", "reflex", "model"), (6, 3, 1))[0] for agent in agents}
    if seed % 3:  # a third of the worlds knows only rules, another one no models but for lost reflexes
        spared = ("model",) if seed % 3 == 1 else ("model", "reflex")
        kinds = {agent: "policy" if kind in spared else kind for agent, kind in kinds.items()}
    config: dict[str, Any] = {
        "seed": seed,
        "start_balance": rng.choice((10, 100)),
        "model": "m",
        "activation": rng.choice(("simultaneous", "simultaneous", "random", "staged")),
        "mint": {"every": rng.choice((0, 2, 3))},
        "shocks": [
            {"tick": 2, "pay": rng.randint(-30, 30), "message": "a storm"},
            {"tick": 4, "pay": rng.randint(-200, 5), "to": list(agents[:2])},
        ],
    }
    if config["activation"] == "staged":
        config["stages"] = [list(agents[::2])]
    if rng.random() < 0.2:
        config["network"] = {agent: rng.sample(agents, k=count // 2) for agent in agents}
    things = [thing for agent in agents for thing in _belongings(rng, agent, kinds[agent], count)]
    return DrawnWorld(
        seed=seed,
        agents=agents,
        config=config,
        things=tuple(things),
        ticks=rng.randint(4, 10),
        models=frozenset(agent for agent in agents if kinds[agent] == "model"),
        policies={"drawn": Drawn(count)},
    )


def _belongings(rng: random.Random, agent: str, kind: str, count: int) -> list[Thing]:
    n, k = agent[1:], rng.randrange(count)
    token = f"token-{sha256(f'{agent} {rng.random()}'.encode()).hexdigest()[:16]}"
    mind: dict[str, Any] = {"model": "m", "system_prompt": f"I am {agent}; act."}
    if kind == "policy":
        mind = {"policy": "drawn"}
    if kind == "reflex":
        mind["reflex_artifact_id"] = f"reflex-{n}"
    if kind == "model":
        mind["subscribed_artifacts"] = [f"doc-{k}", f"secret-{k}"]
        mind["longterm_memory_artifact_id"] = f"mem-{n}"
    code = rng.choice(TOOLS).format(k=k)
    ruled = rng.choice(({"contract": f"rule-{k}"}, {"contract": f"rule-{n}"}, "public"))
    return [
        Thing(id=agent, owner=agent, kind="agent", content=mind),
        Thing(id=f"secret-{n}", owner=agent, kind="document", content=f"It is {token}.", access="private"),
        Thing(
            id=f"doc-{n}",
            owner=agent,
            kind="document",
            content=f"Known to all: {n}.",
            prices={"read": rng.randrange(3), "inclusion": rng.randrange(2)},
        ),
        Thing(id=f"mem-{n}", owner=agent, kind="memory_store", content={"config": {}}),
        Thing(
            id=f"tool-{n}",
            owner=agent,
            kind="tool",
            content={"code": code},
            prices={"invoke": rng.randrange(4)},
        ),
        Thing(
            id=f"rule-{n}",
            owner=agent,
            kind="contract",
            access="owner_writes",
            content={"code": rng.choice(CONTRACTS).format(k=k)},
        ),
        Thing(id=f"ruled-{n}", owner=agent, kind="document", content="Under a rule.", access=ruled),
        Thing(
            id=f"reflex-{n}",
            owner=agent,
            kind="reflex",
            content={"code": REFLEX.replace("COUNT", str(count))},
        ),
    ]


@dataclass
class Drawn:
    """A rule that draws an action from the agent's seed: anything at all, often what is not allowed."""

    count: int
    seen: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """`(agent, token)` found among facts."""
    caps: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])
    """What agents have said that they pay at most, by agent and tick."""

    def __call__(self, facts: dict[str, Any]) -> Any:
        agent = facts["agent_id"]
        self.seen += [(agent, token) for token in TOKEN.findall(repr(facts))]
        action = drawn_action(facts, self.count)
        note_cap(self.caps, action, agent, facts.get("tick", 0))
        return action


def note_cap(caps: dict[tuple[str, int], int], action: Mapping[str, Any], agent: str, tick: int) -> None:
    """Keep the `price_max` that an action says, if it says one."""
    if "price_max" in action:
        caps[agent, tick] = action["price_max"]


def drawn_action(facts: Mapping[str, Any], count: int) -> dict[str, Any]:
    """An action as JSON. Shapes: of the facts it takes `agent_id`, `seed`, `offers` and `tick`."""
    rng = random.Random(facts["seed"])
    at = _Place(facts, count)
    if "tick" in facts and rng.random() < (0.6 if at.me == at.wanted(facts["tick"]) else 0.15):
        return _haggled(rng, at, facts["tick"])
    kind = rng.choice(("accept", "read")) if at.offers and rng.random() < 0.4 else ""
    kind = kind or rng.choice(tuple(_ACTIONS))
    action = {"action": kind, **_ACTIONS[kind](rng, at)}
    if rng.random() < 0.1:
        action["reasoning"] = "because"
    return action


class _Place:
    """Names that an agent may come to think of."""

    def __init__(self, facts: Mapping[str, Any], count: int) -> None:
        self.me = str(facts["agent_id"])
        self.offers: list[dict[str, Any]] = list(facts.get("offers") or ())
        self.count = count

    def wanted(self, tick: int) -> str:
        """Return the agent whose document many want in a tick."""
        return f"a{tick % self.count}"

    def thing(self, rng: random.Random) -> str:
        """Draw an id, one of the agent's own things in half of the cases."""
        n = self.me[1:] if rng.random() < 0.5 else rng.randrange(self.count)
        kind = rng.choice(("secret", "secret", "doc", "mem", "tool", "rule", "ruled", "made", "x"))
        return f"{kind}-{n}"

    def agent(self, rng: random.Random) -> str:
        return f"a{rng.randrange(self.count + 1)}"  # one of them is nobody

    def on_sale(self, rng: random.Random) -> str:
        """Return what somebody sells, and others may have bought before."""
        if self.offers and rng.random() < 0.6:
            return rng.choice(self.offers)["artifact"]
        return self.thing(rng)

    def offer(self, rng: random.Random, *, own: bool = False) -> str:
        offers = [one for one in self.offers if (one["seller"] == self.me) == own]
        if offers and rng.random() < 0.9:
            return rng.choice(offers)["offer"]
        return f"offer-{rng.randrange(8)}-{rng.randrange(20)}"


def _haggled(rng: random.Random, at: _Place, tick: int) -> dict[str, Any]:
    """Draw an action in a tick in which many want one thing and its owner raises the price."""
    n = tick % at.count
    if at.me != f"a{n}":
        return {"action": "read", "ref": f"doc-{n}"}
    prices = {"read": rng.randrange(1, 9), "inclusion": rng.randrange(3)}
    return {"action": "write", "artifact_id": f"doc-{n}", "content": f"News {tick}.", "prices": prices}


def _write(rng: random.Random, at: _Place) -> dict[str, Any]:
    written: dict[str, Any] = {"artifact_id": at.thing(rng), "content": f"words {rng.random()}"}
    if rng.random() < 0.4:
        written["access"] = rng.choice(
            (
                "private",
                "public",
                "owner_writes",
                {"allow": {"read": [at.agent(rng)]}},
                {"contract": f"rule-{rng.randrange(at.count)}"},
                "nonsense",
            )
        )
    if rng.random() < 0.3:
        written["prices"] = {"read": rng.randrange(9), "invoke": rng.choice((0, 3, 10**12))}
    if rng.random() < 0.2:
        written["expected_version"] = rng.randrange(3)
    return written


def _offer(rng: random.Random, at: _Place) -> dict[str, Any]:
    sells = rng.choice(("ownership", "copy", "licence"))
    terms: dict[str, Any] = {}
    if sells == "licence":
        terms = rng.choice(({"uses": rng.randint(1, 2)}, {"ticks": rng.randint(1, 3)}))
    if sells == "copy":
        terms = {"royalty_percent": rng.choice((0, 30, 100))}
    if rng.random() < 0.2:
        terms["to"] = at.agent(rng)
    thing = rng.choice((at.thing(rng), f"secret-{at.me[1:]}"))
    return {"artifact_id": thing, "price": rng.choice((0, 1, 7, 60)), "sells": sells, **terms}


def _invoke(rng: random.Random, at: _Place) -> dict[str, Any]:
    store = f"mem-{at.me[1:] if rng.random() < 0.6 else rng.randrange(at.count)}"
    called: tuple[tuple[str, dict[str, Any]], ...] = (
        (f"tool-{rng.randrange(at.count)}", {"x": rng.randrange(5)}),
        ("genesis_memory_add", {"memory_artifact_id": store, "text": f"it rained {rng.random()}"}),
        ("genesis_memory_search", {"memory_artifact_id": store, "query": "rain"}),
        ("genesis_ledger", {"agent": at.agent(rng)}),
        (at.thing(rng), {}),
    )
    name, args = called[rng.choices(range(5), (6, 2, 2, 1, 1))[0]]
    more = {"price_max": rng.randrange(4)} if rng.random() < 0.3 else {}
    return {"artifact_id": name, "args": args, **more}


_ACTIONS: dict[str, Callable[[random.Random, _Place], dict[str, Any]]] = {
    "noop": lambda rng, at: {},
    "read": lambda rng, at: {"ref": at.on_sale(rng) + rng.choice(("", "", "", "@1", "#x"))},
    "write": _write,
    "edit": lambda rng, at: {"artifact_id": at.thing(rng), "old": "words", "new": "phrases"},
    "delete": lambda rng, at: {"artifact_id": at.thing(rng)},
    "invoke": _invoke,
    "transfer": lambda rng, at: {
        "to": rng.choice((at.agent(rng), "genesis_mint", f"artifact:tool-{at.me[1:]}")),
        "amount": rng.choice((1, 5, 50, 10**12)),
    },
    "subscribe_artifact": lambda rng, at: {"artifact_id": at.thing(rng)},
    "unsubscribe_artifact": lambda rng, at: {"artifact_id": at.thing(rng)},
    "configure": lambda rng, at: {"longterm_memory_artifact_id": at.thing(rng)},
    "search": lambda rng, at: {"text": rng.choice(("", "token", "words", "known"))},
    "offer": _offer,
    "accept": lambda rng, at: {"offer_id": at.offer(rng), "price_max": rng.choice((5, 100))},
    "cancel_offer": lambda rng, at: {"offer_id": at.offer(rng, own=rng.random() < 0.8)},
    "bid": lambda rng, at: {"artifact_id": at.thing(rng), "amount": rng.choice((1, 9, 99, 10**9))},
    "message": lambda rng, at: {"to": at.agent(rng), "text": "good day"},
}
"""Every action of the schema; a test compares the two."""


class DrawnModel:
    """Answers with an action drawn from the prompt, sometimes with words, sometimes with nonsense."""

    price: Price | None = FREE

    def __init__(self, count: int) -> None:
        self.count = count
        self.seen: list[tuple[str, str]] = []
        """`(agent, token)` found in prompts."""
        self.caps: dict[tuple[str, int], int] = {}

    async def complete(self, request: ModelRequest, /) -> ModelReply:
        text = "\n".join(message.text for message in request.messages)
        found = NAMED.search(text)
        agent = found.group(1) if found else "a0"
        self.seen += [(agent, token) for token in TOKEN.findall(text)]
        seed = int.from_bytes(sha256(text.encode()).digest()[:6], "big")
        facts: dict[str, Any] = {"agent_id": agent, "seed": seed}
        if tick := TICK.search(text):
            facts["tick"] = int(tick[1])
        drawn = drawn_action(facts, self.count)
        note_cap(self.caps, drawn, agent, facts.get("tick", 0))
        action = json.dumps(drawn)
        wrapped = (action, f"I think:\n```json\n{action}\n```", "Hm.")[seed % 17 % 3]
        return ModelReply(text=wrapped, usage=Usage(input_tokens=100, output_tokens=10))
