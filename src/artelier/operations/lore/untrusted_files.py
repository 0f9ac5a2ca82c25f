"""Files of strangers: bounded bytes, JSON without surprises, and fields taken one by one.

Nothing here gives up at the first wrong field: a reader notes what is wrong and goes on, so that one error
names all of it. What can be repaired without a guess is repaired, with a warning.
"""

from __future__ import annotations

import math
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

import msgspec

from artelier.artifacts.content import check_json
from artelier.artifacts.json_items import FILE_ITEMS_MAX, count_items
from artelier.artifacts.ref import safe_repr
from artelier.errors import InvalidArtifact, InvalidImport, NotFound

Source: TypeAlias = "bytes | bytearray | str | Path"
"""The bytes of a file, or its path."""

DefaultT = TypeVar("DefaultT")

PIECES_MAX = 10_000
"""Of a text that holds several between commas."""
LINE_CHARS_MAX = 64 * 1024
"""Of a text whose spaces are looked at to make one line of it."""

NOTES_MAX = 50
"""Warnings, and problems, that are kept of one file; the rest is counted."""

_decode_piece = msgspec.json.Decoder().decode
_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_check = msgspec.json.Decoder(msgspec.Raw).decode

PIECE_BYTES = 64 * 1024
"""The size up to which JSON is decoded at once: a decoder lets no other thread run meanwhile."""
PIECE_LEVELS = 5
"""How deep a large value is taken apart: `data.character_book.entries` of a card, and each entry."""


def _decode(data: bytes | msgspec.Raw, *, levels: int = PIECE_LEVELS) -> Any:
    """Decode JSON, a large one piece by piece. Cost: O(levels x size)."""
    view = memoryview(data)
    if view.nbytes <= PIECE_BYTES or levels == 0:
        return _decode_piece(view)
    begins = bytes(view[:64]).lstrip()[:1]
    if begins == b"{":
        return {name: _decode(one, levels=levels - 1) for name, one in _decode_object(view).items()}
    if begins == b"[":
        return [_decode(one, levels=levels - 1) for one in _decode_list(view)]
    return _decode_piece(view)


