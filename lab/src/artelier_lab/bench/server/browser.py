"""Mission Control in a real Chromium: how soon it draws, how it moves, how its longest list scrolls."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from artelier import Kernel
from artelier.server.settings import STATIC
from artelier_lab.bench.figures import median
from artelier_lab.bench.server.goals import goal_model, work_on_goals
from artelier_lab.bench.server.live import Served
from artelier_lab.bench.server.moves import (
    ANSWER,
    FRAMES,
    LIVE,
    LONGEST_TASK,
    PAINT,
    PAN_AND_ZOOM,
    SCROLL,
    WATCH_TASKS,
)
from artelier_lab.bench.server.page import NO_BUILD
from artelier_lab.bench.server.scene import ROOM_NODES

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

NO_CHROMIUM = "there is no Chromium (apt-get install chromium, or ARTELIER_CHROMIUM=path)"
NO_DRIVER = "the driver of the browser is not installed (pip install playwright)"

ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--force-color-profile=srgb",
)
"""Of a Chromium that draws on any machine, and talks to nobody else."""

PATIENCE_MS = 120_000.0
WIDTH, HEIGHT = 1440, 900
EVERYTHING = "/canvas?all=1"
"""The canvas of all goals, with the console below it."""

ZOOM = 0.5
"""Where nodes are read and not yet clusters."""

MOVED_SHARE_MIN = 0.8
"""Of the frames of a pan: else it was not the moving that was measured."""

SPARE_ROWS = 24
"""Rows that may be mounted beyond those in sight: ten on both sides, and those that are cut."""

DROPPED_SHARE_MAX = 0.01
"""Of the frames of a scroll; one garbage collection is seen in several hundred."""

FIGURES = (
    "canvas_fps_1000_nodes",
    "canvas_frame_ratio_1000_over_100",
    "canvas_nodes_mounted_most",
    "console_rows_10000_ok",
    "console_dropped_frames_share",
    "first_paint_ms",
    "goal_first_paint_ms",
    "goal_answer_ms",
    "moving_300_frame_share",
    "moving_300_longest_task_ms",
    "long_log_events",
    "long_log_goals_ms",
    "long_log_canvas_ms",
    "long_log_heap_mb",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PagePlan:
    """The sizes of the benchmark; the names of figures hold for the full plan."""

    few_nodes: int = 100
    many_nodes: int = 1_000
    frames: int = 120
    rows: int = 10_000
    scrolls: int = 2
    paints: int = 5
    events_per_s: int = 20
    moving_agents: int = 300
    goals: int = 130


def chromium() -> str | None:
    """Return where a Chromium is, if there is one."""
    named = os.environ.get("ARTELIER_CHROMIUM")
    names = ("chromium", "chromium-browser", "google-chrome")
    return named or next((path for name in names if (path := shutil.which(name))), None)


def cannot(static: Path = STATIC) -> str:
    """Return why no page can be measured here; "" if one can."""
    from importlib.util import find_spec

    if not (static / "index.html").exists():
        return NO_BUILD
    if find_spec("playwright") is None:
        return NO_DRIVER
    return "" if chromium() is not None else NO_CHROMIUM


async def page_figures(
    folder: Path, plan: PagePlan, progress: Callable[[str], None]
) -> tuple[dict[str, float | None], dict[str, str]]:
    """`FIGURES`, and why those are None that are."""
    if reason := cannot():
        return dict.fromkeys(FIGURES), dict.fromkeys(FIGURES, reason)
    found: dict[str, float | None] = {}
    missing: dict[str, str] = {}
    served = Served(folder / "page.db")
    try:
        async with _browser() as browser:
            progress("server: the first paint")
            found["first_paint_ms"] = await _first_paint(browser, served, plan.paints)
            progress(f"server: the canvas with {plan.few_nodes} nodes, then {plan.many_nodes}")
            found |= await _canvas(browser, served, plan, missing)
            progress(f"server: {plan.rows} rows of the console")
            found |= await _console(browser, served, plan)
            progress("server: the page of a goal")
            found |= await _goal(browser, folder / "goal.db", plan.paints)
            progress(f"server: {plan.moving_agents} agents that move")
            found |= await _moving(browser, folder / "moving.db", plan)
            progress(f"server: a log of {plan.goals} goals")
            found |= await _long_log(browser, folder / "long.db", plan)
    finally:
        served.close()
    return found, missing


@asynccontextmanager
async def _browser() -> AsyncGenerator[Browser]:
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium(), args=[*ARGUMENTS])
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def _visit(browser: Browser, served: Served, *, screen: str = "") -> AsyncGenerator[Page]:
    """The page in a browser profile of its own, in which nothing is cached; signed in."""
    name, _, value = served.cookie.partition("=")
    context = await browser.new_context(viewport={"width": WIDTH, "height": HEIGHT})
    try:
        context.set_default_timeout(PATIENCE_MS)
        await context.add_cookies([{"name": name, "value": value, "url": served.address}])
        page = await context.new_page()
        await page.goto(f"{served.address}{screen}")
        yield page
    finally:
        await context.close()


async def _first_paint(browser: Browser, served: Served, paints: int) -> float:
    times: list[float] = []
    for _ in range(paints):
        async with _visit(browser, served) as page:
            times.append(float(await page.evaluate(PAINT)))
    return median(times)


async def _goal(browser: Browser, database: Path, paints: int) -> dict[str, float | None]:
    """The page of a goal that is done, opened by its address in a new browser profile."""
    kernel = Kernel.open(database, models={"scripted": goal_model()}, environ={})
    try:
        await work_on_goals(kernel, goals=1)
    finally:
        await kernel.aclose()
    painted: list[float] = []
    answered: list[float] = []
    served = Served(database)
    try:
        for _ in range(paints):
            async with _visit(browser, served, screen="/goals/goal-0") as page:
                answered.append(float(await page.evaluate(ANSWER)))
                painted.append(float(await page.evaluate(PAINT)))
    finally:
        served.close()
    return {"goal_first_paint_ms": median(painted), "goal_answer_ms": median(answered)}


async def _moving(browser: Browser, database: Path, plan: PagePlan) -> dict[str, float | None]:
    """Agents on the canvas while the view moves, against the same canvas while it is empty."""
    served = Served(database)
    try:
        async with _visit(browser, served, screen=EVERYTHING) as page:
            await page.evaluate(FRAMES, 30)
            empty = median((await page.evaluate(FRAMES, plan.frames))["times"])
        await served.ask(settle=plan.moving_agents)
        async with _visit(browser, served, screen=EVERYTHING) as page:
            await _all_there(page, served)
            await page.get_by_role("button", name="Show everything").click()
            await page.evaluate(FRAMES, 60)
            await page.evaluate(WATCH_TASKS)
            moved = await page.evaluate(PAN_AND_ZOOM, {"frames": plan.frames, "zoom": ZOOM})
            longest = float(await page.evaluate(LONGEST_TASK))
    finally:
        served.close()
    mean = sum(moved["times"]) / len(moved["times"])
    return {"moving_300_frame_share": empty / mean, "moving_300_longest_task_ms": longest}


async def _long_log(browser: Browser, database: Path, plan: PagePlan) -> dict[str, float | None]:
    """Goals that are all done: how soon the list of them, and the canvas of all, can be worked with."""
    kernel = Kernel.open(database, models={"scripted": goal_model()}, environ={})
    try:
        await work_on_goals(kernel, goals=plan.goals)
    finally:
        await kernel.aclose()
    served = Served(database)
    found: dict[str, list[float]] = {"/goals": [], EVERYTHING: []}
    heaps: list[float] = []
    try:
        head = (await served.ask())["head"]
        for screen, times in found.items():
            for _ in range(plan.paints):
                async with _visit(browser, served, screen=screen) as page:
                    times.append(float(await page.evaluate(LIVE)))
                    if screen == EVERYTHING:  # the console there says how much has been read
                        await _all_there(page, served)
                    heaps.append(await _heap_mb(page))
    finally:
        served.close()
    return {
        "long_log_events": head,
        "long_log_goals_ms": median(found["/goals"]),
        "long_log_canvas_ms": median(found[EVERYTHING]),
        "long_log_heap_mb": max(heaps),
    }


async def _heap_mb(page: Page) -> float:
    """What the page's objects take, without what nobody holds any more."""
    session: Any = await page.context.new_cdp_session(page)
    await session.send("HeapProfiler.collectGarbage")
    return float((await session.send("Runtime.getHeapUsage"))["usedSize"]) / 1e6


