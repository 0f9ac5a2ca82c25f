"""The one schema of what an agent may do in a world: parser, prompt, tools and docs come from it.

`parse_action` and its neighbours read the JSON object in an agent's reply, and the action that it means.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Collection, Mapping
from copy import deepcopy
from functools import lru_cache
from importlib.resources import files
from typing import Annotated, Any, Literal, NamedTuple, NoReturn, TypeAlias, cast

import msgspec
from msgspec import UNSET, Meta, UnsetType

from artelier.artifacts import Access, Ref, check_principal
from artelier.artifacts.access import PRICE_MAX
from artelier.artifacts.content import check_json
from artelier.artifacts.ref import check_new_id
from artelier.errors import InvalidArguments, InvalidArtifact, InvalidRequest
from artelier.ids import check_artifact_id

ACTION_BYTES_MAX = 256 * 1024
"""JSON of one action (guess: a long document; larger content is no single thought of a model)."""

REASONING_CHARS_MAX = 4_000

# `$` lets a newline pass; the checks below do not. A pattern without lookahead suits every provider.
_ID = r"^[A-Za-z0-9._:/-]{1,128}$"
_REF = r"^[A-Za-z0-9._:/-]{1,128}(@[1-9][0-9]{0,14})?(#[A-Za-z0-9._:/-]{1,128})?$"
_WHO = r"^[A-Za-z0-9._:/-]{1,512}$"
_NAME = r"^[a-z][a-z0-9_]{0,63}$"

PATTERNS = {
    _ID: "an id (1-128 characters of A-Z a-z 0-9 . _ : / -)",
    _REF: "a ref such as `id`, `id@2` or `library#part`",
    _WHO: "the id of an agent or a service",
    _NAME: "a name of a-z 0-9 _",
}
"""What to tell whoever sent something else."""

Id: TypeAlias = Annotated[str, Meta(pattern=_ID, description="id of an artifact")]
AnyRef: TypeAlias = Annotated[str, Meta(pattern=_REF, description="`id`, `id@version` or `library#part`")]
Who: TypeAlias = Annotated[str, Meta(pattern=_WHO, description="id of an agent or a service")]
OfferId: TypeAlias = Annotated[str, Meta(pattern=_ID, description="id of an offer")]
Scrip: TypeAlias = Annotated[int, Meta(ge=0, le=PRICE_MAX, description="whole scrip")]
PriceMax: TypeAlias = Annotated[
    int, Meta(ge=0, le=PRICE_MAX, description="the most you agree to pay, in whole scrip")
]
Name: TypeAlias = Annotated[str, Meta(pattern=_NAME)]
Version: TypeAlias = Annotated[
    int, Meta(ge=0, le=2**53, description="refuse unless this is the version now; 0: must be new")
]


class Action(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="action",
    omit_defaults=True,
):
    """What one agent wants to do in one tick."""

    reasoning: Annotated[
        str, Meta(max_length=REASONING_CHARS_MAX, description="why, in a sentence or two")
    ] = ""

    @property
    def name(self) -> str:
        """Such as `write`."""
        return str(self.__struct_config__.tag)


class Noop(Action, frozen=True, kw_only=True, tag="noop"):
    """Do nothing in this tick."""


class Read(Action, frozen=True, kw_only=True, tag="read"):
    """Read an artifact, a version of it, or a part of a library; its content is your next result."""

    ref: AnyRef
    price_max: PriceMax | None = None

    def __post_init__(self) -> None:
        Ref.parse(self.ref, main_allowed=True)


class Prices(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What others pay you each time, in whole scrip."""

    read: Scrip = 0
    invoke: Scrip = 0
    inclusion: Scrip = 0


class Write(Action, frozen=True, kw_only=True, tag="write"):
    """Make an artifact of your own, or a new version of one that you may write."""

    artifact_id: Id
    content: Annotated[Any, Meta(description="text or JSON, as the kind demands")]
    kind: (
        Annotated[Name, Meta(description="needed for a new artifact; an existing one keeps its kind")] | None
    ) = None
    access: (
        Annotated[
            str | dict[str, Any],
            Meta(description="private, owner_writes, public, {allow: {right: [who]}} or {contract: id}"),
        ]
        | None
    ) = None
    prices: Prices | None = None
    interface: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    expected_version: Version | None = None

    def __post_init__(self) -> None:
        check_new_id(self.artifact_id)
        _check_name(self.kind)
        _check_size(self.content, self.access, self.interface, self.metadata)
        if self.access is not None:
            Access.parse(self.access)


