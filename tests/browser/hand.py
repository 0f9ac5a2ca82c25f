"""What a person does in Mission Control, found by role and name; and what the server says of it."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

from playwright.sync_api import Locator, Page, expect

from tests.browser.inside import Gate

GOAL = "Which three regions sold most, and what changed from Q2 to Q3? Write a report."
FIGURES = ("42983.02", "26819.64", "19748.24")
"""Of North, South and East, in the example data."""

_UNTIL = """async ([url, statuses, tries]) => {
    let status = "";
    for (let n = 0; n < tries; n++) {
        try {
            const answer = await fetch(url);
            if (answer.ok) status = (await answer.json()).status;
        } catch (error) { status = String(error); }
        if (statuses.includes(status)) return status;
        await new Promise((go) => setTimeout(go, 100));
    }
    return "still " + status;
}"""
_TRIES = 600


class Hand:
    """One browser, signed in."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self._csrf = ""

    # What the server says

    def get(self, *parts: str, **query: Any) -> Any:
        """JSON of the API, as this browser may see it; ids are parts of their own."""
        return self._answer(self.page.request.get(self.url(*parts), params=query))

    def text(self, *parts: str, **query: Any) -> str:
        answer = self.page.request.get(self.url(*parts), params=query)
        assert answer.ok, answer.text()
        return answer.text()

    def post(self, *parts: str, body: Any = None, **query: Any) -> Any:
        """What no screen is needed for."""
        if not self._csrf:
            self._csrf = self.get("me")["csrf_token"]
        headers = {"X-CSRF-Token": self._csrf, "Origin": self._origin}
        return self._answer(
            self.page.request.post(
                self.url(*parts), data={} if body is None else body, headers=headers, params=query
            )
        )

    def url(self, *parts: str) -> str:
        return "/".join([f"{self._origin}/api/v1", *(quote(part, safe="") for part in parts)])

    def until(self, *parts: str, status: str | tuple[str, ...]) -> None:
        """Wait until the server says that something has one of these statuses."""
        wanted = [status] if isinstance(status, str) else [*status]
        found = self.page.evaluate(_UNTIL, [self.url(*parts), wanted, _TRIES])
        assert found in wanted, f"{parts} is {found}, expected {wanted}: {self.text(*parts)}"

    def items(self, *parts: str, **query: Any) -> list[Any]:
        """All of a list, over its pages."""
        found: list[Any] = []
        after: Any = None
        while True:
            more: dict[str, Any] = {} if after is None else {"after": str(after)}
            page = self.get(*parts, **query, **more)
            found += page["items"]
            after = page.get("next")
            if after is None:
                return found

    def events(self, kind: str) -> list[Any]:
        return self.items("events", kind=kind, limit="1000")

    def title(self, ref: str) -> str:
        """What an artifact is called, of `id` or `id@version`."""
        return str(self.get("artifacts", ref.partition("@")[0])["metadata"]["title"])

    @property
    def _origin(self) -> str:
        return "/".join(self.page.url.split("/")[:3])

    @staticmethod
    def _answer(answer: Any) -> Any:
        assert answer.ok, f"{answer.url}: {answer.status} {answer.text()}"
        return answer.json()

    # What a person does

    def plan(self, goal: str = GOAL) -> Locator:
        """Type a goal and press Plan; the dialog with the plan."""
        self.page.get_by_role("textbox", name="Goal", exact=True).fill(goal)
        self.page.get_by_role("button", name="Plan", exact=True).click()
        dialog = self.page.get_by_role("dialog", name="Plan")
        expect(dialog.get_by_role("button", name="Launch")).to_be_enabled()
        return dialog

    def launch(self, goal: str = GOAL, *, gate: Gate | None = None) -> str:
        """From the goal to agents at work; the mission's id. With a gate, the first call is held there."""
        dialog = self.plan(goal)
        if gate is not None:
            gate.hold()
        dialog.get_by_role("button", name="Launch").click()
        expect(dialog).to_be_hidden()
        expect(self.node("Agent").first).to_be_visible()
        return self.mission()

    def show_canvas(self) -> None:
        """Go to the canvas, unless it is there."""
        if "/canvas" not in self.page.url:
            rail = self.page.get_by_role("navigation", name="Screens")
            rail.get_by_role("link", name="Canvas", exact=True).click()

    def open_goal(self, mission: str) -> Locator:
        """Go to the page of a goal by its address; the page."""
        self.page.goto(f"{self._origin}/goals/{quote(mission, safe='')}")
        return self.page.get_by_role("main", name="Goals")

    def mission(self) -> str:
        """The newest mission's id."""
        return str(self.items("missions")[-1]["id"])

    def node(self, kind: str, name: str = "") -> Locator:
        """An agent, a task, an artifact or a membrane on the canvas; without a name all of them."""
        self.show_canvas()
        canvas = self.page.get_by_role("application", name="Canvas")
        ends = "(,|$)" if name else ""
        return canvas.get_by_role("group", name=re.compile(f"^{kind} {re.escape(name)}{ends}"))

    def choose(self, kind: str, name: str, *, of: str = "") -> Locator:
        """Select it by keyboard search on the canvas; the inspector. `of`: the mission that it is of."""
        self.show_canvas()
        find = self.page.get_by_role("combobox", name="Find on the canvas")
        find.fill(name)
        found = self.page.get_by_role("listbox", name="Found")
        option = found.get_by_role("option").filter(has_text=re.compile(f"{kind} · {re.escape(of)}"))
        option.first.click()
        return self.inspector

    def tab_to(self, name: str, *, presses_max: int = 120) -> None:
        """Press Tab until what is called so has the focus."""
        for _ in range(presses_max):
            self.page.keyboard.press("Tab")
            focused = self.page.locator(":focus")
            if focused.count() and f'"{name}"' in focused.aria_snapshot().splitlines()[0]:
                return
        raise AssertionError(f"{name} cannot be reached by Tab")

    @property
    def inspector(self) -> Locator:
        return self.page.get_by_role("complementary", name="Inspector")

    @property
    def console(self) -> Locator:
        if self.page.url.rstrip("/") == self._origin or "/goals" in self.page.url:
            self.show_canvas()  # a goal's page has none
        return self.page.get_by_role("region", name="Console")

    def tab(self, name: str) -> Locator:
        """A tab of the console, opened; its panel."""
        self.console.get_by_role("tab", name=name).click()
        return self.console.get_by_role("tabpanel", name=name)

    def go(self, screen: str) -> Locator:
        """To a screen by the rail, or by what a phone has for it; the screen, when it is there."""
        rail = self.page.get_by_role("navigation", name="Screens")
        rail.get_by_role("link").first.wait_for()
        link = rail.get_by_role("link", name=screen, exact=True)
        if not link.count():
            rail.get_by_role("button").click()
            link = self.page.get_by_role("dialog", name="More screens").get_by_role(
                "link", name=screen, exact=True
            )
        link.click()
        main = self.page.get_by_role("main")
        expect(self.page).to_have_title(re.compile(screen))
        main.get_by_role("heading", level=1).first.wait_for(state="attached")
        expect(main.get_by_text(re.compile("^Loading "))).to_have_count(0)
        return main
