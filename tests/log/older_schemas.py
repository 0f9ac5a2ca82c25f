"""Files as older schemas have left them."""

from __future__ import annotations

import sqlite3

_LATER = {
    8: (
        "DROP INDEX blobs_by_key",
        "DROP INDEX keys_of_tenants",
        "DROP INDEX keys_of_subjects",
        "DROP TRIGGER keys_grow",
        "ALTER TABLE moved_contents DROP COLUMN keys",
    ),
    7: (
        *(f"DROP TRIGGER {name}" for name in ("contents_grow", "contents_go", "values_grow", "values_go")),
        "DROP TABLE moved_contents",
    ),
    6: ("ALTER TABLE keys DROP COLUMN parent",),
    5: ("DROP TABLE tenant_positions",),
}


def take_back(db: sqlite3.Connection, version: int) -> None:
    """Take away what the schemas after `version` have brought; the oldest is 4."""
    for later in sorted(_LATER, reverse=True):
        if later > version:
            for statement in _LATER[later]:
                db.execute(statement)
    db.execute(f"PRAGMA user_version = {version}")