class Edit(Action, frozen=True, kw_only=True, tag="edit"):
    """Replace a string that occurs exactly once in an artifact's text."""

    artifact_id: Id
    old: Annotated[str, Meta(min_length=1, max_length=ACTION_BYTES_MAX)]
    new: Annotated[str, Meta(max_length=ACTION_BYTES_MAX)]

    def __post_init__(self) -> None:
        check_new_id(self.artifact_id)
        _check_size(self.old, self.new)


class Delete(Action, frozen=True, kw_only=True, tag="delete"):
    """Delete an artifact of yours for good; its id stays taken."""

    artifact_id: Id

    def __post_init__(self) -> None:
        check_new_id(self.artifact_id)


class Invoke(Action, frozen=True, kw_only=True, tag="invoke"):
    """Run an executable artifact or a service, with the arguments that its interface names."""

    artifact_id: Id
    args: dict[str, Any] = {}
    price_max: PriceMax | None = None

    def __post_init__(self) -> None:
        check_new_id(self.artifact_id)
        _check_size(self.args)


class Transfer(Action, frozen=True, kw_only=True, tag="transfer"):
    """Give scrip to somebody."""

    to: Who
    amount: Annotated[int, Meta(ge=1, le=PRICE_MAX, description="whole scrip")]

    def __post_init__(self) -> None:
        check_principal(self.to)


class SubscribeArtifact(Action, frozen=True, kw_only=True, tag="subscribe_artifact"):
    """Have an artifact's newest content in your prompt from the next tick on."""

    artifact_id: Id

    def __post_init__(self) -> None:
        check_new_id(self.artifact_id)


class UnsubscribeArtifact(Action, frozen=True, kw_only=True, tag="unsubscribe_artifact"):
    """Have it no longer."""

    artifact_id: Id

    def __post_init__(self) -> None:
        check_artifact_id(self.artifact_id)


Reference: TypeAlias = AnyRef | UnsetType | None


class Configure(Action, frozen=True, kw_only=True, tag="configure"):
    """Change what you think with: name an artifact, or null for none. It holds from the next tick on."""

    personality_prompt_artifact_id: Reference = UNSET
    workflow_artifact_id: Reference = UNSET
    reflex_artifact_id: Reference = UNSET
    working_memory_artifact_id: Reference = UNSET
    longterm_memory_artifact_id: Reference = UNSET
    steering_artifact_id: Reference = UNSET

    def __post_init__(self) -> None:
        if not self.changes:
            raise InvalidArguments("configure changes nothing", expected=f"one of {', '.join(CONFIGURABLE)}")
        for ref in self.changes.values():
            if ref is not None:
                Ref.parse(ref, main_allowed=True)

    @property
    def changes(self) -> dict[str, str | None]:
        """The references to set, by field of the agent artifact; None removes one."""
        values = ((name, getattr(self, name)) for name in CONFIGURABLE)
        return {name: value for name, value in values if value is not UNSET}


CONFIGURABLE: tuple[str, ...] = tuple(name for name in Configure.__struct_fields__ if name != "reasoning")


class Search(Action, frozen=True, kw_only=True, tag="search"):
    """Find artifacts that you may read: by words, kind or owner. The list is your next result."""

    text: Annotated[str, Meta(max_length=500, description="words that all occur in it")] = ""
    kind: Name | None = None
    owner: Who | None = None
    limit: Annotated[int, Meta(ge=1, le=50)] = 10

    def __post_init__(self) -> None:
        _check_name(self.kind)
        if self.owner is not None:
            check_principal(self.owner)


class Offer(Action, frozen=True, kw_only=True, tag="offer"):
    """Offer an artifact of yours for sale: the artifact itself, a copy, or a licence to use it."""

    artifact_id: Id
    price: Scrip
    sells: Literal["ownership", "copy", "licence"] = "ownership"
    to: Who | None = None
    """The only one who may accept; by default anybody."""
    uses: Annotated[int, Meta(ge=1, le=1_000_000, description="of a licence")] | None = None
    ticks: Annotated[int, Meta(ge=1, le=1_000_000, description="of a licence")] | None = None
    royalty_percent: Annotated[
        int, Meta(ge=0, le=100, description="of what a copy earns later, to its origin")
    ] = 0

    def __post_init__(self) -> None:
        check_new_id(self.artifact_id)
        if self.to is not None:
            check_principal(self.to)
        lasts = [term for term in (self.uses, self.ticks) if term is not None]
        if len(lasts) != (1 if self.sells == "licence" else 0):
            raise InvalidArguments(
                "an offer's terms do not fit what it sells",
                expected="`uses` or `ticks` for a licence, neither for anything else",
            )
        if self.royalty_percent and self.sells != "copy":
            raise InvalidArguments("only a copy pays a royalty", expected='"sells": "copy"')


