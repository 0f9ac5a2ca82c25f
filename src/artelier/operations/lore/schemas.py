"""The canonical forms of what writers bring: characters, personas, lorebooks. Shapes and bounds only.

A form is the JSON content of an artifact of the same name; what is left out has its default, and unknown
fields are refused. Foreign files are turned into these forms by `character_cards.py` and `world_info.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, cast, get_args, get_origin

import msgspec
from msgspec import Meta

from artelier.artifacts import Kind, register_kind
from artelier.artifacts.content import Media, check_json
from artelier.artifacts.ref import Ref, safe_repr
from artelier.errors import InvalidArtifact, InvalidRequest
from artelier.threads import read_beside_loop

TEXT_CHARS_MAX = 200_000
"""Of one text (guess: several times the longest description seen in public cards)."""

NAME_CHARS_MAX = 200
KEY_CHARS_MAX = 512
GREETINGS_MAX = 200
TAGS_MAX = 500
KEYS_MAX = 256
ENTRIES_MAX = 5_000
"""Of a lorebook (guess: the largest public ones have some 2,000)."""

KEYS_TOTAL_MAX = 20_000
LOREBOOK_CHARS_MAX = 8_000_000
"""Content of all entries together."""

EXTENSIONS_BYTES_MAX = 1_000_000
"""Of one `extensions`, as JSON; pictures belong into files."""

ORDER_MAX = 1_000_000
SCAN_DEPTH_MAX = 1_000
TURNS_MAX = 10_000
RECURSION_LEVEL_MAX = 1_000
GROUPS_MAX = 32
"""Inclusion groups, and triggers, of one entry."""
BUDGET_TOKENS_MAX = 1_000_000
PROBLEMS_MAX = 20
"""How many wrong fields a message names."""

Text: TypeAlias = Annotated[str, Meta(max_length=TEXT_CHARS_MAX)]
Name: TypeAlias = Annotated[
    str, Meta(min_length=1, max_length=NAME_CHARS_MAX, pattern=r"\A[^\x00-\x1f\x7f\u2028\u2029]*\Z")
]
"""One line: a name stands before what somebody says, and must not be able to end that line."""

Short: TypeAlias = Annotated[str, Meta(max_length=NAME_CHARS_MAX)]
Key: TypeAlias = Annotated[str, Meta(min_length=1, max_length=KEY_CHARS_MAX)]
Keys: TypeAlias = Annotated[tuple[Key, ...], Meta(max_length=KEYS_MAX)]
Order: TypeAlias = Annotated[int, Meta(ge=-ORDER_MAX, le=ORDER_MAX)]
Depth: TypeAlias = Annotated[int, Meta(ge=0, le=SCAN_DEPTH_MAX)]
Turns: TypeAlias = Annotated[int, Meta(ge=0, le=TURNS_MAX)]

SelectiveLogic = Literal["and_any", "and_all", "not_any", "not_all"]
Place = Literal["before", "after", "depth"]
Role = Literal["system", "user", "assistant"]
ScannedText = Literal["persona", "description", "personality", "depth_prompt", "scenario", "creator_notes"]
"""Texts of the people in a chat that an entry may have searched beside the messages."""


class LoreForm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One of the forms below."""

    def to_content(self) -> dict[str, Any]:
        """The JSON content of an artifact; `read_form` gives an equal form. Defaults are left out."""
        return msgspec.json.decode(msgspec.json.encode(self))  # tuples become lists


class CharacterFilter(LoreForm, frozen=True, kw_only=True):
    """The characters for which an entry counts: those named or tagged here, or all others."""

    exclude: bool = False
    names: Annotated[tuple[Short, ...], Meta(max_length=KEYS_MAX)] = ()
    tags: Annotated[tuple[Short, ...], Meta(max_length=KEYS_MAX)] = ()


