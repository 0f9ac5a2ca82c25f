"""Random sequences of commands, faults and reloads: what the page says is what the server says.

The canvas folds events, a goal's page shows the server's views. After each command both are compared with the
API: the status, the cost and the counts of the goal, and the status of each of its tasks and forks.
`ARTELIER_SEQUENCES=200` runs as many sequences; a failure names its seed and all that was done.
"""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from artelier.errors import External, ModelRefusedCall, RateLimited
from tests.browser.conftest import SALES, SignIn
from tests.browser.hand import GOAL, Hand
from tests.browser.inside import Gate, inside
from tests.browser.served import WAIT_S
from tests.browser.test_goal_page import Moody, moody

pytestmark = pytest.mark.slow

SEQUENCES = int(os.environ.get("ARTELIER_SEQUENCES", "4"))
COMMANDS = 7

RUN_WORDS = {
    "pending": "waits for a worker",
    "waiting_approval": "needs approval",
    "unknown_outcome": "unknown outcome",
    "budget_exhausted": "out of budget",
    "completed": "done",
}
"""Words for statuses that are not called by their code."""

CANVAS = """() => {
    const head = document.querySelector("section[aria-label=Mission] button");
    const nodes = [...document.querySelectorAll("[aria-label^='Task ']")].map((one) => one.ariaLabel);
    return { head: head?.textContent ?? "", tasks: nodes };
}"""
GOAL_PAGE = """() => {
    const text = (one) => one?.textContent ?? "";
    const how = document.querySelector("aside[aria-label='How it came about']");
    const facts = [...(how?.querySelectorAll("dl > div") ?? [])].map((one) => [...one.children].map(text));
    const rows = [...(how?.querySelectorAll("ol button") ?? [])].map((one) => [...one.children].map(text));
    return { word: text(document.querySelector("main header [role=status] > span")), facts, rows };
}"""


