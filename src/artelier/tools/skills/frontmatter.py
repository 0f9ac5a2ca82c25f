"""A SKILL.md as text: its frontmatter, read without trust, and its body.

YAML is read as text, lists and maps only, without anchors, tags or repeated keys, below fixed bounds.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING, Any, NamedTuple, cast

if TYPE_CHECKING:
    import yaml
from urllib.parse import unquote

from artelier.errors import InvalidArtifact
from artelier.tools.skills.injection_heuristics import suspicions

FRONTMATTER_BYTES_MAX = 16 * 1024
BODY_BYTES_MAX = 64 * 1024
NODES_MAX = 500
DEPTH_MAX = 5
DESCRIPTION_CHARS_MAX = 1_024
COMPATIBILITY_CHARS_MAX = 500
ALLOWED_MAX = 100

NAME = re.compile(r"[a-z0-9-]{1,64}")
KNOWN_KEYS = frozenset(("name", "description", "license", "compatibility", "metadata", "allowed-tools"))
WIDENING_KEYS = frozenset(
    (
        "grants",
        "grant",
        "permissions",
        "permission",
        "permission-mode",
        "tools",
        "trust",
        "trusted",
        "approvals",
        "approve",
        "approved",
        "auto-approve",
        "autoapprove",
        "hooks",
        "mcp-servers",
        "mcpservers",
        "env",
        "sudo",
        "allow",
        "capabilities",
        "privileged",
        "risk",
        "sandbox",
        "status",
        "hash",
        "priority",
        "system",
        "role",
        "always-apply",
        "alwaysapply",
    )
)
"""Keys that would give a skill more than a reader's attention, if anybody obeyed them. Nobody does."""

_ALLOWED = re.compile(r"[^\s,()]+(?:\([^()]*\))?")


class Matter(NamedTuple):
    """A SKILL.md, read."""

    name: str
    description: str
    body: str
    license: str
    compatibility: str
    metadata: dict[str, str]
    allowed_tools: tuple[str, ...] | None
    unknown_keys: tuple[str, ...]
    reasons: tuple[str, ...]
    """What a person should look at."""


def read_matter(content: bytes) -> Matter:
    """A SKILL.md from its bytes. Errors: `InvalidArtifact` that names what is wrong."""
    if len(content) > FRONTMATTER_BYTES_MAX + BODY_BYTES_MAX:
        raise _bad(f"it is larger than {(FRONTMATTER_BYTES_MAX + BODY_BYTES_MAX) // 1024} KB")
    try:
        text = content.decode("utf-8").removeprefix("\ufeff").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise _bad("it is no UTF-8 text") from None
    head, body = _split(text)
    if len(head.encode()) > FRONTMATTER_BYTES_MAX:
        raise _bad(f"its frontmatter is larger than {FRONTMATTER_BYTES_MAX // 1024} KB")
    if len(body.encode()) > BODY_BYTES_MAX:
        raise _bad(f"its body is larger than {BODY_BYTES_MAX // 1024} KB")
    return _matter(_mapping(head), body.strip())


def _split(text: str) -> tuple[str, str]:
    lines = text.split("\n")
    if not lines or lines[0].rstrip() != "---":
        raise _bad("it does not begin with frontmatter", "a first line `---`")
    for number, line in enumerate(lines[1:], start=1):
        if line.rstrip() == "---":
            return "\n".join(lines[1:number]), "\n".join(lines[number + 1 :])
    raise _bad("its frontmatter does not end", "a line `---`")


def _mapping(head: str) -> dict[str, Any]:
    import yaml

    try:
        _check_events(head)
        node = yaml.compose(head, Loader=yaml.BaseLoader)
        value: Any = {} if node is None else _plain(node)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        # The problem alone: the mark of a YAML error repeats the text.
        problem = getattr(error, "problem", None) or type(error).__name__
        raise _bad(f"its frontmatter is no YAML: {str(problem)[:100]}") from None
    if not isinstance(value, dict):
        raise _bad("its frontmatter is no mapping", "`key: value` lines")
    return cast("dict[str, Any]", value)


def _check_events(head: str) -> None:
    """Bounds, before anything is built. Errors: `InvalidArtifact`."""
    import yaml

    depth = 0
    for number, event in enumerate(yaml.parse(head, Loader=yaml.BaseLoader)):
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise _bad("its frontmatter uses YAML anchors or aliases")
        if getattr(event, "tag", None) is not None:
            raise _bad("its frontmatter uses YAML tags")
        if isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            depth += 1
        if isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            depth -= 1
        if depth > DEPTH_MAX or number > NODES_MAX:
            raise _bad("its frontmatter is too large or too deep")


