"""One input: what the other tenant sees of it, and whether all is as before when it is over."""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from artelier_lab.availability.client import Client
from artelier_lab.availability.neighbour import GIVEN_UP_S
from artelier_lab.availability.processes import Level, Process
from artelier_lab.availability.scene import Input, Scene
from artelier_lab.availability.served import ATTACKER, COLLEAGUES, NEIGHBOUR, TOKENS

P99_MS_MAX, MS_MAX = 250.0, 1_000.0
"""What another tenant may notice, on two cores of one's own."""
RSS_MB_MAX = 1_024.0
PAGE_S_MAX = 2.0
"""After a start the page opens within this."""
MEASURED_S_MIN = 4.0
"""At 50 a second: two hundred requests, so that one late one is not the 99th percentile."""
ATTACK_S_MAX = 60.0
SETTLE_S_MAX = 20.0
"""How long descriptors, threads and children may take to go back to the level before."""
SAMPLE_S = 0.05
START_S_MAX = 60.0

FIXED = ("/me", "/artifacts/notes%2Fneighbour", "/profiles", "/membranes", "/tasks", "/worlds")
"""What the neighbour asks before and after, and its own requests change nothing of."""


@dataclass(slots=True, kw_only=True)
class Result:
    """The effects of one input."""

    input: str
    answered: str = ""
    """What the attacker was told."""
    ms_p99: float = 0.0
    ms_max: float = 0.0
    requests: int = 0
    failed: dict[str, int] = field(default_factory=dict[str, int])
    """Requests of the neighbour that were no success, by status; 0 for no answer in ten seconds."""
    step_ms_p99: float = 0.0
    step_ms_max: float = 0.0
    heartbeat_ms_p99: float = 0.0
    heartbeat_ms_max: float = 0.0
    rss_mb_max: float = 0.0
    as_before: bool = False
    twin_ok: bool = False
    frozen: bool = False
    """Whether the server answered nobody any more, and had to be killed."""
    opened_s: float | None = None
    """How long the page took to open after that."""
    left: list[str] = field(default_factory=list[str])
    """What is not as before."""

    @property
    def is_correct(self) -> bool:
        """Return whether all holds that does not depend on the speed of the machine."""
        is_whole = self.as_before and self.twin_ok and not self.frozen and not self.failed
        return is_whole and self.rss_mb_max <= RSS_MB_MAX

    @property
    def is_quick(self) -> bool:
        p99 = max(self.ms_p99, self.step_ms_p99, self.heartbeat_ms_p99)
        return p99 <= P99_MS_MAX and max(self.ms_max, self.step_ms_max, self.heartbeat_ms_max) <= MS_MAX

    @property
    def line(self) -> str:
        """The cost of the input and its failures, as one line."""
        wrong = ["frozen"] if self.frozen else []
        wrong += [] if self.twin_ok else ["its twin failed"]
        wrong += [f"{count} requests were answered {status}" for status, count in self.failed.items()]
        return (
            f"{self.input}: {self.ms_p99:,.0f} ms at p99, {self.ms_max:,.0f} at most,"
            f" step {self.step_ms_max:,.0f}, beat {self.heartbeat_ms_max:,.0f}, {self.rss_mb_max:,.0f} MB"
            f" ({self.answered[:60]})" + "".join(f"; {what}" for what in [*wrong, *self.left])
        )


