"""A chat with `rp-basic` played by a script, beside a small model of what its artifacts must be.

The model knows nothing of nodes, views or branches in a store. It keeps the tree of what was said itself,
takes from each run only the values that its commits have recorded, and lays them over what was before.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from artelier import Kernel, ModelRequest, Session
from artelier.agents.loop_registry import replay_run
from artelier.kernel import run_row
from artelier.kernel.queries.content import blob_json
from artelier.log import decode_stored, stored_blob
from artelier.operations import events as ev
from artelier.ports.model import FREE, Price
from artelier_offline import OfflineModel

SAID = (
    "I enter the tavern with a lantern.",
    "I attack the ogre with my sword!",
    "I take the rope and the silver key.",
    "We walk to the market.",
    "I strike the troll.",
    "I rest until evening.",
    "I draw my dagger and stab the shadow.",
    "I walk to the old mill.",
)
OPENING: dict[str, Any] = {
    "model": "m",
    "profile": "rp-basic",
    "user": "Bob",
    "char": {"name": "Ann", "description": "An elf."},
}
STATE_MAX, FEED_MAX = 20, 50
"""What `rp-basic` retains of `world_state`, beside the value, and of `combat_log`."""


class Heard:
    """The offline model, with all that it was asked."""

    price: Price | None = FREE

    def __init__(self) -> None:
        self._model = OfflineModel()
        self.requests: list[ModelRequest] = []

    async def complete(self, request: ModelRequest, /) -> Any:
        self.requests.append(request)
        return await self._model.complete(request)

    async def stream(self, request: ModelRequest, /) -> AsyncIterator[Any]:
        self.requests.append(request)
        async for item in self._model.stream(request):
            yield item


def open_kernel(path: Path, model: Heard | None = None, **more: Any) -> Kernel:
    return Kernel.open(path, models={"m": model or Heard()}, environ={}, **more)


Versions = tuple[tuple[int, Any, str], ...]
"""Version, value and run, oldest first."""


@dataclass(frozen=True)
class Point:
    """The chat after one variant of a turn."""

    number: int
    above: Point | None
    text: str = ""
    run: str = ""
    state: Mapping[str, Mapping[str, Versions]] = field(default_factory=dict)
    """By session, by tag."""
    variants: list[Point] = field(default_factory=list, compare=False, repr=False)
    """All replies to what the person said there, this one among them."""


class Story:
    """Plays a chat and checks its artifacts, on all that it can see, after each step."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.heads: dict[str, Point] = {"main": Point(0, None)}
        self.scope: dict[str, str] = {"main": "default"}
        self.began: dict[str, Mapping[str, Versions]] = {}
        """What each run must have found, by run."""
        self.points: dict[str, Point] = {}
        """By run, in order."""

    @property
    def head(self) -> Point:
        return self.heads[self.session.branch_name]

    async def say(self, text: str) -> None:
        await self._ran(await self.session.generate(text), above=self.head, variants=[])

    async def again(self) -> None:
        head = self.head
        assert head.above is not None
        await self._ran(await self.session.regenerate(), above=head.above, variants=head.variants)

    async def _ran(self, result: Any, *, above: Point, variants: list[Point]) -> None:
        assert (result.status, result.failed, result.turn) == ("completed", None, above.number + 1)
        scope = self.scope[self.session.branch_name]
        found = dict(above.state.get(scope, {}))
        self.began[result.run_id] = dict(found)
        for report in await written(self.session, result.run_id):
            version = found[report.tag][-1][0] + 1 if report.tag in found else 1
            assert report.version == version
            value = await json_of(self.session, report.value)
            found[report.tag] = (*found.get(report.tag, ()), (version, value, result.run_id))
        state = {**above.state, scope: found}
        point = Point(result.turn, above, result.text, result.run_id, state, variants)
        variants.append(point)
        assert result.variant == len(variants)
        self.points[point.run] = point
        self.heads[self.session.branch_name] = point
        await self.check()

    async def select(self, turn: int, variant: int, *, newest: str = "") -> None:
        """`newest`: the run where the conversation went on last below that variant, if it did."""
        chosen = self._at(turn).variants[variant - 1]
        await self.session.select_variant(turn, variant)
        self.heads[self.session.branch_name] = self.points[newest] if newest else chosen
        await self.check()

    async def rewind(self, turn: int) -> None:
        await self.session.rewind(turn)
        self.heads[self.session.branch_name] = self._at(turn)
        await self.check()

    async def branch(self, name: str, *, at: int) -> None:
        point, scope = self._at(at), self.scope[self.session.branch_name]
        self.session = await self.session.branch(name, at_turn=at)
        self.heads[name], self.scope[name] = point, scope
        await self.check()

    async def on(self, name: str) -> None:
        self.session = await self.session.on(name)
        await self.check()

    async def reset(self, name: str) -> None:
        await self.session.reset(name)
        self.scope[self.session.branch_name] = name
        await self.check()

    async def reopen(self, name: str) -> None:
        await self.session.reopen(name)
        self.scope[self.session.branch_name] = name
        await self.check()

    def _at(self, turn: int) -> Point:
        point = self.head
        while point.number != turn:
            assert point.above is not None
            point = point.above
        return point

    async def check(self, session: Session | None = None) -> None:
        """The artifacts, their histories and the replies of a branch are those of the model, in any store."""
        session = session or self.session
        head = self.heads[session.branch_name]
        expected = head.state.get(self.scope[session.branch_name], {})
        assert await shelf(session) == shelf_of(expected)
        assert [turn.text for turn in await session.turns(limit=100)] == [p.text for p in path(head)]