class LorebookEntry(LoreForm, frozen=True, kw_only=True):
    """One piece of lore, and when it enters a prompt."""

    id: Annotated[str, Meta(min_length=1, max_length=128)]
    """Unique in its book."""
    name: Short = ""
    """For people; in no prompt."""
    content: Text = ""
    keys: Keys = ()
    """Any of them activates. `/pattern/flags` is a regular expression, see `use_regex`."""
    secondary_keys: Keys = ()
    """Looked at only when a key was found, by `selective_logic`; none: the keys decide alone."""
    selective_logic: SelectiveLogic = "and_any"
    """Any of the secondary keys is there, all are, none is, or not all are."""
    enabled: bool = True
    constant: bool = False
    """Active without a key."""
    case_sensitive: bool = False
    whole_words: bool = False
    """A key of one word counts only where no letter stands beside it (in scripts that separate words)."""
    use_regex: bool = True
    """Whether `/pattern/flags` is a regular expression; False: all keys are plain text."""
    scan_depth: Depth | None = None
    """Messages from the end that are searched; None: as the book says."""
    order: Order = 100
    """Ascending in the prompt: the highest stands nearest to the end."""
    priority: Order = 0
    """The lowest is left out first when the budget is short."""
    place: Place = "before"
    """Before or after the character, or as a message `depth` from the end."""
    depth: Depth = 4
    role: Role = "system"
    """Of the message, where `place` is `depth`."""
    probability: Annotated[int, Meta(ge=0, le=100)] = 100
    """Percent."""
    sticky: Turns = 0
    """Turns that it stays after the turn in which it became active, with or without a key."""
    cooldown: Turns = 0
    """Turns afterwards in which it does not become active."""
    delay: Turns = 0
    """The first turn in which it may become active; turns count from 1."""
    found_by_recursion: bool = True
    """Whether the content of another entry may activate it."""
    feeds_recursion: bool = True
    """Whether its content may activate others."""
    recursion_level: Annotated[int, Meta(ge=0, le=RECURSION_LEVEL_MAX)] = 0
    """Above 0: it is looked for only after the messages, once lower levels bring nothing more."""
    groups: Annotated[tuple[Short, ...], Meta(max_length=GROUPS_MAX)] = ()
    """Inclusion groups: of the entries of one that are found, one becomes active."""
    group_weight: Annotated[int, Meta(ge=0, le=ORDER_MAX)] = 100
    """Its share of the chance in a group."""
    group_first: bool = False
    """It goes before chance; of several the one with the highest order."""
    group_scoring: bool = False
    """It leaves its group to entries with more keys in the text."""
    ignore_budget: bool = False
    """It enters however little is left of the budget."""
    characters: CharacterFilter | None = None
    """None: for every character."""
    triggers: Annotated[tuple[Short, ...], Meta(max_length=GROUPS_MAX)] = ()
    """`normal`, `continue`, `swipe`, `regenerate`, ...: it enters at these alone; none: at all."""
    also_scans: tuple[ScannedText, ...] = ()
    """Texts in which its keys are looked for beside the messages."""
    extensions: dict[str, Any] = {}
    """What came with it and has no meaning here; kept for the way back."""


class Lorebook(LoreForm, frozen=True, kw_only=True):
    """Lore that enters a prompt where the chat speaks of it."""

    name: Short = ""
    description: Text = ""
    """For people; in no prompt."""
    scan_depth: Depth = 4
    """Messages from the end in which keys are looked for."""
    budget_tokens: Annotated[int, Meta(ge=0, le=BUDGET_TOKENS_MAX)] = 2_048
    recursive: bool = False
    """Whether the content of active entries is searched for keys too."""
    entries: Annotated[tuple[LorebookEntry, ...], Meta(max_length=ENTRIES_MAX)] = ()
    extensions: dict[str, Any] = {}

    def __post_init__(self) -> None:
        problem = next(_book_problems(self), None)
        if problem is not None:
            raise ValueError(problem)


class Character(LoreForm, frozen=True, kw_only=True):
    """Somebody a chat is led with. Every text may name `{{char}}` and `{{user}}`."""

    name: Name
    nickname: Name | None = None
    """What `{{char}}` becomes, if it is not the name."""
    description: Text = ""
    personality: Text = ""
    scenario: Text = ""
    first_message: Text = ""
    alternate_greetings: Annotated[tuple[Text, ...], Meta(max_length=GREETINGS_MAX)] = ()
    """Other first messages: variants of the first turn."""
    example_dialogue: Text = ""
    """Conversations that each begin with a line `<START>`."""
    system_prompt: Text = ""
    post_history_instructions: Text = ""
    creator_notes: Text = ""
    """For people; in no prompt. So are tags, creator and version."""
    tags: Annotated[tuple[Short, ...], Meta(max_length=TAGS_MAX)] = ()
    creator: Short = ""
    version: Short = ""
    lorebook: Annotated[str, Meta(min_length=1, max_length=300)] | None = None
    """Ref of the character's own lorebook, an artifact beside it. No file can say it."""
    extensions: dict[str, Any] = {}

    def __post_init__(self) -> None:
        _check_extensions(self.extensions)
        if self.lorebook is not None:
            try:
                Ref.parse(self.lorebook)
            except InvalidRequest as error:
                raise ValueError(f"lorebook: {error}") from None

    @property
    def called(self) -> str:
        """The replacement of `{{char}}`."""
        return self.nickname or self.name


