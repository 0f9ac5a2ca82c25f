"""Lorebooks of other programs: World Info files, the `character_book` of a card, `lorebook_v3`. As data.

A World Info entry (`key`, `order`, `disable`, ...) is first written as an entry of a `character_book`, whose
`extensions` hold what that format has no field for; then both are read by the same lines. Sources:
character-card-spec-v2 `spec_v2.md`, character-card-spec-v3 `SPEC_V3.md`, SillyTavern `world-info.js`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from artelier.artifacts.ref import safe_repr
from artelier.errors import InvalidArtifact, InvalidImport
from artelier.operations.lore.schemas import (
    BUDGET_TOKENS_MAX,
    ENTRIES_MAX,
    GROUPS_MAX,
    KEPT,
    KEYS_MAX,
    NAME_CHARS_MAX,
    ORDER_MAX,
    RECURSION_LEVEL_MAX,
    SCAN_DEPTH_MAX,
    TURNS_MAX,
    CharacterFilter,
    Lorebook,
    LorebookEntry,
    Place,
    Role,
    ScannedText,
    SelectiveLogic,
    read_form,
    with_decorators,
    without_decorators,
)
from artelier.operations.lore.untrusted_files import (
    FileProblems,
    ForeignFields,
    Source,
    as_dict,
    is_nothing,
    listed,
    one_line,
    read_json,
    source_bytes,
)

# Lorebooks of NovelAI and Agnai in the shape of a `character_book`, which `world_info` reads.

NOVELAI, AGNAI = "novelai", "agnai"
"""Extensions that hold what these programs say and nothing here follows."""

_NOVELAI_ENTRY = {
    "id": "id",
    "displayName": "name",
    "text": "content",
    "keys": "keys",
    "enabled": "enabled",
    "forceActivation": "constant",
}
_AGNAI_BOOK = {
    "name": "name",
    "description": "description",
    "scanDepth": "scan_depth",
    "tokenBudget": "token_budget",
    "recursiveScanning": "recursive_scanning",
    "extensions": "extensions",
}
_AGNAI_ENTRY = {
    "id": "id",
    "name": "name",
    "comment": "comment",
    "entry": "content",
    "keywords": "keys",
    "secondaryKeys": "secondary_keys",
    "selective": "selective",
    "enabled": "enabled",
    "constant": "constant",
    "weight": "insertion_order",
    "priority": "priority",
    "position": "position",
}
_SILENT = ("lastUpdatedAt", "_id", "userId", "kind", "createdAt", "updatedAt")
"""Fields of a program's own housekeeping: kept, and not worth a note."""


def as_book(value: dict[str, Any], notes: FileProblems) -> dict[str, Any]:
    """Return a lorebook's object as a `character_book`; one that is in another form already stays as it is.

    What is not followed goes to `notes`, each field once.
    """
    if "lorebookVersion" in value:
        return _novelai_book(value, notes)
    if value.get("kind") == "memory" or _has_agnai_entries(value.get("entries")):
        return _agnai_book(value, notes)
    return value


def _has_agnai_entries(entries: object) -> bool:
    if not isinstance(entries, list) or not entries or not isinstance(entries[0], dict):
        return False
    first = cast("dict[str, Any]", entries[0])
    return "entry" in first and "keywords" in first


def _novelai_book(value: dict[str, Any], notes: FileProblems) -> dict[str, Any]:
    version = value["lorebookVersion"]
    if not isinstance(version, int) or version > 6:
        notes.warn(f"lorebookVersion: {str(version)[:40]} is unknown; read like 5")
    unfollowed: dict[str, None] = {}
    entries = value.get("entries")
    if isinstance(entries, list):
        entries = [_novelai_entry(entry, unfollowed) for entry in cast("list[object]", entries)]
    rest = {name: item for name, item in value.items() if name != "entries"}
    _note(notes, "a NovelAI lorebook", [*unfollowed, *(name for name in rest if name != "lorebookVersion")])
    return {"entries": entries, "extensions": {NOVELAI: rest}}


