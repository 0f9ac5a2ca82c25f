"""Random asyncio programs: trees drawn from a seed. What one gives is what its code has seen, in order.

What the guide excludes is not drawn: two plain timers in one program, one that cuts off plain waiting, or one
that ends at the same instant as a durable one, or as a step whose end cancels it; a stream that is left in a
race against a plain timer.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from artelier import ModelResult, Run
from tests.determinism.harness import Outside
from tests.determinism.programs import compute, look, put
from tests.kernel.stage import user

LEAVES = ("model", "model", "model", "tool", "compute", "sync", "bad", "stream", "nap", "plain")
NESTS = ("seq", "seq", "gather", "completed", "group", "wait", "first", "finally", "limit", "kill")
DEPTH_MAX = 3
CAUGHT = (ZeroDivisionError, TimeoutError)


@dataclass(frozen=True)
class Node:
    """One piece of work; `path` makes its keys unlike all others."""

    kind: str
    path: str
    children: tuple[Node, ...] = ()
    seconds: float = 0.0
    count: int = 0


class Draw:
    """Draws the tree of one seed."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(f"program {seed}")
        self._timers = 1

    def program(self) -> Node:
        return Node("seq", "r", tuple(self.node(f"r{n}", 1, is_timed=False) for n in range(3)))

    def node(self, path: str, depth: int, *, is_timed: bool, is_limited: bool = False) -> Node:
        rng = self._rng
        if depth > DEPTH_MAX or rng.random() < 0.4:
            kind = rng.choice(LEAVES)
            if kind == "plain" and (is_timed or not self._timers):
                kind = "model"
            self._timers -= kind == "plain"
            return Node(kind, path, seconds=rng.choice((0.3, 1.0, 2.5)), count=rng.randint(1, 4))
        if self._timers and rng.random() < 0.25:
            self._timers -= 1
            child = self.node(f"{path}.0", depth + 1, is_timed=True, is_limited=is_limited)
            seconds = rng.choice((0.3, 0.8, 1.3))
            # Never at the instant of a durable limit around it.
            return Node("wait_for", path, (child,), seconds + 0.02 if is_limited else seconds)
        kind = rng.choice(NESTS)
        if kind == "completed" and is_timed:  # its tasks outlive the timer, which would cut off no step
            kind = "gather"
        width = {"limit": 1, "finally": 2, "kill": 2}.get(kind, rng.randint(2, 4))
        within = is_limited or kind == "limit"
        children = tuple(
            self.node(f"{path}.{n}", depth + 1, is_timed=is_timed, is_limited=within) for n in range(width)
        )
        seconds = rng.choice((0.3, 0.8, 1.3, 4.0))
        # Never at the instant of a plain timer around it.
        return Node(kind, path, children, seconds + 0.05 if is_timed else seconds)


def durable_limits(node: Node) -> set[float]:
    """Return how long the durable timeouts of a tree last."""
    own = {node.seconds} if node.kind == "limit" else set[float]()
    return own.union(*map(durable_limits, node.children))


