"""The checks for text from outside that a person should look at before a model sees it.

These checks find known shapes of attack; they can't find a well-mannered lie. Grants, approvals and budgets
hold whatever a text says. A false alarm costs one approval.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from artelier.tools.skills.approval.injection_phrases import ORDERS

EXCERPT_CHARS = 60
REASONS_MAX = 20
COMMENT_WORDS_MAX = 3
"""A hidden comment of more words can carry an order; `<!-- toc -->` can't."""
ENCODED_CHARS_MAX = 400
"""A run of base64 or hex that long hides something (a hash has 128 characters at most)."""

_ALLOWED_CONTROLS = "\n\t"
_INVISIBLE_LETTERS = "\u115f\u1160\u3164\uffa0\u2800\u034f\u17b4\u17b5"
"""Letters and marks that are drawn as nothing."""

_FENCES = re.compile(
    # The marks of our own prompts, then those of well-known models and clients.
    r"<\s{0,5}/?\s{0,5}(?:skills?|data)\b[^>\n]{0,80}\btrust\s{0,5}="
    r"|<\s{0,5}/\s{0,5}(?:skills?|data|system|assistant|users?|human|instructions?|prompt|untrusted|trusted"
    r"|tool[_-](?:result|call|response|output)s?|function[_-](?:call|result)s?|invoke)\b[^>]{0,40}>?"
    r"|<\s{0,5}(?:system|assistant|untrusted|function_calls?|function_results?|invoke|tool_calls?)\b[^>]{0,40}>"
    r"|<\|[a-z_]{2,40}\|>|\[/?INST\]|<</?SYS>>|<(?:start|end)_of_turn>"
    r"|^[ \t]{0,20}(?:system|assistant|human|user)[ \t]{0,20}:[ \t]{0,20}$|\n\n(?:Human|Assistant|System):",
    re.IGNORECASE | re.MULTILINE,
)

_COMMENTS = re.compile(r"<!--(.*?)(?:-->|\Z)", re.DOTALL)
_LINK_COMMENTS = re.compile(
    r"^\[[^\]\n]{0,200}\]:[ \t]{0,20}(?:#|<>)[ \t]{0,20}[(\"']([^\n]{0,2000})", re.MULTILINE
)
_HIDDEN_STYLE = re.compile(
    r"<[a-z]{1,20}\b[^>]{0,200}\bstyle\s{0,9}=\s{0,9}[\"'][^\"'>]{0,200}(?:display\s{0,9}:\s{0,9}none"
    r"|visibility\s{0,9}:\s{0,9}hidden|font-size\s{0,9}:\s{0,9}0|opacity\s{0,9}:\s{0,9}0\b"
    r"|color\s{0,9}:\s{0,9}(?:white|#fff(?:fff)?)\b)|<[a-z]{1,20}\b[^>]{0,200}\shidden[\s>]",
    re.IGNORECASE,
)
_REMOTE_IMAGE = re.compile(
    r"(?:!\[[^\]\n]{0,500}\]\(\s{0,9}<?\s{0,9}|<img\b[^>]{0,300}src\s{0,9}=\s{0,9}[\"']?)"
    r"(?:https?:)?//[^\s)>\"']{0,500}[?{$]",
    re.IGNORECASE,
)
"""Only with a query or a placeholder: a fixed picture carries nothing away."""
_CODE = re.compile(r"^[ \t]{0,9}(```|~~~).*?^[ \t]{0,9}\1", re.DOTALL | re.MULTILINE)
"""Blocks of code: a comment in one is shown to readers as it is."""
_NOTICE = re.compile(r"\s*(?:copyright|©|\(c\)|spdx-|licensed under)", re.IGNORECASE)
_ENCODED = re.compile(rf"[A-Za-z0-9+/=_-]{{{ENCODED_CHARS_MAX},}}")
_LOOKALIKES = str.maketrans("аеорсухіјѕԁɡһқӏвкмнт" + "ορνα’‘", "aeopcyxijsdghklbkmht" + "opva''")
"""Small letters of other scripts that are drawn like Latin ones."""