def _novelai_entry(entry: object, unfollowed: dict[str, None]) -> object:
    if not isinstance(entry, dict):
        return entry
    fields, rest = _split(cast("dict[str, Any]", entry), _NOVELAI_ENTRY)
    config = rest.get("contextConfig")
    if isinstance(config, dict):
        # The higher, the sooner it gets room; programs that read these files take it for the order, too.
        first = cast("dict[str, Any]", config).get("budgetPriority")
        if isinstance(first, int | float):
            fields["insertion_order"] = fields["priority"] = first
    if any("&" in key for key in _texts(fields.get("keys")) if not key.startswith("/")):
        unfollowed["`&` in keys"] = None
    within = {f"contextConfig.{name}": item for name, item in as_dict(rest.get("contextConfig")).items()}
    within.pop("contextConfig.budgetPriority", None)
    listed = {name: item for name, item in rest.items() if name != "contextConfig"} | within
    unfollowed.update(dict.fromkeys(name for name, item in listed.items() if not is_nothing(item)))
    return {**fields, "extensions": {NOVELAI: rest}}


def _agnai_book(value: dict[str, Any], notes: FileProblems) -> dict[str, Any]:
    book, rest = _split(value, _AGNAI_BOOK)
    rest.pop("entries", None)
    unfollowed: dict[str, None] = dict.fromkeys(rest)
    entries = value.get("entries")
    if isinstance(entries, list):
        entries = [_agnai_entry(entry, unfollowed) for entry in cast("list[object]", entries)]
    _note(notes, "an Agnai memory book", [*unfollowed])
    extensions = book.get("extensions")
    if rest and (extensions is None or isinstance(extensions, dict)):
        book["extensions"] = {**cast("dict[str, Any]", extensions or {}), AGNAI: rest}
    return {**book, "entries": entries}


def _agnai_entry(entry: object, unfollowed: dict[str, None]) -> object:
    if not isinstance(entry, dict):
        return entry
    fields, rest = _split(cast("dict[str, Any]", entry), _AGNAI_ENTRY)
    fields.setdefault("selective", bool(fields.get("secondary_keys")))
    unfollowed.update(dict.fromkeys(rest))
    return {**fields, "extensions": {AGNAI: rest}} if rest else fields