# A backslash pair, a whole surrogate pair, or half of one: only the last is no text.
_SURROGATE = re.compile(
    rb"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)
_REPLACEMENT = b"\\ufffd"


def source_bytes(source: Source, *, limit_bytes: int) -> bytes:
    """The bytes of a file.

    Errors: `NotFound` for no such file; `InvalidImport` for one that is too large or no plain file.
    """
    if isinstance(source, str | Path):
        data = _file_bytes(Path(source), limit_bytes)
    elif isinstance(source, bytes | bytearray):  # pyright: ignore[reportUnnecessaryIsInstance] - from callers' users
        data = bytes(source)
    else:
        raise InvalidImport("this is no file", expected="bytes or a path", got=type(source).__name__)
    if len(data) > limit_bytes:
        raise InvalidImport("the file is too large", expected=f"at most {limit_bytes:,} bytes")
    return data


def _file_bytes(path: Path, limit_bytes: int) -> bytes:
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe would be waited for
            raise InvalidImport("this is no plain file", got=str(path))
        with path.open("rb") as file:
            return file.read(limit_bytes + 1)
    except FileNotFoundError:
        raise NotFound("there is no such file", got=str(path)) from None
    except (OSError, ValueError) as error:
        raise InvalidImport(f"the file cannot be read: {error}") from None


def read_json(data: bytes, *, what: str, items_max: int = FILE_ITEMS_MAX) -> Any:
    """JSON as data; half a surrogate pair becomes U+FFFD.

    Errors: `InvalidImport` saying where it breaks, also for what is nested too deeply, a number too large or
    too many items.
    """
    data = data.removeprefix(b"\xef\xbb\xbf")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InvalidImport(f"{what} cannot be read", expected="UTF-8", got="UTF-16")
    if (count := count_items(data, most=items_max)) > items_max:
        raise InvalidImport(
            f"{what} has too many items",
            expected=f"at most {items_max:,} elements and fields",
            got=f"{count:,}",
        )
    try:
        try:
            value = _decode(data)
        except msgspec.DecodeError:
            if b"\\u" not in data:
                raise
            value = _decode(_SURROGATE.sub(_whole, data))
        check_json(value)
    except UnicodeDecodeError:
        raise InvalidImport(f"{what} cannot be read", expected="UTF-8", got=_not_utf8(data)) from None
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidImport(f"{what} is no JSON: {str(error)[:200]}{_place(data)}") from None
    except InvalidArtifact as error:
        raise InvalidImport(f"{what} cannot be taken: {error}") from None
    return value


def _place(data: bytes) -> str:
    """Return where JSON breaks, as `, line 3, column 7`; empty if that cannot be said."""
    try:
        _check(data)
    except msgspec.DecodeError as error:
        if "truncated" in str(error):
            at = len(data.rstrip())
        elif found := _OFFSET.search(str(error)):
            at = int(found[1]) - ("trailing" in str(error))  # it names the byte behind the first of these
        else:
            return ""
        line = f"line {data.count(_NEWLINE, 0, at) + 1}, " if _NEWLINE in data.rstrip() else ""
        before = data[data.rfind(_NEWLINE, 0, at) + 1 : at].decode(errors="replace")
        return f", {line}column {len(before) + 1}"
    except RecursionError:
        pass
    return ""


def _not_utf8(data: bytes) -> str:
    """Return which byte is no UTF-8, and where."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = f", line {data.count(_NEWLINE, 0, error.start) + 1}" if _NEWLINE in data.rstrip() else ""
        return f"the byte 0x{data[error.start]:02x} at {error.start:,}{line}"
    return "another text"


_NEWLINE = b"\n"
_OFFSET = re.compile(r"\(byte ([0-9]+)\)")


def _whole(match: re.Match[bytes]) -> bytes:
    return _REPLACEMENT if len(match[0]) == 6 else match[0]


_IN_LINES = " \u200c\u200d"
"""Beside what is printable."""


class FileProblems:
    """The problems of a file, and what was done about them."""

    def __init__(self) -> None:
        self._problems: dict[str, None] = {}
        self._warnings: dict[str, None] = {}
        self._unnamed = {"problems": 0, "warnings": 0}

    def problem(self, text: str) -> None:
        """Something that the file cannot be read with."""
        if len(self._problems) < NOTES_MAX:
            self._problems[text] = None
        else:
            self._unnamed["problems"] += 1

    def warn(self, text: str) -> None:
        if len(self._warnings) < NOTES_MAX:
            self._warnings[text] = None
        elif text not in self._warnings:
            self._unnamed["warnings"] += 1

    @property
    def problems(self) -> tuple[str, ...]:
        """Each once, in order; beyond 50 they are only counted."""
        return _with_rest(self._problems, self._unnamed["problems"])

    @property
    def warnings(self) -> tuple[str, ...]:
        """Each once, in order; beyond 50 they are only counted."""
        return _with_rest(self._warnings, self._unnamed["warnings"])

    def check(self, what: str) -> None:
        """Errors: `InvalidImport` naming every problem, if there is any."""
        if self._problems:
            problems = self.problems
            raise InvalidImport(f"{what} cannot be read: {'; '.join(problems)}", problems=problems)


def _with_rest(notes: Iterable[str], unnamed: int) -> tuple[str, ...]:
    return (*notes, f"and {unnamed} more") if unnamed else tuple(notes)


class ForeignFields:
    """The fields of one foreign object; each is taken at most once, and `rest` is what nobody took."""

    def __init__(
        self, value: dict[str, Any], *, path: str, notes: FileProblems, is_lenient: bool = False
    ) -> None:
        """`path` names the object in notes, such as `data.` with its dot. `is_lenient`: a value of another
        type than text is left out with a warning, and `rest` has it."""
        self._left = dict(value)
        self._is_lenient = is_lenient
        self.path = path
        self.notes = notes

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def raw(self, name: str) -> Any:
        """The value as it is; None if it is missing."""
        return self._left.pop(name, None)

    def rest(self) -> dict[str, Any]:
        """Return what was not taken."""
        return dict(self._left)

    def text(self, name: str, default: str = "") -> str:
        """Text; null is the default, a number its digits."""
        value = self.raw(name)
        if value is None:
            return default
        if isinstance(value, str):
            return value
        if isinstance(value, int | float) and not isinstance(value, bool):
            self._warn(name, f"{safe_repr(value)} is a number; taken as text")
            return str(value)
        if self._is_lenient:
            self._warn(name, f"expected text, got {safe_repr(value)}; kept, but not followed")
            self._left[name] = value
            return default
        return self._wrong(name, "text", value, default)

    def line(self, name: str, *, chars_max: int, default: str = "") -> str:
        """Text on one line without control characters, cut to a length."""
        text = self.text(name, default)
        line = one_line(text)
        if len(line) > chars_max:
            self._warn(name, f"cut to {chars_max} characters")
            line = line[:chars_max].rstrip()
        return line

    def texts(self, name: str, *, split: bool = False, with_empty: bool = False) -> tuple[str, ...]:
        """A list of text, without empty ones; a text alone is one, or with `split` many between commas."""
        value = self.raw(name)
        if value is None:
            return ()
        if isinstance(value, str):
            if split and value.count(",") >= PIECES_MAX:
                return self._wrong(name, f"at most {PIECES_MAX:,} texts between commas", value, ())
            value = [item.strip() for item in value.split(",")] if split else [value]
        if not isinstance(value, list):
            return self._wrong(name, "a list of text", value, ())
        found: list[str] = []
        for number, item in enumerate(cast("list[object]", value)):
            if isinstance(item, str):
                found.append(item)
            elif isinstance(item, int | float) and not isinstance(item, bool):
                self._warn(f"{name}[{number}]", f"{safe_repr(item)} is a number; taken as text")
                found.append(str(item))
            elif item is not None:
                self._wrong(f"{name}[{number}]", "text", item, None)
        return tuple(item for item in found if item or with_empty)

    def whole(self, name: str, default: int, *, low: int, high: int) -> int:
        """A whole number within bounds; what lies outside, or between two, is moved, with a warning."""
        value = self.raw(name)
        if value is None or value == "":
            return default
        number = _number(value)
        if number is None:
            return self._wrong(name, "a number", value, default)
        moved = min(max(math.floor(number), low), high)
        if moved != number:
            self._warn(name, f"{safe_repr(value)} became {moved}")
        return moved

    def flag(self, name: str, default: bool) -> bool:
        value = self.raw(name)
        if value is None:
            return default
        if isinstance(value, bool):
            return value
        if value in (0, 1):
            return bool(value)
        if isinstance(value, str) and value.strip().lower() in ("true", "false"):
            self._warn(name, f"{safe_repr(value)} is text; taken as {value.strip().lower()}")
            return value.strip().lower() == "true"
        return self._wrong(name, "true or false", value, default)

    def mapping(self, name: str) -> dict[str, Any]:
        """An object; null and the empty list that some programs write are an empty one."""
        value = self.raw(name)
        if value == [] and self._is_lenient:
            self._warn(name, "an empty list; taken as an empty object")
        if value is None or value == []:
            return {}
        if isinstance(value, dict):
            return cast("dict[str, Any]", value)
        return self._wrong(name, "an object", value, cast("dict[str, Any]", {}))

    def _warn(self, name: str, text: str) -> None:
        self.notes.warn(f"{self.path}{name}: {text}")

    def _wrong(self, name: str, expected: str, got: object, default: DefaultT) -> DefaultT:
        self.notes.problem(f"{self.path}{name}: expected {expected}, got {safe_repr(got)}")
        return default


def one_line(text: str) -> str:
    """Text on one line: white space is one space, control characters are gone. Joiners of letters and emoji
    stay; what stands behind `LINE_CHARS_MAX` is left out."""
    line = " ".join(text[:LINE_CHARS_MAX].split())
    return "".join(char for char in line if char.isprintable() or char in _IN_LINES)


def _number(value: object) -> int | float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and len(value) <= 40:
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, int | float) and math.isfinite(value):
        return value
    return None


NAMES_LISTED_MAX = 100
"""Of one note; of more than these the number is told."""


def listed(names: Iterable[str]) -> str:
    """Return names for a note: each once and shortened, sorted."""
    found = sorted({one_line(name[:200])[:60] for name in names})
    more = len(found) - NAMES_LISTED_MAX
    return ", ".join(found[:NAMES_LISTED_MAX]) + (f" and {more} more" if more > 0 else "")


def is_nothing(value: object) -> bool:
    """Return True for a value that says nothing: a field that holds it need not be named."""
    return value is None or value is False or value == "" or value == [] or value == {}


def as_dict(value: object) -> dict[str, Any]:
    """Return a JSON object; an empty one for anything else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """Return a JSON list; an empty one for anything else."""
    return cast("list[Any]", value) if isinstance(value, list) else []