def path(head: Point) -> list[Point]:
    found: list[Point] = []
    point: Point | None = head
    while point is not None and point.number:
        found.append(point)
        point = point.above
    return found[::-1]


def shelf_of(expected: Mapping[str, Versions]) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    if state := expected.get("world_state"):
        earlier = [(value, run) for _, value, run in state[:-1]][::-1][:STATE_MAX]
        shown["world_state"] = (state[-1][0], state[-1][1], earlier)
    if feed := expected.get("combat_log"):
        kept = feed[-FEED_MAX:]
        shown["combat_log"] = (
            feed[-1][0],
            [entry for _, entry, _ in kept],
            [(entry, run) for _, entry, run in kept][::-1],
        )
    return shown


async def shelf(session: Session) -> dict[str, Any]:
    """Version, value and history of every artifact that the branch has, those for nobody included."""
    found: dict[str, Any] = {}
    for tag, one in (await session.arts(internal=True)).items():
        history = await session.history(tag, internal=True)
        found[tag] = (one["version"], one["value"], [(h["value"], h["run"]) for h in history])
    return found


async def receipts(session: Session, run: str, kind: type[Any]) -> list[Any]:
    """Events of a kind in a run's own stream, read from the log and nowhere else."""
    rows = await session.store.query(
        "SELECT e.data FROM events e JOIN streams s ON s.id = e.stream"
        " WHERE s.tenant = ? AND s.name = ? AND e.kind = ? ORDER BY e.seq",
        (session.desk.id, f"run:{run}", kind.KIND),
    )
    return [decode_stored(data, type=kind) for (data,) in rows]


async def written(session: Session, run: str) -> Sequence[ev.EffectReport]:
    """What a run wrote of persisted artifacts, in the order of commit, by its own reports."""
    commits = await receipts(session, run, ev.CommitReported)
    return [
        report
        for commit in commits
        for report in commit.reports
        if report.type == "artifact.upsert" and report.status == "applied" and report.version
    ]


async def replayed(kernel: Kernel, run: str) -> Any:
    """A run's drive over its record, with nothing to call."""
    row = await run_row(kernel.services.store, "default", run)
    settings: Any = await blob_json(kernel.services, "default", row.settings)
    return await kernel.for_tenant().replay(run, lambda one: replay_run(one, settings))


async def json_of(session: Session, ref: Any) -> Any:
    return decode_stored(await stored_blob(session.store, session.desk.id, ref))


async def play_thirty(story: Story) -> None:
    """Thirty turns on `main`: variants, a choice, a way back, a branch, and a session that begins anew."""
    said = [f"{SAID[n % len(SAID)]} ({n})" for n in range(40)]
    for n in range(6):
        await story.say(said[n])
    for _ in range(2):
        await story.again()
    await story.select(6, 2)
    await story.say(said[6])
    await story.select(6, 1)  # nothing was said below it
    await story.say(said[7])
    first = story.head.run
    await story.select(6, 2, newest="c/r000009")
    await story.select(6, 1, newest=first)
    for n in range(8, 13):
        await story.say(said[n])
    await story.branch("aside", at=8)
    for n in (30, 31):
        await story.say(said[n])
    await story.again()
    await story.on("main")
    await story.rewind(10)
    await story.again()
    for n in range(13, 18):
        await story.say(said[n])
    await story.reset("second")
    for n in range(18, 22):
        await story.say(said[n])
    await story.again()
    await story.branch("apart", at=17)
    await story.say(said[32])
    await story.on("main")
    await story.reopen("default")
    while story.head.number < 30:
        await story.say(said[story.head.number % len(said)])