def _split(value: Mapping[str, Any], names: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields that have another name here, and all others as they are."""
    known = {names[name]: item for name, item in value.items() if name in names}
    return known, {name: item for name, item in value.items() if name not in names}


def _texts(value: object) -> list[str]:
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [item for item in items if isinstance(item, str)]


def _note(notes: FileProblems, what: str, unfollowed: list[str]) -> None:
    named = sorted({name for name in unfollowed if name not in _SILENT})
    if named:
        notes.warn(f"{what}: kept, but not followed: {listed(named)}")


FILE_BYTES_MAX = 16 * 1024 * 1024

_LOGIC: tuple[SelectiveLogic, ...] = ("and_any", "not_all", "not_any", "and_all")
"""By the number that SillyTavern writes."""

_ROLES: tuple[Role, ...] = ("system", "user", "assistant")

_PLACES: tuple[Place, ...] = ("before", "after", "depth", "depth", "depth", "after", "after", "after")
"""By number: before and after the character, top and bottom of the author's note (which stands in the
chat), at a depth, before and after the example dialogue, outlet (which only a macro inserts)."""

_OUTLET = 7
_OWN_NAMES = frozenset(("useProbability", "selectiveLogic"))
"""What SillyTavern writes alike in both places; all other names change from camel to snake case."""

_UNIMPORTANT: dict[str, tuple[object, ...]] = {
    "vectorized": (False,),
    "automation_id": ("",),
    "outlet_name": ("",),
}
"""What every file says and has no meaning here, unless it says something else than this."""

_ENTRY_FIELDS = frozenset(
    (
        "id",
        "name",
        "comment",
        "keys",
        "secondary_keys",
        "selective",
        "content",
        "constant",
        "enabled",
        "insertion_order",
        "priority",
        "case_sensitive",
        "use_regex",
        "position",
        "extensions",
    )
)
_ENTRY_MARKS = frozenset(("key", "keys", "keywords", "content", "entry"))
"""Fields of which each entry of a lorebook has one, in whatever form."""
_OURS = "artelier/"
"""What begins like this is written by us alone; a file that has it is not believed."""

_UNUSED_KEYS, _COMMENT = "artelier/secondary_keys", "artelier/comment"
"""Extensions that hold secondary keys which do not count, and a comment that is no name."""

_FORGOTTEN = frozenset(("display_index", "add_memo"))
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")


def read_world_info(source: Source, *, warnings: list[str] | None = None) -> Lorebook:
    """Return the lorebook of a file: World Info, `lorebook_v3`, NovelAI, Agnai, or a bare list of entries.

    What was moved into bounds, or is kept but not followed, is appended to `warnings`.
    Errors: `InvalidImport` naming every wrong field with its path; `NotFound`.
    """
    value: Any = read_json(source_bytes(source, limit_bytes=FILE_BYTES_MAX), what="the file")
    if isinstance(value, list):
        entries = cast("list[object]", value)
        if not any(_ENTRY_MARKS & as_dict(one).keys() for one in entries):
            got = safe_repr(entries)[:200]
            raise InvalidImport("this is no lorebook", expected="a list of entries", got=got)
        value = cast("Any", {"entries": entries})
    if not isinstance(value, dict):
        raise InvalidImport("this is no lorebook", expected="an object", got=safe_repr(value))
    book = cast("dict[str, Any]", value)
    if book.get("spec") == "lorebook_v3" and isinstance(book.get("data"), dict):
        book = cast("dict[str, Any]", book["data"])
    if "entries" not in book:
        is_card = "spec" in book or "first_mes" in book
        raise InvalidImport(
            "this is no lorebook",
            expected="`entries`",
            got=", ".join(list(book)[:10])[:200],
            hint="It looks like a character card; read it as one." if is_card else None,
        )
    notes = FileProblems()
    lorebook = read_book(as_book(book, notes), path="", notes=notes)
    notes.check("the lorebook")
    if warnings is not None:
        warnings += notes.warnings
    return lorebook


def read_book(value: dict[str, Any], *, path: str, notes: FileProblems, name: str = "") -> Lorebook:
    """A `character_book`, or the object of a World Info file; one without a name gets `name`.

    Problems go to `notes`; then it is empty.
    """
    fields = ForeignFields(value, path=path, notes=notes)
    entries = _entries(fields.raw("entries"), path=f"{path}entries", notes=notes)
    if fields.raw("originalData") is not None:  # the card's book once more
        notes.warn(f"{path}originalData: left out")
    extensions = fields.mapping("extensions")
    content: dict[str, Any] = {
        "name": fields.line("name", chars_max=NAME_CHARS_MAX) or name,
        "description": fields.text("description"),
        "scan_depth": fields.whole("scan_depth", 4, low=0, high=SCAN_DEPTH_MAX),
        "budget_tokens": fields.whole("token_budget", 2_048, low=0, high=BUDGET_TOKENS_MAX),
        "recursive": fields.flag("recursive_scanning", False),
        "entries": [entry.to_content() for entry in entries],
    }
    kept = content["extensions"] = {**fields.rest(), **extensions}
    if unknown := [name for name, one in kept.items() if name not in _NAMED and not is_nothing(one)]:
        notes.warn(f"{path}extensions: kept, but not followed: {listed(unknown)}")
    try:
        return read_form(Lorebook, content)
    except InvalidArtifact as error:
        for problem in error.facts["problems"]:
            notes.problem(f"{path}{problem}")
        return Lorebook()


def _entries(value: object, *, path: str, notes: FileProblems) -> list[LorebookEntry]:
    if isinstance(value, dict):
        value = list(cast("dict[str, object]", value).values())
    if not isinstance(value, list):
        notes.problem(f"{path}: expected a list or an object of entries, got {safe_repr(value)}")
        return []
    items = cast("list[object]", value)
    if len(items) > ENTRIES_MAX:
        notes.problem(f"{path}: {len(items):,} entries, expected at most {ENTRIES_MAX:,}")
        return []
    found: list[LorebookEntry] = []
    taken: dict[str, int] = {}
    for number, item in enumerate(items):
        place = f"{path}[{number}]"
        if not isinstance(item, dict):
            notes.problem(f"{place}: expected an object, got {safe_repr(item)}")
            continue
        entry = _entry(cast("dict[str, Any]", item), f"{place}.", number, notes)
        if entry.id in taken:
            notes.warn(f"{place}.id: {safe_repr(entry.id)} is there twice; it got another")
            entry = msgspec.structs.replace(entry, id=_other_id(entry.id, taken))
        taken[entry.id] = 1
        found.append(entry)
    _note_unknown(found, path, notes)
    if any(entry.sticky or entry.cooldown or entry.delay for entry in found):
        notes.warn(f"{path}: sticky, cooldown and delay count turns here, not messages; numbers are kept")
    return found


_NAMED = frozenset((NOVELAI, AGNAI, "position", *_UNIMPORTANT))
"""Extensions that are named where they are read, if they say something."""


def _note_unknown(entries: Sequence[LorebookEntry], path: str, notes: FileProblems) -> None:
    """Note the fields of entries that have no meaning here, each once."""
    said = ((name, value) for entry in entries for name, value in entry.extensions.items())
    unknown = {
        name: None
        for name, value in said
        if not (name.startswith(_OURS) or name in _NAMED or is_nothing(value))
    }
    if unknown:
        notes.warn(f"{path}: kept, but not followed: {listed(unknown)}")


def _other_id(wanted: str, taken: dict[str, int]) -> str:
    """The first of `wanted-2`, `wanted-3`, ... that is free; `taken` says how far that was counted."""
    while True:
        taken[wanted] += 1
        other = f"{wanted}-{taken[wanted]}"
        if other not in taken:
            return other


def _entry(value: dict[str, Any], path: str, number: int, notes: FileProblems) -> LorebookEntry:
    if "keys" not in value and not value.keys().isdisjoint(("key", "keysecondary", "uid")):
        value = _as_book_entry(value)
    # Some programs write beside `content` what others write into `extensions`.
    beside = {name: item for name, item in value.items() if name not in _ENTRY_FIELDS}
    fields = ForeignFields(value, path=path, notes=notes)
    within = beside | fields.mapping("extensions")
    if ours := [name for name in within if name.startswith(_OURS)]:
        notes.warn(f"{path}extensions: left out {listed(ours)}")
        within = {name: item for name, item in within.items() if name not in ours}
    more = ForeignFields(within, path=f"{path}extensions.", notes=notes)
    # SillyTavern says `use_regex` of every entry, and means keys between slashes.
    is_theirs = "selectiveLogic" in more or "display_index" in more
    order = fields.whole("insertion_order", 100, low=-ORDER_MAX, high=ORDER_MAX)
    case_sensitive = more.flag("case_sensitive", fields.flag("case_sensitive", False))
    is_regex = fields.raw("use_regex")
    keys, secondary = (_keys(fields, name) for name in ("keys", "secondary_keys"))
    if is_regex is True and not is_theirs:
        keys, secondary = (_patterns(found, case_sensitive) for found in (keys, secondary))
    kept: dict[str, Any] = {}
    if not fields.flag("selective", False) and secondary:
        kept[_UNUSED_KEYS], secondary = list(secondary), ()
    place, position = _place(fields, more)
    entry = LorebookEntry(
        id=_id(fields, number),
        name=_name(fields, kept),
        content=fields.text("content"),
        keys=keys,
        secondary_keys=secondary,
        selective_logic=_LOGIC[more.whole("selectiveLogic", 0, low=0, high=3)],
        enabled=fields.flag("enabled", True) and position != _OUTLET,
        constant=fields.flag("constant", False),
        case_sensitive=case_sensitive,
        whole_words=more.flag("match_whole_words", False),
        use_regex=is_regex is not False,
        scan_depth=_scan_depth(more),
        order=order,
        priority=fields.whole("priority", order, low=-ORDER_MAX, high=ORDER_MAX),
        place=place,
        depth=more.whole("depth", 4, low=0, high=SCAN_DEPTH_MAX),
        role=_role(more),
        probability=_probability(more),
        sticky=more.whole("sticky", 0, low=0, high=TURNS_MAX),
        cooldown=more.whole("cooldown", 0, low=0, high=TURNS_MAX),
        delay=more.whole("delay", 0, low=0, high=TURNS_MAX),
        found_by_recursion=not more.flag("exclude_recursion", False),
        feeds_recursion=not more.flag("prevent_recursion", False),
        **_rules(more),
    )
    kept |= _keep_unknown(more, position, notes, path)
    entry = without_decorators(msgspec.structs.replace(entry, extensions=kept))
    if entry.place != place and "position" in kept:
        moved = {name: item for name, item in entry.extensions.items() if name != "position"}
        entry = msgspec.structs.replace(entry, extensions=moved)
    if lines := _texts(entry.extensions.get(KEPT)):
        names = dict.fromkeys(line.partition(" ")[0][:60] for line in lines)
        notes.warn(f"{path}content: kept, but not followed: {listed(names)}")
    return entry


_SCANS: dict[str, ScannedText] = {
    "match_persona_description": "persona",
    "match_character_description": "description",
    "match_character_personality": "personality",
    "match_character_depth_prompt": "depth_prompt",
    "match_scenario": "scenario",
    "match_creator_notes": "creator_notes",
}
"""Texts that an entry may have searched, by the flag that asks for it."""


def _rules(more: ForeignFields) -> dict[str, Any]:
    """Return the rules beside keys, as fields of an entry: groups, levels, budget, characters, triggers."""
    return {
        "groups": _short_texts(more, "group"),
        "group_weight": more.whole("group_weight", 100, low=0, high=ORDER_MAX),
        "group_first": more.flag("group_override", False),
        "group_scoring": more.flag("use_group_scoring", False),
        "recursion_level": _level(more),
        "ignore_budget": more.flag("ignore_budget", False),
        "characters": _characters(more),
        "triggers": _short_texts(more, "triggers"),
        "also_scans": tuple(text for flag, text in _SCANS.items() if more.flag(flag, False)),
    }


def _level(more: ForeignFields) -> int:
    """The level of recursion that an entry waits for; older files say only that it waits."""
    given = more.raw("delay_until_recursion")
    if isinstance(given, bool):
        return int(given)
    fields = ForeignFields({"delay_until_recursion": given}, path=more.path, notes=more.notes)
    return fields.whole("delay_until_recursion", 0, low=0, high=RECURSION_LEVEL_MAX)


def _short_texts(fields: ForeignFields, name: str, *, most: int = GROUPS_MAX) -> tuple[str, ...]:
    found = dict.fromkeys(text[:NAME_CHARS_MAX] for text in fields.texts(name, split=True) if text.strip())
    if len(found) > most:
        fields.notes.warn(f"{fields.path}{name}: the first {most} of {len(found)} are kept")
    return tuple(found)[:most]


def _characters(more: ForeignFields) -> CharacterFilter | None:
    path = f"{more.path}character_filter."
    fields = ForeignFields(more.mapping("character_filter"), path=path, notes=more.notes)
    names, tags = (_short_texts(fields, name, most=KEYS_MAX) for name in ("names", "tags"))
    if not names and not tags:
        return None
    return CharacterFilter(exclude=fields.flag("isExclude", False), names=names, tags=tags)


def _as_book_entry(value: dict[str, Any]) -> dict[str, Any]:
    """A World Info entry in the shape of a `character_book`."""
    left = dict(value)
    extensions: object = left.pop("extensions", None)
    entry: dict[str, Any] = {
        "id": left.pop("uid", None),
        "keys": left.pop("key", None),
        "secondary_keys": left.pop("keysecondary", None),
        "comment": left.pop("comment", None),
        "content": left.pop("content", None),
        "constant": left.pop("constant", None),
        "selective": left.pop("selective", True),
        "insertion_order": left.pop("order", None),
    }
    disable = left.pop("disable", None)
    # What is neither true nor false is told as a wrong `enabled`.
    flipped = {"true": "false", "false": "true"}
    said = flipped.get(disable.strip().lower(), disable) if isinstance(disable, str) else disable
    entry["enabled"] = said if disable not in (True, False) else not disable
    more = {
        name if name in _OWN_NAMES else _CAMEL.sub("_", name).lower(): item for name, item in left.items()
    }
    if isinstance(extensions, dict):
        more = cast("dict[str, Any]", extensions) | more
    more.setdefault("selectiveLogic", 0)
    return entry | {"extensions": more}


def _keys(fields: ForeignFields, name: str) -> tuple[str, ...]:
    stripped = (item.strip() for item in fields.texts(name, split=True))
    return tuple(dict.fromkeys(key for key in stripped if key))


def _patterns(keys: tuple[str, ...], case_sensitive: bool) -> tuple[str, ...]:
    """Bare patterns between slashes."""
    flags = "" if case_sensitive else "i"
    return tuple(key if key.startswith("/") else f"/{_escape_slashes(key)}/{flags}" for key in keys)


def _escape_slashes(pattern: str) -> str:
    """A slash would end the pattern."""
    return re.sub(r"\\.|/", lambda match: match[0] if match[0] != "/" else "\\/", pattern)


def _id(fields: ForeignFields, number: int) -> str:
    value = fields.raw("id")
    if isinstance(value, int | str) and not isinstance(value, bool) and value != "":
        return one_line(str(value))[:100] or str(number)
    return str(number)


def _name(fields: ForeignFields, kept: dict[str, Any]) -> str:
    """`name`, or else `comment`, which other programs use for the same; a longer comment is kept."""
    name, comment = fields.text("name"), fields.text("comment")
    line = one_line(name or comment)[:NAME_CHARS_MAX]
    if comment and comment != line:
        kept[_COMMENT] = comment
    return line


def _place(fields: ForeignFields, more: ForeignFields) -> tuple[Place, int]:
    """Return where it stands, and the number that says so (-1: a word said it)."""
    word, number = fields.raw("position"), _digits(more.raw("position"))
    word = _digits(word)
    if number is None and isinstance(word, int):
        number = word
    if isinstance(number, int) and 0 <= number < len(_PLACES):
        return _PLACES[number], number
    given = word if number is None else number
    if given not in (None, "", "before_char", "after_char"):
        fields.notes.warn(f"{fields.path}position: {safe_repr(given)} is unknown; it stands `after`")
    return ("before" if word == "before_char" else "after"), -1


def _scan_depth(more: ForeignFields) -> int | None:
    depth = more.whole("scan_depth", -1, low=-1, high=SCAN_DEPTH_MAX)
    return None if depth < 0 else depth


def _digits(value: object) -> object:
    """Return a number that is written as text as a number, and all else as it is."""
    if isinstance(value, str) and value.isdecimal() and value.isascii() and len(value) < 4:
        return int(value)
    return value


def _role(more: ForeignFields) -> Role:
    value = _digits(more.raw("role"))
    if isinstance(value, str) and value in _ROLES:
        return value
    if isinstance(value, int) and 0 <= value < len(_ROLES):
        return _ROLES[value]
    if value not in (None, ""):
        more.notes.warn(f"{more.path}role: {safe_repr(value)} is unknown; taken as system")
    return "system"


def _probability(more: ForeignFields) -> int:
    percent = more.whole("probability", 100, low=0, high=100)
    return percent if more.flag("useProbability", True) else 100


def _keep_unknown(more: ForeignFields, position: int, notes: FileProblems, path: str) -> dict[str, Any]:
    """Return what has no field here, without what every file says."""
    kept: dict[str, Any] = {}
    for name, value in more.rest().items():
        usual = _UNIMPORTANT.get(name, ())
        if name in _FORGOTTEN or (usual and (value is None or value in usual)):
            continue
        kept[name] = value
        if usual:
            notes.warn(f"{path}{name}: kept, but not followed")
    if position in (2, 3, 5, 6, _OUTLET):
        kept["position"] = position
        notes.warn(
            f"{path}position: {position} is no place here; "
            + ("disabled" if position == _OUTLET else f"it stands `{_PLACES[position]}`")
        )
    return kept


def write_lorebook(book: Lorebook) -> bytes:
    """The book as a `lorebook_v3` file; `read_world_info` gives an equal one if its ids are plain lines."""
    return msgspec.json.format(
        msgspec.json.encode({"spec": "lorebook_v3", "data": book_object(book)}), indent=1
    )


def book_object(book: Lorebook) -> dict[str, Any]:
    """The book as the `character_book` of a card."""
    return {
        "name": book.name,
        "description": book.description,
        "scan_depth": book.scan_depth,
        "token_budget": book.budget_tokens,
        "recursive_scanning": book.recursive,
        "extensions": book.extensions,
        "entries": [_entry_object(entry, number) for number, entry in enumerate(book.entries)],
    }


def _entry_object(entry: LorebookEntry, number: int) -> dict[str, Any]:
    kept = {name: item for name, item in entry.extensions.items() if not name.startswith(_OURS)}
    unused: object = entry.extensions.get(_UNUSED_KEYS)
    comment: object = entry.extensions.get(_COMMENT)
    position = kept.pop("position", None)
    if not isinstance(position, int) or not _stands(entry, position):
        position = {"before": 0, "after": 1, "depth": 4}[entry.place]
    return {
        "id": int(entry.id) if re.fullmatch(r"0|[1-9][0-9]{0,8}", entry.id) else entry.id,
        "name": entry.name,
        "comment": comment if isinstance(comment, str) else entry.name,
        "keys": list(entry.keys),
        "secondary_keys": list(entry.secondary_keys) or (unused if isinstance(unused, list) else []),
        "selective": bool(entry.secondary_keys),
        "content": with_decorators(entry),
        "constant": entry.constant,
        "enabled": entry.enabled,
        "insertion_order": entry.order,
        "priority": entry.priority,
        "case_sensitive": entry.case_sensitive,
        "use_regex": entry.use_regex,
        "position": "before_char" if entry.place == "before" else "after_char",
        "extensions": kept
        | {
            "position": position,
            "depth": entry.depth,
            "role": _ROLES.index(entry.role),
            "selectiveLogic": _LOGIC.index(entry.selective_logic),
            "probability": entry.probability,
            "useProbability": True,
            "sticky": entry.sticky,
            "cooldown": entry.cooldown,
            "delay": entry.delay,
            "scan_depth": entry.scan_depth,
            "case_sensitive": entry.case_sensitive,
            "match_whole_words": entry.whole_words,
            "exclude_recursion": not entry.found_by_recursion,
            "prevent_recursion": not entry.feeds_recursion,
            "display_index": number,
            **_rules_object(entry),
        },
    }


def _rules_object(entry: LorebookEntry) -> dict[str, Any]:
    """Return the rules of `_rules` as a file has them; those that say nothing are left out."""
    wanted = entry.characters
    said: dict[str, Any] = {
        "group": ",".join(entry.groups),
        "group_weight": entry.group_weight if entry.group_weight != 100 else None,
        "group_override": entry.group_first,
        "use_group_scoring": entry.group_scoring,
        "delay_until_recursion": entry.recursion_level,
        "ignore_budget": entry.ignore_budget,
        "character_filter": wanted
        and {"isExclude": wanted.exclude, "names": list(wanted.names), "tags": list(wanted.tags)},
        "triggers": list(entry.triggers),
        **{flag: text in entry.also_scans for flag, text in _SCANS.items()},
    }
    return {name: value for name, value in said.items() if value or (name == "group_weight" and value == 0)}


def _stands(entry: LorebookEntry, position: int) -> bool:
    """Return True if a number that was kept still says where the entry stands."""
    if not 0 <= position < len(_PLACES) or _PLACES[position] != entry.place:
        return False
    return position != _OUTLET or not entry.enabled