class Accept(Action, frozen=True, kw_only=True, tag="accept"):
    """Buy what an offer sells, at its price."""

    offer_id: OfferId
    price_max: PriceMax | None = None

    def __post_init__(self) -> None:
        check_artifact_id(self.offer_id)


class CancelOffer(Action, frozen=True, kw_only=True, tag="cancel_offer"):
    """Take back an offer of yours that nobody has accepted."""

    offer_id: OfferId

    def __post_init__(self) -> None:
        check_artifact_id(self.offer_id)


class Bid(Action, frozen=True, kw_only=True, tag="bid"):
    """Bid in this round's sealed auction to have an artifact of yours scored by the mint."""

    artifact_id: Id
    amount: Annotated[int, Meta(ge=1, le=PRICE_MAX, description="whole scrip")]

    def __post_init__(self) -> None:
        check_new_id(self.artifact_id)


class Message(Action, frozen=True, kw_only=True, tag="message"):
    """Send a short text to another agent, who sees it at its next tick."""

    to: Who
    text: Annotated[str, Meta(min_length=1, max_length=4_000)]

    def __post_init__(self) -> None:
        check_principal(self.to)


CLASSES: tuple[type[Action], ...] = (
    Noop,
    Read,
    Write,
    Edit,
    Delete,
    Invoke,
    Transfer,
    SubscribeArtifact,
    UnsubscribeArtifact,
    Configure,
    Search,
    Offer,
    Accept,
    CancelOffer,
    Bid,
    Message,
)

ACTIONS: dict[str, type[Action]] = {str(cls.__struct_config__.tag): cls for cls in CLASSES}
"""Each action by its name, in the order in which they are shown."""


def _check_name(kind: str | None) -> None:
    if kind is not None and kind.endswith("\n"):
        raise InvalidArguments("invalid kind", expected=PATTERNS[_NAME], got=repr(kind))


def _check_size(*values: object) -> None:
    """JSON data within the bound. Errors: `InvalidArtifact`, `InvalidArguments`."""
    for value in values:
        check_json(value)
    size = len(msgspec.json.encode(values))
    if size > ACTION_BYTES_MAX:
        raise InvalidArguments(
            "the action is too large", expected=f"at most {ACTION_BYTES_MAX} bytes", got=size
        )


# --------------------------------------------------------------------------- schema
# The action schema as others see it: a JSON schema, a list of tools, and a text for the prompt.


def choose_actions(names: Collection[str] | None) -> dict[str, type[Action]]:
    """The named actions in their order; None is all. Errors: `InvalidRequest` for an unknown name."""
    if names is None:
        return ACTIONS
    if unknown := sorted(set(names) - set(ACTIONS)):
        raise InvalidRequest("no such action", expected=", ".join(ACTIONS), got=unknown[0][:80])
    return {name: cls for name, cls in ACTIONS.items() if name in names}


def meaning(cls: type[Action]) -> str:
    """The sentence that explains an action."""
    return " ".join(inspect.cleandoc(cls.__doc__ or "").split())


def schema_of(name: str) -> dict[str, Any]:
    """JSON schema of one action, `action` included, without references."""
    return deepcopy(_schemas()[name])


def actions_prompt(names: Collection[str] | None = None) -> str:
    """Return what a prompt says about acting: the shape of the reply, and a line for each action."""
    lines = [
        f"- `{_signature(name)}`: {meaning(cls).removesuffix('.')}."
        for name, cls in choose_actions(names).items()
    ]
    return _wording().replace("<actions>", "\n".join(lines))


def _signature(name: str) -> str:
    """`write(artifact_id, content, kind?)`: optional fields carry a mark."""
    schema = _schemas()[name]
    fields = [
        field if field in schema["required"] else f"{field}?"
        for field in schema["properties"]
        if field not in ("action", "reasoning")
    ]
    return f"{name}({', '.join(fields)})"


@lru_cache(maxsize=1)
def _wording() -> str:
    text = (files("artelier.world.actions") / "templates" / "actions-1.md").read_text("utf-8")
    return text.strip()


