"""Templates and JSON shapes of TaleSpinner in the forms of Artelier: other names for the same values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from artelier.operations.lore.untrusted_files import FileProblems

_RECENT = re.compile(r"\{\{-?\s*recentMessagesText\(\s*(\d{1,4})\s*\)\s*-?\}\}")
_RECENT_TOKENS = re.compile(r"\{\{-?\s*recentMessagesByContextTokensText\(\s*\d{1,9}\s*\)\s*-?\}\}")
RECENT_MESSAGES = 20
"""Messages that stand for those within a number of tokens (a guess: a short scene)."""
_BY_OPERATION = re.compile(r"""artByOpId\[\s*["']([^"'\]]{1,100})["']\s*\]""")
_HISTORY = re.compile(r"\b(art\.[a-z][a-z0-9_]*)\.history\b")
_TAGS = re.compile(r"\bart\.([a-z][a-z0-9_]*)")
_NAMES = {"lastUserMessage": "text", "lastAssistantMessage": "reply"}
"""Names of values by those that they have here. `reply` has one only after the main call, as there."""
_WORD = re.compile(r"\b(" + "|".join(_NAMES) + r")\b")
_ENDS = {"{{": "}}", "{%": "%}"}
_BEGIN = re.compile(r"\{\{|\{%")

_TYPES = {"string": "string", "number": "number", "integer": "integer", "boolean": "boolean", "any": None}
_DEPTH_MAX = 20


def own_template(text: str, tags: Mapping[str, str], path: str, notes: FileProblems) -> str:
    """Return a template with the names that values have here. `tags` are those of artifacts, by operation.

    What stands outside of tags is text and stays. What stands for something else is named.
    Cost: O(length).
    """
    if "{" not in text:
        return text
    text = _RECENT.sub(lambda match: _recent(int(match[1])), text)
    text, count = _RECENT_TOKENS.subn(_recent(RECENT_MESSAGES), text)
    if count:
        notes.warn(f"{path}: the last {RECENT_MESSAGES} messages stand for recentMessagesByContextTokensText")
    return "".join(_own_code(part, tags) if is_code else part for is_code, part in _parts(text))


def _parts(text: str) -> Iterator[tuple[bool, str]]:
    """Give the pieces of a template in order, each with True if it is a tag; an open tag is text."""
    at = 0
    open_ends = set[str]()
    while (begin := _BEGIN.search(text, at)) is not None:
        end = _ENDS[begin[0]]
        close = -1 if end in open_ends else text.find(end, begin.end())
        if close < 0:  # it is not there further on either: looking again would cost the length each time
            open_ends.add(end)
            yield False, text[at : begin.end()]
            at = begin.end()
            continue
        yield False, text[at : begin.start()]
        at = close + len(end)
        yield True, text[begin.start() : at]
    yield False, text[at:]


def _recent(count: int) -> str:
    """Return the template of the last messages: `role: content`, a line each."""
    return (
        f"{{% assign recent = chat_history | last: {count} %}}"
        "{% for one in recent %}{{ one.role }}: {{ one.content }}"
        "{% unless forloop.last %}\n{% endunless %}{% endfor %}"
    )


def _own_code(code: str, tags: Mapping[str, str]) -> str:
    code = _BY_OPERATION.sub(lambda match: f"art.{tags.get(match[1], 'missing')}", code)
    code = _HISTORY.sub(r"\1.values", code)
    return _WORD.sub(lambda match: _NAMES[match[1]], code)


def read_tags(operations: Sequence[Mapping[str, Any]], tags: Mapping[str, str]) -> set[str]:
    """Return the tags of artifacts that texts of operations read."""
    found: set[str] = set()
    waiting: list[object] = [*operations]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            found |= set(_TAGS.findall(value))
            found |= {tags[name] for name in _BY_OPERATION.findall(value) if name in tags}
        elif isinstance(value, Mapping):
            waiting += cast("Mapping[str, object]", value).values()
        elif isinstance(value, list):
            waiting += cast("list[object]", value)
    return found


def json_schema(shape: object, path: str, notes: FileProblems, *, depth: int = 0) -> dict[str, Any]:
    """Return the JSON Schema of a shape such as `{"who": "string: a name", "mood?": "string"}`.

    A key with `?` may be missing. What is a JSON Schema already stays.
    """
    if depth > _DEPTH_MAX:
        notes.problem(f"{path}: nested too deeply")
        return {}
    if isinstance(shape, str):
        word, _, about = shape.partition(":")
        if word.strip() not in _TYPES:
            notes.warn(f"{path}: {word.strip()[:40]!r} is no type here; anything is taken")
        kind = _TYPES.get(word.strip())
        return ({"type": kind} if kind else {}) | ({"description": about.strip()} if about.strip() else {})
    if isinstance(shape, list):
        items = cast("list[object]", shape)
        inner = json_schema(items[0], f"{path}[0]", notes, depth=depth + 1) if items else {}
        return {"type": "array", "items": inner}
    if isinstance(shape, Mapping):
        fields = cast("Mapping[str, Any]", shape)
        if isinstance(fields.get("type"), str) and (fields.keys() & {"properties", "items", "enum"}):
            return dict(fields)
        properties = {
            name.removesuffix("?"): json_schema(one, f"{path}.{name[:40]}", notes, depth=depth + 1)
            for name, one in fields.items()
        }
        required = [name for name in fields if not name.endswith("?")]
        return {"type": "object", "properties": properties, "required": required}
    return {}