class Persona(LoreForm, frozen=True, kw_only=True):
    """The person at the keyboard in a chat."""

    name: Name
    """What `{{user}}` becomes."""
    description: Text = ""


F = TypeVar("F", bound=LoreForm)


def read_form(form: type[F], content: object) -> F:
    """JSON content as a form.

    Errors: `InvalidArtifact` that names every wrong field (of many the first 20), with its path.
    """
    check_json(content)
    try:
        return msgspec.convert(content, form)
    except msgspec.ValidationError as error:
        problems = list(dict.fromkeys(_problems(form, content, ""))) or [_readable(error, "")]
    named = problems[:PROBLEMS_MAX]
    if len(problems) > len(named):
        named.append(f"and {len(problems) - len(named)} more")
    kind = form.__name__.lower()
    raise InvalidArtifact(f"this is no {kind}: {'; '.join(named)}", problems=tuple(problems))


_ENTRY_BYTES = 500
"""Of a usual entry (guess): by the size of what is read, users take turns."""


async def read_stored_book(content: object) -> Lorebook:
    """Return the lorebook that an artifact holds. A large one takes 80 ms, and is read beside the event loop.

    Errors: `InvalidArtifact`, as of `read_form`.
    """
    entries = cast("dict[str, object]", content).get("entries") if isinstance(content, dict) else ()
    size_bytes = _ENTRY_BYTES * len(cast("list[object]", entries)) if isinstance(entries, list) else 0
    return await read_beside_loop(size_bytes, read_form, Lorebook, content)


def _problems(form: type[LoreForm], value: object, path: str) -> Iterator[str]:
    """Every wrong field, each named by its path."""
    if not isinstance(value, dict):
        yield f"{path.removesuffix('.') or 'content'}: expected an object, got {safe_repr(value)}"
        return
    given = cast("dict[str, object]", value)
    fields = _fields(form)
    for name in given.keys() - fields.keys():
        yield f"{path}{name[:60]}: unknown field"
    for name, field in fields.items():
        if name not in given:
            if field.required:
                yield f"{path}{name}: missing"
        elif name == "entries" and isinstance(given[name], list | tuple):
            for number, entry in enumerate(cast("list[object]", given[name])):
                yield from _problems(LorebookEntry, entry, f"{path}entries[{number}].")
        else:
            try:
                msgspec.convert(given[name], field.type)
            except msgspec.ValidationError as error:
                yield _readable(error, f"{path}{name}", field.type, given[name])


@lru_cache(maxsize=8)
def _fields(form: type[LoreForm]) -> dict[str, msgspec.structs.FieldInfo]:
    return {field.name: field for field in msgspec.structs.fields(form)}


_AT = re.compile(r" - at `\$([^`]*)`\Z")


def _readable(error: msgspec.ValidationError, path: str, type_: object = None, value: object = None) -> str:
    text = str(error)
    where = _AT.search(text)
    text = _AT.sub("", text).replace("`", "")
    if get_origin(type_) is Literal:
        text = f"Expected one of {', '.join(get_args(type_))}, got {safe_repr(value)}"
    text = text[:1].lower() + text[1:]
    return f"{path}{where[1] if where else ''}: {text}" if path else text


def _book_problems(book: Lorebook) -> Iterator[str]:
    """Return what holds between entries: ids are unique, all is bounded."""
    seen: set[str] = set()
    keys = chars = 0
    for number, entry in enumerate(book.entries):
        if entry.id in seen:
            yield f"entries[{number}].id: {safe_repr(entry.id)} is there twice"
        seen.add(entry.id)
        keys += len(entry.keys) + len(entry.secondary_keys)
        chars += len(entry.content)
        if entry.extensions:
            _check_extensions(entry.extensions, f"entries[{number}].")
    if book.extensions:
        _check_extensions(book.extensions)
    for what, count, most in (
        ("keys", keys, KEYS_TOTAL_MAX),
        ("characters of content", chars, LOREBOOK_CHARS_MAX),
    ):
        if count > most:
            yield f"entries: {count:,} {what}, expected at most {most:,}"