def suspicions(text: str) -> tuple[str, ...]:
    """Return why a person should read this text before a model does; empty if nothing was found.

    Cost: O(n), with patterns whose gaps are bounded.
    """
    return tuple(dict.fromkeys(_found(text)))[:REASONS_MAX]


def _found(text: str) -> Iterator[str]:
    if hidden := invisible(text):
        names = ", ".join(sorted({f"U+{ord(one):04X}" for one in hidden})[:5])
        yield f"invisible, bidirectional or control characters: {names}"
    if match := _FENCES.search(text):
        yield f"text that imitates the marks of a prompt: {_excerpt(match[0])}"
    prose = _CODE.sub("", text)
    for pattern in (_COMMENTS, _LINK_COMMENTS):
        for match in pattern.finditer(prose):
            words = len(re.findall(r"\w{2,}", match[1]))
            if words > COMMENT_WORDS_MAX and not (words < 40 and _NOTICE.match(match[1])):
                yield f"a hidden comment: {_excerpt(match[1])}"
                break
    if match := _HIDDEN_STYLE.search(text):
        yield f"markup that hides text: {_excerpt(match[0])}"
    if match := _REMOTE_IMAGE.search(text):
        yield f"an image whose address can carry data away: {_excerpt(match[0])}"
    if match := _ENCODED.search(text):
        yield f"{len(match[0])} characters of encoded text: {_excerpt(match[0])}"
    plain = _plain(text)
    alike = plain.translate(_LOOKALIKES)
    for reason, pattern in ORDERS:
        match = pattern.search(plain) or (alike != plain and pattern.search(alike))
        if match:
            yield f"{reason}: {_excerpt(match[0])}"


def invisible(text: str) -> str:
    """The characters of a text that nobody can see, or that change how the others are shown."""
    if text.isascii() and text.isprintable():
        return ""
    return "".join(one for at, one in enumerate(text) if _is_hidden(one, text, at))


def _is_hidden(char: str, text: str, at: int) -> bool:
    if char in _ALLOWED_CONTROLS or " " <= char <= "~":
        return False
    if char == "\r":
        return text[at + 1 : at + 2] != "\n"
    if char == "\ufeff" and at == 0:
        return False
    if char == "\u200d":  # joins two pictures into one
        return at == 0 or unicodedata.category(text[at - 1]) not in ("So", "Sk", "Mn")
    if "\ufe00" <= char <= "\ufe0d" or "\U000e0100" <= char <= "\U000e01ef":
        return True
    category = unicodedata.category(char)
    return category in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp") or char in _INVISIBLE_LETTERS


def visible(text: str) -> str:
    """The same text with everything invisible written out, for people."""
    if not invisible(text):
        return text
    return "".join(
        f"\\u{{{ord(one):x}}}" if _is_hidden(one, text, at) else one for at, one in enumerate(text)
    )


def _plain(text: str) -> str:
    """Normalise text for patterns: one spelling, lower case, no hidden characters or inline markup."""
    flat = "".join(one for at, one in enumerate(text) if not _is_hidden(one, text, at))
    flat = unicodedata.normalize("NFKC", flat).lower()
    flat = re.sub(r"[*`\"“”]+|(?<=\w)_{1,99}(?= )|(?<= )_{1,99}(?=\w)", "", flat)
    pieces: list[str] = []
    for line in flat.split("\n"):
        words = " ".join(line.split())
        # A sentence may be broken into lines; a blank line or a list ends it.
        pieces += ["\n" if not words or words[0] in "-#>0123456789" else " ", words]
    return "".join(pieces)


def _excerpt(text: str) -> str:
    flat = " ".join(visible(text).split())
    return repr(flat if len(flat) <= EXCERPT_CHARS else flat[: EXCERPT_CHARS - 3] + "...")