class House:
    """The server, the neighbour and a provider beside it; all are started anew after a server was killed."""

    def __init__(self, folder: Path, *, plant: str = "") -> None:
        self._folder = folder
        self.database = folder / "state.db"
        self._plant = plant
        self.served: Process
        self._neighbour: Process
        self._provider: Process
        self.port = 0

    async def start(self) -> float:
        """Start the server and the neighbour; return how long the page took to open, from the start on."""
        loop = asyncio.get_running_loop()
        self._provider = self._process("provider")
        provider_url = (await self._provider.answer(START_S_MAX))["url"]
        began_s = loop.time()
        self.served = self._process("served", str(self.database), provider_url, self._plant)
        self.port = (await self.served.answer(START_S_MAX))["port"]
        page = await self.client().get("/")
        opened_s = loop.time() - began_s
        if not page.is_good:
            raise EOFError(f"the page did not open: {page.status}")
        self._neighbour = self._process("neighbour", str(self.port), TOKENS[NEIGHBOUR])
        await self._neighbour.answer(START_S_MAX)
        return opened_s

    def _process(self, module: str, *arguments: str) -> Process:
        return Process(module, *arguments, log=self._folder / f"{module}.log")

    def client(self, tenant: str = "") -> Client:
        return Client(self.port, token=TOKENS.get(tenant, ""))

    def scene(self, name: str) -> Scene:
        return Scene(
            attacker=self.client(ATTACKER),
            colleagues=tuple(Client(self.port, token=token) for token in COLLEAGUES.values()),
            stranger=self.client(),
            served=self.served,
            name=name,
        )

    def begin(self) -> None:
        self._neighbour.say("begin")

    async def figures(self) -> dict[str, Any]:
        """Return what the neighbour saw. Errors: `TimeoutError`, `EOFError` if the server is frozen."""
        seen = await self._neighbour.ask("end", within_s=GIVEN_UP_S + 5.0)
        return seen | await self.served.ask({"figures": True}, within_s=10.0)

    def kill(self) -> None:
        self.served.kill()
        self._neighbour.kill()
        self._provider.kill()

    async def fixed(self) -> dict[str, str]:
        """Return what the neighbour is told of things that nobody changes."""
        client = self.client(NEIGHBOUR)
        found: dict[str, str] = {}
        for path in FIXED:
            answer = await client.get(path)
            found[path] = f"{answer.status} {hashlib.sha256(answer.body).hexdigest()[:16]}"
        return found


async def furnish(house: House) -> None:
    """Write what the neighbour reads."""
    note = {"id": "notes/neighbour", "kind": "document", "content": "What it was before."}
    await house.client(NEIGHBOUR).post("/artifacts", note)


async def try_input(house: House, tried: Input, *, measured_s: float = MEASURED_S_MIN) -> Result:
    """Attack once and measure for so long at least; a server that is frozen is killed and started again."""
    result = Result(input=tried.name)
    # The decent twin comes first, so that pools and caches of that door are as they will be.
    with suppress(TimeoutError, EOFError):
        result.twin_ok = await tried.twin(house.scene(f"{tried.name}-before"))
    before, fixed = house.served.level(), await house.fixed()
    await _measured(house, tried, result, measured_s=measured_s)
    if result.frozen:
        house.kill()
        result.opened_s = round(await house.start(), 2)
        before = house.served.level()
    result.left = await _left(house, before, fixed)
    result.as_before = not result.left
    twin_ok = False
    with suppress(TimeoutError, EOFError):
        twin_ok = await tried.twin(house.scene(f"{tried.name}-after"))
    result.twin_ok = result.twin_ok and twin_ok
    return result


async def _measured(house: House, tried: Input, result: Result, *, measured_s: float) -> None:
    loop = asyncio.get_running_loop()
    with suppress(TimeoutError, EOFError):
        await house.served.ask({"figures": True})  # those of the time before do not count
    watching = asyncio.ensure_future(_watch(house.served, result))
    began_s = loop.time()
    house.begin()
    try:
        async with asyncio.timeout(ATTACK_S_MAX):
            result.answered = await tried.attack(house.scene(tried.name))
    except (TimeoutError, EOFError):
        result.answered = "no answer"
    await asyncio.sleep(max(0.0, measured_s - (loop.time() - began_s)))
    try:
        seen = await house.figures()
    except (TimeoutError, EOFError):
        result.frozen = True
        seen: dict[str, Any] = {"p99_ms": 1e4, "max_ms": 1e4}
    finally:
        watching.cancel()
    result.ms_p99, result.ms_max = round(seen["p99_ms"], 1), round(seen["max_ms"], 1)
    result.requests, result.failed = seen.get("requests", 0), seen.get("failed", {})
    for name in ("step_ms_p99", "step_ms_max", "heartbeat_ms_p99", "heartbeat_ms_max"):
        setattr(result, name, round(seen.get(name, 0.0), 1))


async def _watch(served: Process, result: Result) -> None:
    while True:
        result.rss_mb_max = max(result.rss_mb_max, round(served.rss_mb(), 1))
        await asyncio.sleep(SAMPLE_S)


async def _left(house: House, before: Level, fixed: dict[str, str]) -> list[str]:
    """Return what is not as before the attack, after a while at most."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + SETTLE_S_MAX
    while True:
        now = house.served.level()
        if now.is_within(before) or loop.time() > until_s:
            break
        await asyncio.sleep(SAMPLE_S)
    left = [] if now.is_within(before) else [f"{before} became {now}"]
    told = await house.fixed()
    return left + [f"{path}: {fixed[path]}, now {told[path]}" for path in FIXED if fixed[path] != told[path]]
