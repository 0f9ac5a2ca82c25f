"""`{{char}}` and `{{user}}` become names: once, in one pass, and nothing else is ever expanded."""

from __future__ import annotations

import re

# ASCII, so that no other letter folds to one of these names; bounded spaces, so that the cost is linear.
_NAMED = re.compile(
    r"\{\{[ \t]{0,16}(char|user)[ \t]{0,16}\}\}|<[ \t]{0,16}(char|bot|user)[ \t]{0,16}>",
    re.IGNORECASE | re.ASCII,
)


def substitute_names(text: str, *, user: str, char: str) -> str:
    """The text with the names in it.

    Shapes: `{{char}}`, `<BOT>` and `<CHAR>` become `char`, `{{user}}` and `<USER>` become `user`, in any
            case and with spaces. Every other macro stays as it is.
    A name is data: one that contains `{{user}}` or `{% raw %}` comes out unchanged.
    Cost:   O(n).
    """
    if "{{" not in text and "<" not in text:
        return text

    def name(match: re.Match[str]) -> str:
        return user if (match[1] or match[2]).lower() == "user" else char

    return _NAMED.sub(name, text)
