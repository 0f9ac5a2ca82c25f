"""Results as messages show them: JSON with facts around it, and previews of results that are too large."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, cast

from artelier.errors import OfflineCannot

READER = "read_artifact"
PAGE_CHARS = 20_000
WHOLE_CHARS_MAX = 1_000_000
"""Of a large result that is read page by page."""
PAGE_CHARS_MIN = 50
PAGES_MAX = 120
"""Calls for one result; a page that is too large for its message itself is asked for in smaller ones."""

_SURROGATE = "\\ud"

Read = Callable[..., list[Any]]
"""Gives pages of artifacts, as the messages show them, for `{ref, offset, limit}`."""


def parsed(text: str, tool: str) -> Any:
    """The first JSON value of a tool message; fences and facts around it are left out.

    Errors: `OfflineCannot` if there is none.
    """
    starts = [at for at in (text.find("{"), text.find("[")) if at >= 0]
    for start in ([0] if not text.lstrip().startswith("<") else []) + sorted(starts):
        try:
            value: Any = json.JSONDecoder().raw_decode(text, start)[0]
            return _encodable(value) if _SURROGATE in text.lower() else value
        except (ValueError, RecursionError):
            continue
    raise OfflineCannot(
        f"the result of {tool} is not JSON",
        expected="the JSON text of the result",
        got=repr(text[:80]),
        is_text=True,
    )


def _encodable(value: Any) -> Any:
    """A value whose texts have no half of a character: JSON may escape one, no reply can hold it."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_encodable(one) for one in cast("list[Any]", value)]
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {_encodable(name): _encodable(one) for name, one in fields.items()}
    return value


def is_preview(value: Any) -> bool:
    """Return True if an answer shows only head and tail of a large result."""
    return isinstance(value, dict) and {"head", "tail", "total_chars"} <= cast(dict[str, Any], value).keys()


def whole(preview: Mapping[str, Any], *, tool: str, read: Read) -> str:
    """The text of a large result, of which a message shows only head and tail.

    Errors: what `read` raises while pages are missing; `OfflineCannot` if it cannot be had.
    """
    ref, size = preview.get("ref"), preview["total_chars"]
    if not isinstance(ref, str) or not isinstance(size, int):
        raise OfflineCannot(f"the result of {tool} is cut, and nothing says where to read on")
    if size > WHOLE_CHARS_MAX:
        raise OfflineCannot(
            f"the result of {tool} is too large",
            expected=f"at most {WHOLE_CHARS_MAX} characters",
            got=f"{size} characters",
        )
    length = PAGE_CHARS
    while length >= PAGE_CHARS_MIN and -(-size // length) <= PAGES_MAX:
        wanted: list[dict[str, Any]] = [
            {"ref": ref, "offset": start, "limit": length} for start in range(0, size, length)
        ]
        pages = read(*wanted)
        texts = [_text(page) for page in pages]
        short = [
            len(text)
            for text, page in zip(texts, wanted, strict=True)
            if text is not None and len(text) < min(length, size - page["offset"])
        ]
        if None not in texts and not short:
            return "".join(text for text in texts if text is not None)
        length = min([length // 4, *(one for one in short if one > 0)])
    raise OfflineCannot(
        f"the result of {tool} is cut, and {READER} does not give it in pages that can be read",
        got=f"{size} characters",
    )


def _text(page: Any) -> str | None:
    """The text of a page; None if the page is shown as a preview itself.

    Errors: `OfflineCannot` if it is neither.
    """
    if isinstance(page, str):
        return page
    fields = cast(dict[str, Any], page) if isinstance(page, dict) else {}
    if isinstance(fields.get("text"), str):
        return fields["text"]
    if is_preview(fields):
        return None
    error = fields.get("error")
    raise OfflineCannot(
        f"the result of {READER} has another shape than expected",
        expected='{"text": "..."}',
        got=repr(error if error is not None else cast(Any, page))[:200],
    )
