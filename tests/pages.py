"""Write the generated pages of the documentation: `make docs`."""

from __future__ import annotations

from artelier.cli.maintenance.reference_pages import cli_page, settings_page
from artelier.cli.narration.event_labels import typescript
from artelier.operations.profile.reference_page import operations_page
from artelier.world.actions import actions_page
from artelier_lab.event_table import event_table
from tests.repository.sources import ROOT

KIND_WORDS = ROOT / "web/src/projection/kindWords.ts"


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
    KIND_WORDS.write_text(typescript(), encoding="utf-8")


if __name__ == "__main__":
    write_pages()
