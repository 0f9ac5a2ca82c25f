"""Macros of character cards: names, chance, the clock and variables in the texts of a card.

They are filled in once, from left to right, and what they become is not looked at again: a name or a drawn
text that holds a macro is data. Chance comes from a seed and the time is given, so that a replay writes the
same text. A macro that is not known stays as it is written.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256

NAME_CHARS_MAX = 2_000
"""Between the braces; what is longer is text."""
DEPTH_MAX = 8
"""Of macros within macros."""
DICE_MAX = 100
SIDES_MAX = 1_000_000
VARIABLES_MAX = 1_000
VALUE_CHARS_MAX = 10_000
MADE_CHARS_MAX = 1_000_000
"""Of all that macros make beyond the length of the texts themselves (a guess: no honest card comes near)."""
DRAW_CHARS = 64
"""Of them that a draw counts for: it takes as long as copying thousands of characters."""

_MARK = re.compile(r"\{\{|\}\}|<[ \t]{0,16}(char|bot|user)[ \t]{0,16}>", re.IGNORECASE | re.ASCII)
_ROLL = re.compile(r"(?:(\d{0,3})d)?(\d{1,7})([+-]\d{1,7})?", re.ASCII | re.IGNORECASE)
_TRIM = "\0trim\0"
_LINE_ENDS = "\r\n"


@dataclass(slots=True, kw_only=True)
class Macros:
    """The values of the macros in a chat's texts. Variables are kept from one text to the next."""

    user: str
    char: str
    seed: str = ""
    """Draws what `{{random}}` and `{{roll}}` become; another turn draws anew."""
    chat_seed: str = ""
    """Draws what `{{pick}}` becomes: the same in every turn of a chat."""
    now_us: int = 0
    """Units: microseconds since 1970. `{{time}}` and `{{date}}` are in UTC."""
    variables: dict[str, str] = field(default_factory=dict[str, str])
    group: tuple[str, ...] | None = ()
    """Names of all characters of a chat with several; empty in any other. None leaves its macros alone."""
    is_spent: bool = False
    """True if macros stayed as they are written because they would have made too much."""
    _left_chars: int = MADE_CHARS_MAX
    _drawn: int = 0
    _draw: Callable[[str], int] = field(init=False, repr=False, compare=False)
    _draw_of_chat: Callable[[str], int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._draw, self._draw_of_chat = _draw_from(self.seed), _draw_from(self.chat_seed)

    def expand(self, text: str, *, original: str | None = None) -> str:
        """Fill in the macros of a text. `original`: what `{{original}}` stands for, if it may be used.

        All texts together become at most twice as long as they and their originals are, and `MADE_CHARS_MAX`
        characters more. From where a text would make more, its macros stay as they are written.
        Cost: O(n), also for what a macro makes inside of another, or adds to a variable.
        """
        if "{{" not in text and "<" not in text:
            return text
        self._left_chars = max(0, self._left_chars) + len(text) + len(original or "")
        # Where in `out` each macro begins. Of more than these, the outermost are text: the cost stays linear.
        open_: deque[int] = deque(maxlen=DEPTH_MAX)
        out: list[str] = []
        at = 0
        for mark in _MARK.finditer(text):
            out.append(text[at : mark.start()])
            at = mark.end()
            if mark[1] is not None:
                name = self.user if mark[1].lower() == "user" else self.char
                out.append(name if self.spend(len(name)) else mark[0])
            elif mark[0] == "{{":
                open_.append(len(out))
                out.append("{{")
            elif open_:
                first = open_.pop()
                inner = "".join(out[first + 1 :])
                del out[first:]
                out.append(self._fill(inner, original))
            else:
                out.append("}}")
        out.append(text[at:])
        return _trim("".join(out))

    def _fill(self, inner: str, original: str | None) -> str:
        written = f"{{{{{inner}}}}}"
        if len(inner) > NAME_CHARS_MAX or not self.spend(0):
            return written
        name, rest = _split(inner)
        known = _KNOWN.get(name)
        filled = original if name == "original" else None if known is None else known(self, rest)
        return written if filled is None or not self.spend(len(filled)) else filled

    def spend(self, chars: int) -> bool:
        """Count characters that a macro makes or looks through; False if they are too many."""
        self._left_chars -= chars
        self.is_spent |= self._left_chars < 0
        return self._left_chars >= 0

    def draw(self, count: int, *, is_fixed: str = "") -> int:
        """Return a number below `count`. `is_fixed`: the text that draws the same in every turn."""
        self.spend(DRAW_CHARS)
        if is_fixed:
            return self._draw_of_chat(is_fixed) % count
        self._drawn += 1
        return self._draw(str(self._drawn)) % count

    def moment(self) -> datetime:
        return datetime.fromtimestamp(self.now_us / 1_000_000, UTC)


def _draw_from(seed: str) -> Callable[[str], int]:
    """Return a function that draws a number of 64 bits for each text.

    Cost: O(seed) once. The seed of greetings is all of them, and a text can draw for each of its characters.
    """
    begun = sha256(f"{seed}\0".encode("utf-8", "surrogatepass"))

    def draw(told: str) -> int:
        one = begun.copy()
        one.update(told.encode("utf-8", "surrogatepass"))
        return int.from_bytes(one.digest()[:8])

    return draw


def _trim(text: str) -> str:
    """Take out each mark of `{{trim}}`, with the line ends around it.

    Cost: O(n). A pattern that begins with line ends tries them all again from each of them.
    """
    first, *rest = text.split(_TRIM)
    if not rest:
        return text
    *between, last = rest
    kept = (part.strip(_LINE_ENDS) for part in between)
    return "".join((first.rstrip(_LINE_ENDS), *kept, last.lstrip(_LINE_ENDS)))


def _split(inner: str) -> tuple[str, str]:
    """The name of a macro, and what stands after it."""
    word = inner.strip(" \t")
    if word.startswith("//"):
        return "//", word[2:]
    match = re.match(r"[A-Za-z_]+", word)
    if match is None:
        return word, ""
    return match[0].lower(), word[match.end() :]


def _arguments(rest: str) -> list[str]:
    """Return the arguments of a macro: parts between `::`, or else between commas."""
    if rest.startswith("::"):
        return rest[2:].split("::")
    given = rest[1:] if rest[:1] in (":", " ") else rest
    # A comma that is escaped is part of the text.
    return [one.replace("\0", ",").strip() for one in given.replace("\\,", "\0").split(",")]


def _plain(text: Callable[[Macros], str]) -> Callable[[Macros, str], str | None]:
    """A macro that takes nothing."""
    return lambda macros, rest: None if rest.strip() else text(macros)


def _random(macros: Macros, rest: str) -> str | None:
    choices = _arguments(rest)
    return None if not rest.strip(": ") else choices[macros.draw(len(choices))]


def _pick(macros: Macros, rest: str) -> str | None:
    choices = _arguments(rest)
    return None if not rest.strip(": ") else choices[macros.draw(len(choices), is_fixed=rest)]


def _roll(macros: Macros, rest: str) -> str | None:
    match = _ROLL.fullmatch(rest.strip(": \t"))
    if match is None:
        return None
    count, sides = int(match[1] or 1), int(match[2])
    if not 1 <= count <= DICE_MAX or not 1 <= sides <= SIDES_MAX:
        return None
    return str(sum(macros.draw(sides) + 1 for _ in range(count)) + int(match[3] or 0))


def _set(macros: Macros, rest: str) -> str | None:
    return _store(macros, rest, lambda before, value: value)


def _add(macros: Macros, rest: str) -> str | None:
    return _store(macros, rest, _sum)


def _sum(before: str, value: str) -> str:
    try:
        return _number(float(before or 0) + float(value))
    except (ValueError, OverflowError):
        return before + value


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() else str(value)


def _store(macros: Macros, rest: str, change: Callable[[str, str], str]) -> str | None:
    parts = rest[2:].split("::", 1) if rest.startswith("::") else []
    if len(parts) != 2 or (len(macros.variables) >= VARIABLES_MAX and parts[0] not in macros.variables):
        return None
    name = parts[0].strip()
    before = macros.variables.get(name, "")
    macros.spend(len(before))
    macros.variables[name] = change(before, parts[1])[:VALUE_CHARS_MAX]
    return ""


def _get(macros: Macros, rest: str) -> str | None:
    return macros.variables.get(rest[2:].strip(), "") if rest.startswith("::") else None


def _count(by: int) -> Callable[[Macros, str], str | None]:
    def count(macros: Macros, rest: str) -> str | None:
        if not rest.startswith("::") or _store(macros, f"{rest}::{by}", _sum) is None:
            return None
        return macros.variables[rest[2:].strip()]

    return count


def _of_group(text: Callable[[Macros, tuple[str, ...]], str]) -> Callable[[Macros, str], str | None]:
    """A macro that names several characters."""
    return lambda macros, rest: None if rest.strip() or macros.group is None else text(macros, macros.group)


def _clock(form: str) -> Callable[[Macros, str], str | None]:
    return _plain(lambda macros: macros.moment().strftime(form))


_KNOWN: Mapping[str, Callable[[Macros, str], str | None]] = {
    "char": _plain(lambda macros: macros.char),
    "bot": _plain(lambda macros: macros.char),
    "user": _plain(lambda macros: macros.user),
    "group": _of_group(lambda macros, group: ", ".join(group) or macros.char),
    "charifnotgroup": _of_group(lambda macros, group: ", ".join(group) or macros.char),
    "notchar": _of_group(
        lambda macros, group: ", ".join((*(one for one in group if one != macros.char), macros.user))
    ),
    "//": lambda macros, rest: "",
    "comment": lambda macros, rest: "",
    "hidden_key": lambda macros, rest: "",
    "newline": _plain(lambda macros: "\n"),
    "noop": _plain(lambda macros: ""),
    "trim": _plain(lambda macros: _TRIM),
    "random": _random,
    "pick": _pick,
    "roll": _roll,
    "reverse": lambda macros, rest: rest[1:][::-1] if rest.startswith(":") else None,
    "setvar": _set,
    "addvar": _add,
    "getvar": _get,
    "incvar": _count(1),
    "decvar": _count(-1),
    "time": _clock("%H:%M"),
    "date": _clock("%Y-%m-%d"),
    "weekday": _clock("%A"),
    "isotime": _clock("%H:%M"),
    "isodate": _clock("%Y-%m-%d"),
}
