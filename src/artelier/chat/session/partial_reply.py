"""The recorded reply of a turn that has not ended."""

from __future__ import annotations

from typing import Any

import msgspec

from artelier.chat.turn.main_call import KEY, MainCall
from artelier.kernel.events import StepCompleted
from artelier.log import Store, decode_stored, stored_blob

COMMIT = "commit/after"
"""Key of the step with which the reply becomes the turn's."""


async def reply_so_far(store: Store, tenant: str, run: int) -> MainCall | None:
    """Return how the main call of a run ended, while its reply is not in the chat yet; else None.

    `run` is the row id of the run's stream. What later operations will make of the reply is not in it.
    """
    rows = await store.query(
        "SELECT s.key, e.data FROM steps s JOIN events e ON e.stream = s.run AND e.seq = s.completed"
        " WHERE s.run = ? AND s.key IN (?, ?)",
        (run, KEY, COMMIT),
    )
    recorded = dict[Any, Any](rows)  # pyright: ignore[reportArgumentType] - rows of two columns
    if COMMIT in recorded or KEY not in recorded:
        return None
    done = decode_stored(recorded[KEY], type=StepCompleted)
    plain = decode_stored(await stored_blob(store, tenant, done.result))
    return msgspec.convert(plain, MainCall)