def _plain(node: yaml.Node) -> object:
    import yaml

    if isinstance(node, yaml.MappingNode):
        pairs = [(_plain(key), _plain(value)) for key, value in node.value]
        keys = [key for key, _ in pairs]
        if not all(isinstance(key, str) for key in keys):
            raise _bad("its frontmatter has a key that is no text")
        if len(set(keys)) != len(keys):
            raise _bad("its frontmatter says one key twice")
        return dict(pairs)
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item) for item in node.value]
    return str(node.value)


def _matter(found: dict[str, Any], body: str) -> Matter:
    name, description = _text(found, "name"), _text(found, "description")
    if not NAME.fullmatch(name):
        raise _bad("its name is no skill name", "1-64 characters of a-z 0-9 -", name)
    if not description:
        raise _bad("it has no description")
    if len(description) > DESCRIPTION_CHARS_MAX:
        raise _bad(f"its description is longer than {DESCRIPTION_CHARS_MAX} characters")
    compatibility = _text(found, "compatibility")
    if len(compatibility) > COMPATIBILITY_CHARS_MAX:
        raise _bad(f"its compatibility is longer than {COMPATIBILITY_CHARS_MAX} characters")
    metadata: Any = found.get("metadata", {})
    if not isinstance(metadata, dict):
        raise _bad("its metadata is no mapping")
    allowed = _parse_allowed(found.get("allowed-tools"))
    unknown = tuple(sorted(found.keys() - KNOWN_KEYS))
    return Matter(
        name=name,
        description=" ".join(description.split()),
        body=body,
        license=_text(found, "license"),
        compatibility=compatibility,
        metadata={key: str(value) for key, value in cast("dict[str, Any]", metadata).items()},
        allowed_tools=allowed,
        unknown_keys=unknown,
        reasons=_widening(unknown, allowed),
    )


def _text(found: dict[str, Any], key: str) -> str:
    value = found.get(key, "")
    if not isinstance(value, str):
        raise _bad(f"its {key} is no text")
    return value.strip()


def _parse_allowed(value: object) -> tuple[str, ...] | None:
    if value is None:
        return None
    texts = cast("list[object]", value) if isinstance(value, list) else [value]
    named = [one for one in texts if isinstance(one, str)]
    if len(named) < len(texts):
        raise _bad("its allowed-tools is no list of names")
    names: tuple[str, ...] = tuple(dict.fromkeys(name for one in named for name in _ALLOWED.findall(one)))
    if len(names) > ALLOWED_MAX:
        raise _bad(f"its allowed-tools names more than {ALLOWED_MAX} tools")
    return names


def _widening(keys: tuple[str, ...], allowed: tuple[str, ...] | None) -> tuple[str, ...]:
    asked = [key for key in keys if key.lower().replace("_", "-") in WIDENING_KEYS]
    reasons = [f"its frontmatter asks for more than a skill has: `{key[:40]}`" for key in asked]
    wild = [one for one in allowed or () if _is_wild(one)]
    reasons += [f"its allowed-tools asks for every tool: `{one[:40]}`" for one in wild[:3]]
    return tuple(reasons)


def _is_wild(name: str) -> bool:
    outside, _, inside = name.partition("(")
    return "*" in outside or outside.lower() in ("all", "any") or inside in ("*)", "*:*)")


def _bad(problem: str, expected: str | None = None, got: str | None = None) -> InvalidArtifact:
    shown = None if got is None else repr(got[:80])
    return InvalidArtifact(problem, expected=expected, got=shown)


# --------------------------------------------------------------------------- paths
# Paths that a skill names, and paths that it has: which of them are suspicious.


_LINK = re.compile(r"\]\(\s{0,20}<?([^)>\s]+)|^\[[^\]\n]{1,200}\]:[ \t]{0,20}<?(\S+)", re.MULTILINE)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_PLAIN = re.compile(r"[A-Za-z0-9 ._()+,@=/-]{1,240}")
LINKS_MAX = 5


def links_out(text: str) -> list[str]:
    """Reasons for Markdown links that lead out of a skill's folder on this machine."""
    found: list[str] = []
    for match in _LINK.finditer(text):
        target = unquote(match[1] or match[2] or "").split("#")[0]
        if _leads_out(target):
            found.append(f"a link leads out of its folder: {target[:80]!r}")
    return found[:LINKS_MAX]


def _leads_out(target: str) -> bool:
    if not target:
        return False
    scheme = _SCHEME.match(target)
    if scheme is not None:
        return scheme[0].lower() not in ("http:", "https:", "mailto:")
    if target.startswith(("/", "~", "\\")) or "\\" in target:
        return True
    return posixpath.normpath(target).split("/")[0] == ".."


def strange_path(path: str) -> list[str]:
    """Reasons for a file whose name alone would say something to a model."""
    if not _PLAIN.fullmatch(path):
        return [f"a file with a strange name: {path[:80]!r}"]
    words = re.sub(r"[-_./]+", " ", path)
    return [f"the name of a file: {reason}" for reason in suspicions(words)]