async def _all_there(page: Page, served: Served) -> None:
    """Wait until the page has folded every event there is."""
    head = (await served.ask())["head"]
    await page.get_by_text(f"{head:,} events").first.wait_for()


async def _canvas(
    browser: Browser, served: Served, plan: PagePlan, missing: dict[str, str]
) -> dict[str, float | None]:
    """One page, with few nodes first and then with many; documents change while the view moves."""
    few, many = plan.few_nodes // ROOM_NODES, plan.many_nodes // ROOM_NODES
    await served.ask(furnish={"first": 0, "rooms": few})
    async with _visit(browser, served, screen=EVERYTHING) as page:
        with_few = await _moved(page, served, few, plan)
        await served.ask(furnish={"first": few, "rooms": many - few})
        with_many = await _moved(page, served, many, plan)
    for found in (with_few, with_many):
        if found["moved"] < MOVED_SHARE_MIN * len(found["times"]):
            reason = f"the view moved in {found['moved']} of {len(found['times'])} frames only"
            names = [name for name in FIGURES if name.startswith("canvas_")]
            missing.update(dict.fromkeys(names, reason))
            return dict.fromkeys(names)
    times: list[float] = with_many["times"]
    return {
        "canvas_fps_1000_nodes": 1000 * len(times) / sum(times),
        "canvas_frame_ratio_1000_over_100": median(times) / median(with_few["times"]),
        "canvas_nodes_mounted_most": max(with_few["mounted"], with_many["mounted"]),
    }


