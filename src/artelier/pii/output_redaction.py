"""Values in words that leave beside the store: log lines, answers of a server, errors at a terminal.

Nobody may say there what a run was kept from saying, and there is not always a tenant whose placeholders
could stand instead. So a value becomes its kind, `<EMAIL>`, which stands for nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Protocol, cast
from weakref import WeakSet

from artelier.errors import ArtelierError
from artelier.pii.decoded_view import view_of
from artelier.ports.pii import Detector

UNREADABLE = "[not shown: it could not be searched for personal data]"

LOGGERS = ("artelier.server", "artelier.telemetry", "asyncio", "uvicorn.error")
"""Those that tell of failures in this process. A filter holds for its own logger alone."""


class Marker(Protocol):
    """Whoever looks for personal data in this process."""

    def redact(self, text: str) -> str:
        """The text with kinds in place of values."""
        ...


_watching: WeakSet[Marker] = WeakSet()


def marked_by(detectors: Sequence[Detector], text: str) -> str:
    """The text with kinds in place of what the detectors find; nothing of it if one of them fails."""
    from artelier.pii.detectors import find_all  # its expressions take 60 ms to compile

    view = view_of(text)
    pieces: list[str] = []
    at = 0
    try:
        for found in find_all(detectors, view.text):
            start, end = view.span(found.start, found.end)
            pieces += (text[at:start], f"<{found.kind}>")
            at = end
    except ArtelierError:
        return UNREADABLE
    return text if not pieces else "".join((*pieces, text[at:]))


def watch(marker: Marker) -> None:
    """Keep what the marker looks for out of our log lines, as long as it lives."""
    _watching.add(marker)
    for name in LOGGERS:
        logger = logging.getLogger(name)
        if _FILTER not in logger.filters:
            logger.addFilter(_FILTER)


def redact_output(text: str) -> str:
    """Words on their way out of this process. Cost: nothing where nobody replaces personal data."""
    for one in tuple(_watching):
        text = one.redact(text)
    return text


def marked_wire(value: Any) -> Any:
    """The same for JSON data, such as an error on the wire."""
    if not _watching:
        return value
    if isinstance(value, str):
        return redact_output(value)
    if isinstance(value, dict):
        return {key: marked_wire(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [marked_wire(item) for item in cast("list[Any]", value)]
    return value


class _RedactingFilter(logging.Filter):
    """Marks a record, its traceback included, whatever handlers make of it."""

    _formatter = logging.Formatter()

    def filter(self, record: logging.LogRecord) -> bool:
        if not _watching:
            return True
        record.msg, record.args = redact_output(record.getMessage()), None
        if record.exc_info:
            record.exc_text = redact_output(self._formatter.formatException(record.exc_info))
            record.exc_info = None
        return True


_FILTER = _RedactingFilter()
