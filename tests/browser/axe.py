"""What axe finds wrong with a page as it is shown now."""

from __future__ import annotations

from playwright.sync_api import Page

from tests.repository.sources import ROOT

AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]

COLOURS = ["color-contrast", "link-in-text-block"]
"""Rules whose verdict another theme can change."""

_RUN = """async (only) => {
    const found = await axe.run(document, { runOnly: only });
    return found.violations.map((one) => `${one.id}: ${one.help}\\n` + one.nodes.slice(0, 3).map((node) =>
        `    ${node.target.join(" ")}  ${(node.any[0] ?? node.all[0] ?? node.none[0])?.message ?? ""}`
    ).join("\\n"));
}"""


def violations(page: Page, *, kind: str, rules: list[str]) -> list[str]:
    """One text each, with the first elements that it is about. `kind`: what `rules` names, tags or rules."""
    if not page.evaluate("typeof window.axe === 'object'"):
        page.evaluate(AXE.read_text("utf-8"))
    return page.evaluate(_RUN, {"type": kind, "values": rules})


class Audit:
    """Collects what is wrong on one view after the other, in both themes, so that one run tells of all."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._found: dict[str, list[str]] = {}

    def look(self, view: str) -> None:
        self._page.emulate_media(color_scheme="light")
        light = violations(self._page, kind="rule", rules=COLOURS)
        self._page.emulate_media(color_scheme="dark")
        dark = violations(self._page, kind="tag", rules=TAGS)
        if found := [f"in light: {one}" for one in light] + dark:
            self._found[view] = found

    def verdict(self) -> None:
        told = [f"{view}\n  " + "\n  ".join(found) for view, found in self._found.items()]
        assert not told, "\n".join(told)