async def _moved(page: Page, served: Served, rooms: int, plan: PagePlan) -> dict[str, Any]:
    """Return what `PAN_AND_ZOOM` tells, from a view of everything on."""
    await _all_there(page, served)
    await page.get_by_role("button", name="Show everything").click()
    await page.evaluate(FRAMES, 30)
    events = 2 * plan.frames * plan.events_per_s // 60
    asked = {"rooms": rooms, "rate": plan.events_per_s, "events": events}
    revising = asyncio.create_task(served.ask(revise=asked))
    try:
        return await page.evaluate(PAN_AND_ZOOM, {"frames": plan.frames, "zoom": ZOOM})
    finally:
        await revising


async def _console(browser: Browser, served: Served, plan: PagePlan) -> dict[str, float | None]:
    """The stream of events from end to end, while nothing else happens.

    Frames that this page drops are dropped every time, those that a neighbour on the machine costs are not:
    of several scrolls the one with the fewest counts.
    """
    head = (await served.ask())["head"]
    if head < plan.rows:
        await served.ask(write={"rate": 0, "events": plan.rows - head, "name_chars": 0})
    async with _visit(browser, served, screen=EVERYTHING) as page:
        await _all_there(page, served)
        console = page.get_by_role("region", name="Console")
        await console.get_by_role("combobox", name="Kind of event").select_option("all")
        await page.evaluate(FRAMES, 30)
        idle_ms = median((await page.evaluate(FRAMES, 60))["times"])
        scrolls = [await page.evaluate(SCROLL) for _ in range(plan.scrolls)]
    dropped = min(sum(time > 1.5 * idle_ms for time in one["times"]) / len(one["times"]) for one in scrolls)
    is_ok = dropped <= DROPPED_SHARE_MAX and all(
        one["seen"] == one["rows"] >= plan.rows and one["mounted"] <= one["in_sight"] + SPARE_ROWS
        for one in scrolls
    )
    return {"console_rows_10000_ok": int(is_ok), "console_dropped_frames_share": dropped}