def _all_in(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from _all_in(child)


def raced_streams(tree: Node) -> set[str]:
    """Return the paths of streams in races against plain timers, as the guide excludes them."""
    races = [list(_all_in(node)) for node in _all_in(tree) if node.kind in ("wait", "first", "kill")]
    timed = [race for race in races if any(node.kind in ("plain", "wait_for") for node in race)]
    return {node.path for race in timed for node in race if node.kind == "stream"}


class Performer:
    """Runs a tree, and notes what its code sees."""

    def __init__(self, run: Run, out: Outside, tree: Node) -> None:
        self.limits = durable_limits(tree)
        """No plain timer of that length may stand beside a durable one, as the guide says."""
        self.whole = raced_streams(tree)
        """Streams that are read to the end."""
        self.run = run
        self.out = out
        self.seen: list[str] = []

    async def do(self, node: Node) -> str:
        try:
            value = await getattr(self, f"_{node.kind}")(node)
        except CAUGHT as error:
            value = type(error).__name__
        self.seen.append(f"{node.path} {value}")
        return node.path

    def _spawn(self, node: Node) -> list[asyncio.Task[str]]:
        return [asyncio.ensure_future(self.do(child)) for child in node.children]

    async def _model(self, node: Node) -> str:
        asked = self.run.step_model(model="m", messages=[user(node.path)], key=node.path)
        return (await asked).text

    async def _bad(self, node: Node) -> str:
        text = f"!{node.path}"
        return (await self.run.step_model(model="m", messages=[user(text)], key=node.path)).text

    async def _tool(self, node: Node) -> str:
        # Drawn from the path, so that the trees of earlier seeds stay what they were.
        call = put if sum(node.path.encode()) % 2 else look
        return await call(self.run, node.path)

    async def _compute(self, node: Node) -> str:
        return await compute(self.run, self.out, node.path)

    async def _sync(self, node: Node) -> str:
        return await self.run.step("sync", lambda: node.path, key=node.path)

    async def _stream(self, node: Node) -> str:
        got: list[str] = []
        stream = self.run.stream_model(model="m", messages=[user(node.path)], key=node.path)
        async for item in stream:
            if isinstance(item, ModelResult):
                return f"whole {item.text}"
            got.append(item.text)
            if len(got) == node.count and node.path not in self.whole:
                break
        return "left"

    async def _nap(self, node: Node) -> None:
        await self.run.sleep(node.seconds, key=node.path)

    async def _plain(self, node: Node) -> str:
        # Never at the instant at which a step ends: those take tenths of a second, and commits of 0.004 s.
        await asyncio.sleep(node.seconds + 0.035)
        return await self._model(node)

    async def _seq(self, node: Node) -> str:
        return "+".join([await self.do(child) for child in node.children])

    async def _gather(self, node: Node) -> str:
        return "+".join(await asyncio.gather(*self._spawn(node)))

    async def _completed(self, node: Node) -> str:
        return "+".join([await one for one in asyncio.as_completed(self._spawn(node))])

    async def _group(self, node: Node) -> str:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self.do(child)) for child in node.children]
        return "+".join(task.result() for task in tasks)

    async def _wait(self, node: Node) -> str:
        tasks = self._spawn(node)
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return "+".join(sorted(task.result() for task in done))

    async def _first(self, node: Node) -> str:
        work = [self.do(child) for child in node.children]
        return str(await self.run.first(*work, key=node.path))

    async def _finally(self, node: Node) -> str:
        work, cleanup = node.children
        try:
            return await self.do(work)
        finally:
            await self.do(cleanup)

    async def _limit(self, node: Node) -> str:
        async with self.run.timeout(node.seconds, key=node.path):
            return await self.do(node.children[0])

    async def _wait_for(self, node: Node) -> str:
        seconds = node.seconds + 0.02 if node.seconds in self.limits else node.seconds
        if len(node.path) % 4 > 1:  # before Python 3.12, `wait_for` cancels a task of its own
            async with asyncio.timeout(seconds):
                return await self.do(node.children[0])
        return await asyncio.wait_for(self.do(node.children[0]), seconds)

    async def _kill(self, node: Node) -> str:
        victim, killer = self._spawn(node)
        try:
            await killer
        finally:
            victim.cancel()
            await asyncio.gather(victim, killer, return_exceptions=True)
        return "killed" if victim.cancelled() else "too late"


def generated(seed: int) -> Any:
    """The program of a seed."""
    tree = Draw(seed).program()

    async def code(run: Run, out: Outside) -> Any:
        performer = Performer(run, out, tree)
        await performer.do(tree)
        return list(performer.seen)  # tasks that nobody waits for may go on for a moment

    return code


def generated_beside(seed: int, *, fails: bool) -> Any:
    """The program of a seed beside a call that fails after a while, which ends it, or does not."""
    tree = Draw(seed).program()
    rng = random.Random(f"beside {seed}")
    is_group, after_s = rng.random() < 0.5, rng.choice((0.05, 0.3, 0.7, 1.2, 2.1))

    async def ask(run: Run) -> None:
        await run.sleep(after_s, key="z")
        await run.step_model(model="m", messages=[user("!q" if fails else "q")], key="q")

    async def code(run: Run, out: Outside) -> Any:
        performer = Performer(run, out, tree)
        if not is_group:
            await asyncio.gather(performer.do(tree), ask(run))
        else:
            async with asyncio.TaskGroup() as group:
                group.create_task(performer.do(tree))
                group.create_task(ask(run))
        return list(performer.seen)

    return code
