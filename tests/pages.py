"""Write the generated pages of the documentation: `make docs`."""

from __future__ import annotations

from artelier.testing.event_table import event_table
from tests.repository.sources import ROOT


def write_pages() -> None:
    (ROOT / "docs" / "events.md").write_text(event_table(), encoding="utf-8")


if __name__ == "__main__":
    write_pages()
