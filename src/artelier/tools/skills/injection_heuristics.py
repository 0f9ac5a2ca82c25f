"""The checks for text from outside that a person should look at before a model sees it.

These checks find known shapes of attack; they can't find a well-mannered lie. Grants, approvals and budgets
hold whatever a text says. A false alarm costs one approval.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

# --------------------------------------------------------------------------- injection phrases
# Sentences that give orders to a model: what they want, and how they are usually worded.
# Patterns see one spelling: lower case, single spaces, no emphasis. `[^.!?\n]` stands for a gap inside
# one sentence, and every gap has a bound, so that no text can make the search slow. What is common in
# honest instructions stays out ("you must", "read the instructions in FORMS.md", "send the token in a
# header"): an alarm that is always wrong teaches people to approve without looking.


_LAWS = (
    r"(?:instructions?|rules?|guidelines?|prompts?|directives?|polic(?:y|ies)|guardrails?|safety|restrictions?"
    r"|safeguards?)"
)
_SECRETS = (
    r"(?:system prompts?|hidden prompts?|api[ _-]?keys?|passwords?|passphrases?|secrets|credentials"
    r"|private keys?|ssh keys?|id_rsa|\.env\b|env(?:ironment)? variables|session cookies?"
    r"|conversation history|chat history|whole conversation|your (?:own )?instructions)"
)
_OWN = (
    r"(?:system prompts?|hidden prompts?|private keys?|ssh keys?|\.ssh\b|id_rsa|conversation history"
    r"|chat history|whole conversation|entire conversation|your (?:own )?instructions)"
)
_SHELL = r"(?:sudo )?(?:ba|z|da)?sh\b"

_ORDERS: tuple[tuple[str, str], ...] = (
    (
        "tries to override instructions",
        r"\b(?:ignor(?:e|ing)|disregard(?:ing)?|forget|overrid(?:e|ing)|bypass(?:ing)?|neglect"
        r"|(?:do not|don't) (?:follow|obey)|stop (?:following|obeying))\b[^.!?\n]{0,60}?"
        r"\b(?:all|any|every|previous|prior|above|earlier|preceding|former|existing|original|system"
        r"|your|these|the|other)\b[^.!?\n]{0,40}?\b" + _LAWS + r"\b",
    ),
    (
        "tries to override instructions",
        r"\b(?:ignore|disregard|forget) (?:all|everything|anything) (?:of |that |the )?"
        r"(?:above|before|else|previous|prior|earlier|you|came|you've)\b",
    ),
    (
        "tries to override instructions",
        r"\b(?:new|updated|real|actual|true) (?:system )?(?:instructions?|system prompt|directives?)"
        r" *(?::|follow\b|are:)",
    ),
    (
        "tries to override instructions",
        r"\b(?:takes?|has|have) (?:precedence|priority) over\b[^.!?\n]{0,40}"
        r"\b(?:system|your|previous|other|all)\b[^.!?\n]{0,20}" + _LAWS,
    ),
    (
        "tries to override instructions",
        r"(?:ignorier\w{0,20}|vergiss|missachte)\b[^.!?\n]{0,40}\b(?:anweisungen|regeln|vorgaben)"
        r"|(?:ignora|olvida)\b[^.!?\n]{0,40}\b(?:instrucciones|reglas)"
        r"|(?:ignore[rz]?|oublie[rz]?)\b[^.!?\n]{0,40}\b(?:consignes|instructions|règles)"
        r"|(?:игнорируй|забудь)\w{0,20}\b[^.!?\n]{0,40}(?:инструкци|правил)"
        r"|(?:忽略|无视|忘记)[^。\n]{0,20}(?:指令|指示|规则|提示)",
    ),
    (
        "gives the model another role",
        r"\byou are (?:now|no longer)\b(?! (?:ready|done|able|set|connected|logged|signed|finished|in|on"
        r"|using|required|free|authenticated)\b)|\bfrom now on,? you\b"
        r"|\b(?:act|behave|respond) as (?:an? |the )?(?:unrestricted|unfiltered|uncensored|jailbroken"
        r"|dan|root|admin(?:istrator)?|developer mode|system)\b"
        r"|\bpretend (?:to be|that you|you)\b|\b(?:god|dan|jailbreak) mode\b|\bjailbreak",
    ),
    (
        "asks for secrets",
        # "never print passwords" is good advice
        r"(?<!never )(?<!not )(?<!don't )\b(?:reveal|print|show|output|repeat|send|leak|exfiltrate"
        r"|upload|post|disclose|expose|transmit|forward|dump|email|e-mail)\b[^.!?\n]{0,60}?\b" + _SECRETS,
    ),
    (
        "asks for secrets",
        r"(?<!never )(?<!not )(?<!don't )\b(?:read|cat|copy|include|append|echo|return|pass|paste|quote)\b"
        r"[^.!?\n]{0,60}?(?:\b|\.)" + _OWN,
    ),
    (
        "wants to be kept from people",
        r"\b(?:do not|don't|never|without) (?:tell(?:ing)?|inform(?:ing)?|mention(?:ing)?|alert(?:ing)?"
        r"|notify(?:ing)?|warn(?:ing)?|reveal(?:ing)?)\b[^.!?\n]{0,40}?\b(?:the )?"
        r"(?:user|human|person|people|operator|anyone|anybody|developer|owner)\b"
        r"|\b(?:secretly|silently|covertly|stealthily)\b[^.!?\n]{0,40}\b(?:send|upload|post|transfer|forward"
        r"|call|execute|run|mail|copy)\b",
    ),
    (
        "wants to go around approvals",
        r"\b(?:skip|bypass|avoid|circumvent|disable|without (?:asking for|waiting for|requiring))\b"
        r"[^.!?\n]{0,30}\b(?:approvals?|permissions|safety checks?|guardrails?)\b|\bauto[- ]?approve",
    ),
    (
        "orders other tools about",
        r"\b(?:before|after|instead of|whenever|each time|every time)\b[^.!?\n]{0,30}"
        r"\b(?:using|calling|invoking|running)\b[^.!?\n]{0,30}"
        r"\b(?:any|other|another|every|all) (?:other )?tools?\b",
    ),
    ("orders other tools about", r"<important>|\bimportant ?: ?the assistant\b"),
    (
        "pipes a download into a shell",
        rf"\b(?:curl|wget)\b[^\n]{{0,200}}\| ?{_SHELL}|\b(?:iex|invoke-expression)\b"
        rf"|\bbase64 (?:-d|--decode)[^\n]{{0,80}}\| ?{_SHELL}",
    ),
)

# A sentence ends at a dot that a space follows: paths and names have dots too.
_GAP = r"(?:[^.!?\n]|\.(?=\S))"

ORDERS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (reason, re.compile(pattern.replace(r"[^.!?\n]", _GAP))) for reason, pattern in _ORDERS
)
"""What a sentence wants, and a pattern that finds it."""


# --------------------------------------------------------------------------- injection heuristics


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
    return tuple(dict.fromkeys(_find_reasons(text)))[:REASONS_MAX]


def _find_reasons(text: str) -> Iterator[str]:
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
