"""Write the generated pages of the documentation: `make docs`."""

from __future__ import annotations

from artelier.cli.narration.event_labels import WORDS
from artelier.world.actions import actions_page
from artelier_lab.command_pages import cli_page, settings_page
from artelier_lab.event_table import event_table
from artelier_lab.operations_page import operations_page
from tests.repository.sources import ROOT

KIND_WORDS = ROOT / "web/src/projection/kindWords.ts"


def kind_words() -> str:
    """The table for Mission Control."""
    lines = [
        "/** What each kind says by its fields alone. Generated from "
        "`cli/narration/event_labels.py` by `make docs`. */",
        "export const KIND_WORDS: Readonly<Record<string, string>> = {",
        *(f'  "{kind}": "{words}",' for kind, words in sorted(WORDS.items())),
        "};",
    ]
    return "\n".join(lines) + "\n"


def write_pages() -> None:
    pages = {
        "actions.md": actions_page(),
        "cli.md": cli_page(),
        "events.md": event_table(),
        "operations.md": operations_page(),
        "settings.md": settings_page(),
    }
    for name, text in pages.items():
        (ROOT / "docs" / name).write_text(text, encoding="utf-8")
    KIND_WORDS.write_text(kind_words(), encoding="utf-8")


if __name__ == "__main__":
    write_pages()