@lru_cache(maxsize=1)
def _schemas() -> dict[str, dict[str, Any]]:
    shapes, parts = msgspec.json.schema_components(ACTIONS.values(), ref_template="{name}")
    result: dict[str, dict[str, Any]] = {}
    for name, shape in zip(ACTIONS, shapes, strict=True):
        schema = cast("dict[str, Any]", _whole(shape, parts))
        for noise in ("title", "description"):
            schema.pop(noise, None)
        order = ("action", "reasoning")
        fields: dict[str, Any] = schema["properties"]
        schema["properties"] = {key: fields[key] for key in (*order, *fields) if key in fields}
        result[name] = schema
    return result


def _whole(schema: object, parts: dict[str, Any]) -> object:
    """References replaced by what they name: some providers resolve none. No type here holds itself."""
    if isinstance(schema, dict):
        given = cast("dict[str, Any]", schema)
        if "$ref" in given:
            return _whole(parts[given["$ref"]], parts)
        return {key: _whole(value, parts) for key, value in given.items()}
    if isinstance(schema, list):
        return [_whole(value, parts) for value in cast("list[Any]", schema)]
    return schema


# --------------------------------------------------------------------------- reference page
# The table of all actions, generated from their classes; `docs/actions.md` is compared with it by a test.


def actions_page() -> str:
    """Markdown: each action with its fields, their types and bounds, and its meaning."""
    lines = [
        "# Actions",
        "",
        "What an agent may do in a world, one per tick. Generated from the classes in "
        "`artelier.world.actions`;",
        "`make docs` writes it, a test compares it. A reply is one JSON object with `action`, `reasoning`",
        f"(text, may be left out) and the fields below, at most {ACTION_BYTES_MAX // 1024} KiB. A field",
        "with `?` may be left out. What is no valid action becomes a `rejected` event whose reason the",
        "agent reads at its next tick.",
        "",
        "| action | fields | meaning |",
        "|---|---|---|",
    ]
    for name, cls in ACTIONS.items():
        lines.append(f"| `{name}` | {_fields(schema_of(name))} | {meaning(cls)} |")
    return "\n".join(lines) + "\n"


def _fields(schema: dict[str, Any]) -> str:
    return "<br>".join(
        f"`{field}{'' if field in schema['required'] else '?'}` {_type(shape)}".rstrip()
        for field, shape in schema["properties"].items()
        if field not in ("action", "reasoning")
    )


def _type(shape: dict[str, Any]) -> str:
    if "anyOf" in shape:
        kinds = " or ".join(_type({**kind, "description": ""}) for kind in shape["anyOf"])
        return _describe(kinds, shape)
    if "enum" in shape:
        return " ".join(f"`{value}`" for value in sorted(shape["enum"]))
    kind = str(shape.get("type", "any JSON"))
    if kind == "object" and shape.get("properties"):
        kind = "{" + ", ".join(shape["properties"]) + "}"
    if "minimum" in shape:
        kind += f" {shape['minimum']} to {shape['maximum']}"
    elif "maxLength" in shape:
        kind += f", at most {shape['maxLength']} characters"
    return _describe(kind, shape)


def _describe(kind: str, shape: dict[str, Any]) -> str:
    text = shape.get("description", "")
    inner = [kind["description"] for kind in shape.get("anyOf", ()) if kind.get("description")]
    text = text or (inner[0] if inner else "")
    return f"{kind} ({text})" if text else kind


REPLY_CHARS_MAX = 512 * 1024
"""Twice the largest action, so that escapes and prose have room."""

_OBJECT = re.compile(r'\{\s*(?:"|\})')
"""How a JSON object begins; `{agent_id}` in prose begins otherwise."""

_KEYED = re.compile(r'\{\s*"')

_BRACE = re.compile(r"[{}]")


class NoObject(NamedTuple):
    """The reason why a reply holds no object that decides: one sentence, bounded."""

    reason: str


class _Twice(ValueError):
    """A key stands twice in one object: which of them is meant cannot be known."""


def one_object(text: str) -> dict[str, Any] | NoObject:
    """The only JSON object of a reply, or why there is none.

    Cost: O(n). Never raises, whatever the text.
    """
    if len(text) > REPLY_CHARS_MAX:
        return NoObject(f"the reply has more than {REPLY_CHARS_MAX} characters")
    found: dict[str, Any] | None = None
    at = 0
    while (start := text.find("{", at)) >= 0:
        if not _OBJECT.match(text, start):
            end = _closing(text, start)
            if end < 0:
                return NoObject("a brace opens in the reply and never closes")
            if _KEYED.search(text, start + 1, end):
                return NoObject("an object stands inside braces that are no JSON")
            at = end
            continue
        read = _read(text, start)
        if isinstance(read, NoObject):
            return read
        if found is not None:
            return NoObject("the reply holds more than one JSON object; send exactly one")
        found, at = read
        if _within_another(text, start, at):
            return NoObject("the JSON object stands inside a list or another object; send it alone")
    if found is None:
        return NoObject("the reply holds no JSON object")
    return found