def _check_extensions(extensions: dict[str, Any], path: str = "") -> None:
    if not extensions:
        return
    try:
        size_bytes = len(msgspec.json.encode(extensions))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{path}extensions: not JSON ({error})") from None
    if size_bytes > EXTENSIONS_BYTES_MAX:
        raise ValueError(f"{path}extensions: {size_bytes:,} bytes, expected at most {EXTENSIONS_BYTES_MAX:,}")


_JSON: frozenset[Media] = frozenset(("json",))


def register_writing() -> None:
    """Know the kinds of writers; their contents are the forms in `schemas.py`. Twice is once.

    They are private: whom somebody plays, and with whom, is nobody else's business unless they say so.
    """
    for name, check in (
        ("character", _check_character),
        ("persona", _check_persona),
        ("lorebook", _check_lorebook),
    ):
        register_kind(Kind(name=name, media=_JSON, check=check, default_access="private"), replace=True)


def _check_character(content: object) -> None:
    read_form(Character, content)


def _check_persona(content: object) -> None:
    read_form(Persona, content)


def _check_lorebook(content: object) -> None:
    read_form(Lorebook, content)


KEPT = "artelier/decorators"
"""The extension that holds the lines nobody here follows."""

_LINES_MAX = 64


def without_decorators(entry: LorebookEntry) -> LorebookEntry:
    """The entry with its decorators turned into fields, or kept in `extensions`."""
    lines, content = _split(entry.content)
    if not lines:
        return entry
    changes: dict[str, Any] = {}
    kept: list[str] = []
    for group in _groups(lines):
        for line in group:
            meant = _meaning(line, entry)
            if meant is not None:
                # Of several with one name the first counts.
                changes = {**meant, **changes}
                break
        else:
            kept += group
    if kept:
        changes["extensions"] = {**entry.extensions, KEPT: kept}
    return msgspec.structs.replace(entry, content=content, **changes)


def with_decorators(entry: LorebookEntry) -> str:
    """The content as it stands in a file."""
    kept: object = entry.extensions.get(KEPT)
    if not isinstance(kept, list):
        return entry.content
    lines = [line for line in kept if isinstance(line, str) and line.startswith("@@")]  # pyright: ignore[reportUnknownVariableType] - JSON
    return "\n".join([*lines, entry.content])


def _split(content: str) -> tuple[list[str], str]:
    """The lines that begin with `@@` at the very top, and the content after them."""
    lines: list[str] = []
    rest = content
    while rest.lstrip().startswith("@@") and len(lines) < _LINES_MAX:
        line, _, rest = rest.lstrip().partition("\n")
        lines.append(line.strip())
    return lines, rest.lstrip("\r\n") if lines else content


def _groups(lines: list[str]) -> list[list[str]]:
    """Each decorator with its fallbacks."""
    groups: list[list[str]] = []
    for line in lines:
        if line.startswith("@@@") and groups:
            groups[-1].append(line)
        else:
            groups.append([line])
    return groups


def _meaning(line: str, entry: LorebookEntry) -> dict[str, Any] | None:
    """Return what it says in fields of an entry; None if there is no field for it, or the value is none."""
    name, _, value = line.lstrip("@").partition(" ")
    value = value.strip()
    match name:
        case "activate":
            return {"constant": True}
        case "dont_activate":
            return {"enabled": False}
        case "keep_activate_after_match":
            return {"sticky": TURNS_MAX}
        case "dont_activate_after_match":
            return {"cooldown": TURNS_MAX}
        case "role" if value in get_args(Role):
            return {"role": value}
        case "position" if value in ("before_desc", "after_desc"):
            return {"place": value.removesuffix("_desc")}
        case "depth" if value.isdecimal() and len(value) < 5:
            return {"place": "depth", "depth": min(int(value), SCAN_DEPTH_MAX)}
        case "scan_depth" if value.isdecimal() and len(value) < 5:
            return {"scan_depth": min(int(value), SCAN_DEPTH_MAX)}
        case "additional_keys" | "exclude_keys" if value and not entry.secondary_keys:
            keys = tuple(key for item in value.split(",") if (key := item.strip()))
            logic = "and_any" if name == "additional_keys" else "not_any"
            return {"secondary_keys": keys, "selective_logic": logic}
        case _:
            return None