class Played:
    """One goal with its two pages, and what was done to it so far."""

    def __init__(self, hand: Hand, goal: Page, gate: Gate, model: Moody, seed: int) -> None:
        self.hand, self.goal, self.gate, self.model = hand, goal, gate, model
        self.random = random.Random(seed)
        self.mission = f"seed-{seed}"
        self.done = [f"seed {seed}"]

    # Commands and faults

    def begin(self) -> None:
        self.gate.open()
        self.hand.post("god-mode", "plan", body={"goal": GOAL, "mission_id": self.mission}, wait=60)
        self.gate.hold()
        self.hand.post("god-mode", self.mission, "launch")
        address = "/".join(self.hand.page.url.split("/")[:3])
        self.hand.page.goto(f"{address}/canvas/{self.mission}")
        self.goal.goto(f"{address}/goals/{self.mission}")

    def act(self) -> None:
        name, act = self.random.choice([*self.commands().items()])
        self.done.append(name)
        act()

    def commands(self) -> dict[str, Callable[[], object]]:
        task = f"{self.mission}/{self.random.choice(['figures', 'report'])}"
        usd = self.random.choice(["0.01", "0.05", "9"])
        failure = self.random.choice([RateLimited("slow down", retry_after_s=0), ModelRefusedCall("no")])
        return {
            "pause": lambda: self.ask("runs", "pause-all", mission=self.mission),
            "resume": lambda: self.ask("runs", "resume-all", mission=self.mission),
            "stop": lambda: self.ask("runs", task, "stop"),
            "retry": lambda: self.ask("runs", self.mission, "retry"),
            f"retry {task}": lambda: self.ask("tasks", task, "retry"),
            f"cancel {task}": lambda: self.ask("tasks", task, "cancel"),
            f"fork {task}": lambda: self.ask("runs", task, "fork"),
            f"limit {usd}": lambda: self.ask("runs", self.mission, "limit", body={"unit": "usd", "cap": usd}),
            f"a failure {type(failure).__name__}": lambda: self.fail(failure),
            "the model replies": self.gate.open,
            "the model hangs": self.gate.hold,
            "reload": lambda: [page.reload() for page in (self.hand.page, self.goal)],
            "no network for a while": self.drop,
        }

    def ask(self, *parts: str, body: Any = None, **query: Any) -> None:
        """A command, which the server may refuse: then nothing may change anywhere."""
        headers = {"X-CSRF-Token": self.hand.get("me")["csrf_token"]}
        headers["Origin"] = "/".join(self.hand.page.url.split("/")[:3])
        answer = self.hand.page.request.post(
            self.hand.url(*parts), data=body or {}, headers=headers, params=query
        )
        assert answer.status < 500, answer.text()
        self.done[-1] += "" if answer.ok else f" (refused, {answer.status})"

    def fail(self, failure: External) -> None:
        self.model.failures.append(failure)
        self.gate.open()

    def drop(self) -> None:
        self.hand.page.context.set_offline(True)
        time.sleep(0.2)  # of a person's train in a tunnel
        self.hand.page.context.set_offline(False)

    # What everybody says

    def check(self) -> None:
        """Wait until all say the same, for what is on its way; what never agrees is a mistake."""
        until_s = time.monotonic() + WAIT_S
        wrong = self.differences()
        while wrong and time.monotonic() < until_s:
            self.hand.page.wait_for_timeout(100)
            wrong = self.differences()
        assert not wrong, f"{wrong} after {self.done}"

    def differences(self) -> list[str]:
        shown = self.hand.get("missions", self.mission)
        forks = {
            one["id"]: self.hand.get("tasks", one["id"])["status"]
            for one in self.hand.items("runs")
            if one["id"].startswith(f"{self.mission}/") and one["origin"]
        }
        found = self._on_canvas(shown, forks) + self._on_goal_page(shown)
        again = self.hand.get("missions", self.mission)
        return found if again == shown else found or ["it goes on"]

    def _on_canvas(self, shown: Any, forks: dict[str, str]) -> list[str]:
        seen = self.hand.page.evaluate(CANVAS)
        done = sum(one["status"] == "done" for one in shown["tasks"])
        tasks = {one["id"]: one["status"] for one in shown["tasks"]} | forks
        said = re.search(r"(\d+) of (\d+) tasks? done(?:at least )?(\S+) ·", seen["head"])
        wrong: list[str] = []
        if word_of(shown) not in seen["head"]:
            wrong.append(f"canvas: {seen['head']!r}, not {word_of(shown)!r}")
        if said is None or said.groups()[:2] != (str(done), str(len(shown["tasks"]))):
            wrong.append(f"canvas: {seen['head']!r}, not {done} of {len(shown['tasks'])}")
        if said is not None and not forks and said[3] != dollars(shown["cost_microusd"]):
            wrong.append(f"canvas: {said[3]}, not {dollars(shown['cost_microusd'])}")
        for id_, status in tasks.items():
            name = f"Task {id_.rpartition('/')[2]}, "
            words = [
                one.removeprefix(name).partition(":")[0] for one in seen["tasks"] if one.startswith(name)
            ]
            wanted = {status, "out of budget"} if status == "blocked" else {status}
            if len(words) != 1 or words[0] not in wanted:
                wrong.append(f"canvas: {name}{words}, not {status}")
        return wrong

    def _on_goal_page(self, shown: Any) -> list[str]:
        seen = self.goal.evaluate(GOAL_PAGE)
        facts = dict(seen["facts"])
        done = sum(one["status"] == "done" for one in shown["tasks"])
        cost = dollars(shown["cost_microusd"])
        wrong: list[str] = []
        if word_of(shown) not in seen["word"]:
            wrong.append(f"goal: {seen['word']!r}, not {word_of(shown)!r}")
        if facts.get("Tasks done") != f"{done} of {len(shown['tasks'])}":
            wrong.append(f"goal: {facts.get('Tasks done')} tasks, not {done} of {len(shown['tasks'])}")
        if facts.get("Cost", "").partition(" ")[0] != cost:
            wrong.append(f"goal: {facts.get('Cost')}, not {cost}")
        for row, task in zip(seen["rows"], shown["tasks"], strict=False):
            if row[1] != dollars(task["cost_microusd"]):
                wrong.append(f"goal: {row[0]} {row[1]}, not {dollars(task['cost_microusd'])}")
        return wrong


def word_of(shown: Any) -> str:
    status = shown["status"]
    if shown["launched_us"] is None:
        return "plan ready" if status == "waiting_approval" else "planning"
    return RUN_WORDS.get(str(status), str(status))


def dollars(micro: int) -> str:
    digits = 2 if micro == 0 or micro >= 10_000_000 else 3 if micro >= 1_000 else 6
    return f"${micro / 1_000_000:.{digits}f}"


def test_whatever_happens_every_status_cost_and_count_is_the_servers(tmp_path: Path, sign_in: SignIn) -> None:
    gate = Gate()
    model = Moody(gate)
    with inside(tmp_path, moody(model), workspace=str(SALES)) as server:
        canvas, goal = sign_in(server.link()), sign_in(server.link())
        for seed in range(SEQUENCES):
            model.failures.clear()
            played = Played(Hand(canvas), goal, gate, model, seed)
            played.begin()
            played.check()
            for _ in range(COMMANDS):
                played.act()
                played.check()
        gate.open()