def _read(text: str, start: int) -> tuple[dict[str, Any], int] | NoObject:
    try:
        value, end = _decoder.raw_decode(text, start)
        check_json(value)
    except _Twice as error:
        return NoObject(f"the JSON object has the key {str(error)[:80]!r} twice")
    except json.JSONDecodeError as error:
        return NoObject(f"not valid JSON: {error.msg} at character {error.pos}")
    except InvalidArtifact as error:
        return NoObject(f"not usable JSON: {error.message}"[:300])
    except (ValueError, RecursionError) as error:
        # Numbers of thousands of digits and a thousand brackets end here; the text may quote them.
        return NoObject(f"not usable JSON: {_short(error)}")
    return cast("dict[str, Any]", value), end


def _short(error: ValueError | RecursionError) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return str(error).partition(" for integer string")[0][:120]


def _closing(text: str, start: int) -> int:
    """After the brace that closes the one at `start`, or -1."""
    depth = 0
    for match in _BRACE.finditer(text, start):
        depth += 1 if match.group() == "{" else -1
        if depth == 0:
            return match.end()
    return -1


def _within_another(text: str, start: int, end: int) -> bool:
    before, after = start - 1, end
    while before >= 0 and text[before].isspace():
        before -= 1
    while after < len(text) and text[after].isspace():
        after += 1
    return (before >= 0 and text[before] == "[") or (after < len(text) and text[after] in "}]")


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise _Twice(key)
        result[key] = value
    return result


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


_decoder = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_no_number)


# --------------------------------------------------------------------------- parse
# The parser of actions: a model's words, a tool call or a reflex's result give an action or a refusal.


REASON_CHARS_MAX = 400


class Rejected(msgspec.Struct, frozen=True):
    """No action: `reason` is one bounded sentence that the agent reads at its next step."""

    reason: str


def parse_action(text: str, *, allowed: Collection[str] | None = None) -> Action | Rejected:
    """The action in a model's reply: plain JSON, fenced, or wrapped in prose.

    Shapes: `allowed` are names of actions; None is all of them. Exactly one JSON object decides.
    Cost:   O(n); never raises, whatever the text.
    """
    found = one_object(text)
    if isinstance(found, NoObject):
        return _reject(found.reason)
    return _convert(found, allowed)


def action_from(value: object, *, allowed: Collection[str] | None = None) -> Action | Rejected:
    """The action that some data is: a reflex's result, a stored action. Never raises."""
    if not isinstance(value, Mapping):
        return _reject(f"an action is a JSON object, not {_kind_of(value)}")
    given = cast("Mapping[str, object]", value)
    try:
        check_json(dict(given))
    except InvalidArtifact as error:
        return _reject(f"not usable JSON: {error.message}")
    return _convert(given, allowed)


def _convert(given: Mapping[str, object], allowed: Collection[str] | None) -> Action | Rejected:
    name = given.get("action")
    known = ACTIONS if allowed is None else tuple(n for n in ACTIONS if n in allowed)
    if not isinstance(name, str) or name not in known:
        got = f"{name[:60]!r}" if isinstance(name, str) else _kind_of(name)
        return _reject(f"`action` must be one of {', '.join(known)}; got {got}")
    try:
        # To the one class: a union would be taken apart anew by each conversion, for 35 us.
        return msgspec.convert(given, ACTIONS[name])
    except msgspec.ValidationError as error:
        return _reject(f"{name}: {_readable(str(error))}")
    except InvalidRequest as error:
        return _reject(f"{name}: {error}")


def _readable(message: str) -> str:
    for pattern, words in PATTERNS.items():
        message = message.replace(f"`str` matching regex {pattern!r}", words)
    return message


def _kind_of(value: object) -> str:
    return "nothing" if value is None else f"a value of type {type(value).__name__}"


def _reject(reason: str) -> Rejected:
    line = " ".join(reason.split())
    line = line.encode("utf-8", "replace").decode()
    return Rejected(line if len(line) <= REASON_CHARS_MAX else f"{line[: REASON_CHARS_MAX - 1]}…")
