"""The settings of a world, as they stand in its log and in `world.toml`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import Meta

from artelier.artifacts.access import PRICE_MAX
from artelier.artifacts.content import check_json
from artelier.errors import InvalidArtifact, InvalidConfig, InvalidRequest
from artelier.kernel.policy import check_models
from artelier.world.actions import ACTIONS
from artelier.world.mind_artifacts import SubscriptionLimits

# --------------------------------------------------------------------------- config errors
# The mistakes in a world's settings or its file: where, what was expected, what was found.
# Read next: `config.py` and `genesis/file.py`, whose tables these are.


Path = tuple[str | int, ...]
"""Of a value in a file, such as `("agents", 0, "scrip")`."""

_WRONG_TYPE = re.compile(r"Expected `(.+)`, got `(.+)`")
_UNKNOWN = re.compile(r"unknown field `(.+)`")
_PART = re.compile(r"\.(\w+)|\[(\d+)\]")
_TYPES = {
    "object": "table (an object)",
    "array": "list",
    "str": "text",
    "int": "whole number",
    "null": "nothing",
}

_KEY = r"""(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')"""
_DOTTED = rf"{_KEY}(?:\s*\.\s*{_KEY})*"
_TABLE = re.compile(rf"\s*(\[\[?)\s*({_DOTTED})\s*\]\]?\s*(?:#.*)?$")
_PAIR = re.compile(rf"\s*({_DOTTED})\s*=")


def mistake(error: Exception, root: type[msgspec.Struct], *, what: str) -> InvalidConfig:
    """An error of reading `root` in words of the file. Its fact `path` is a `Path`."""
    message, _, at = str(error).partition(" - at `")
    at = at.rstrip("`")
    path: Path = tuple(
        int(number) if number else name for name, number in _PART.findall(at.removeprefix("key "))
    )
    where = f" at {at}" if at not in ("", "$") else ""
    if unknown := _UNKNOWN.search(message):
        keys = _keys(root, path)
        near = get_close_matches(unknown[1], keys, n=1)
        return InvalidConfig(
            f"{what}: unknown key `{unknown[1]}`{where}",
            expected=", ".join(keys) or None,
            hint=f"Did you mean `{near[0]}`?" if near else None,
            path=(*path, unknown[1]),
        )
    if wrong := _WRONG_TYPE.fullmatch(message):
        return InvalidConfig(
            f"{what}: wrong type{where}", expected=_type(wrong[1]), got=_type(wrong[2]), path=path
        )
    message = message.replace("Object missing required field", "missing key")
    return InvalidConfig(f"{what}: {message}{where}", path=path)


def _type(names: str) -> str:
    """`int | null` as `whole number or nothing`."""
    return " or ".join(_TYPES.get(name, name) for name in names.split(" | "))


def _keys(root: type[msgspec.Struct], path: Path) -> list[str]:
    """The keys of the table at a place, as far as they are fixed."""
    table = msgspec.inspect.type_info(root)
    for part in path:
        table = _table(table)
        if isinstance(table, msgspec.inspect.StructType):
            table = next((one.type for one in table.fields if one.encode_name == part), table)
        elif isinstance(table, msgspec.inspect.ListType):
            table = table.item_type
    table = _table(table)
    if not isinstance(table, msgspec.inspect.StructType):
        return []
    return [one.encode_name for one in table.fields]


def _table(given: object) -> object:
    """Return `X` for `X | None`, and any other type unchanged."""
    if isinstance(given, msgspec.inspect.UnionType):
        kept = [one for one in given.types if not isinstance(one, msgspec.inspect.NoneType)]
        return kept[0]
    return given


def shown_path(path: Path) -> str:
    """`world.shocks[0].to`."""
    shown = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return shown.removeprefix(".")


def line_of(text: str, path: Path) -> int:
    """The line of a TOML text, from 1, at which a key stands, or the nearest table around it; 0 if none does.

    A simple scan of a text that parses: keys within inline tables are not looked for.
    """
    lines = _lines(text)
    while path:
        if path in lines:
            return lines[path]
        path = path[:-1]
    return 0


def _lines(text: str) -> dict[Path, int]:
    found: dict[Path, int] = {}
    counts: dict[Path, int] = {}
    table: Path = ()
    inside = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if not inside:
            if heading := _TABLE.match(line):
                table = _index_path(_parts(heading[2]), counts, is_list=heading[1] == "[[")
                found.setdefault(table, number)
            elif pair := _PAIR.match(line):
                parts = _parts(pair[1])
                for end in range(1, len(parts) + 1):
                    found.setdefault((*table, *parts[:end]), number)
        for mark in re.findall(r'"""|\'\'\'', line):
            if not inside:
                inside = mark
            elif inside == mark:
                inside = ""
    return found


def _index_path(parts: Path, counts: dict[Path, int], *, is_list: bool) -> Path:
    """A heading with the numbers of the lists it is in: `[agents.workflow]` is of the last `[[agents]]`."""
    place: Path = ()
    for part in parts[:-1]:
        place = (*place, part)
        if place in counts:
            place = (*place, counts[place] - 1)
    place = (*place, parts[-1])
    if not is_list:
        return place
    counts[place] = counts.get(place, 0) + 1
    return (*place, counts[place] - 1)


def _parts(dotted: str) -> Path:
    return tuple(cast("str", part).strip("\"'") for part in re.findall(_KEY, dotted))


# --------------------------------------------------------------------------- config


RULES = 2
"""Economic rules of worlds that begin now. Decision 0030 says what each version means."""

CASES_MAX = 1_000
"""Test cases for one kind of artifact."""

Count = Annotated[int, Meta(ge=0, le=2**53)]
Scrip = Annotated[int, Meta(ge=0, le=PRICE_MAX)]
Name = Annotated[str, Meta(max_length=200)]
Activation = Literal["simultaneous", "random", "staged"]


class _StrictSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An unknown key is a mistake that would otherwise go unseen for a thousand ticks."""


class Subscriptions(_StrictSettings, frozen=True, kw_only=True):
    """Bounds of what agents subscribe to."""

    max_count: Count = 5
    max_size_bytes: Count = 2_000


class Resources(_StrictSettings, frozen=True, kw_only=True):
    """The resources that an agent may use; None means unlimited. The ledger limits scrip and USD."""

    stored_bytes: Count | None = None
    """Of the newest versions of what it owns, and of what its programs own."""
    model_calls: Count | None = None
    """Within `window` ticks, the one at hand included."""
    tokens: Count | None = None
    """In and out, within `window` ticks before the one at hand."""
    window: Annotated[int, Meta(ge=1, le=10_000)] = 10


class Mint(_StrictSettings, frozen=True, kw_only=True):
    """The auction of the scoring slot."""

    every: Count = 10
    """Ticks of one round; 0: no mint."""
    cases: dict[str, list[dict[str, Any]]] = {}
    """Test cases by kind of artifact: `{args, expected}` each, run in the sandbox."""


class Shock(_StrictSettings, frozen=True, kw_only=True):
    """Something that happens to the world at a tick."""

    tick: Annotated[int, Meta(ge=1, le=2**53)]
    name: Name = "shock"
    pay: Annotated[int, Meta(ge=-PRICE_MAX, le=PRICE_MAX)] = 0
    """Scrip to each agent; negative takes, down to nothing."""
    to: Annotated[list[str], Meta(max_length=10_000)] = []
    """The agents it concerns, each once; empty: all."""
    message: Annotated[str, Meta(max_length=100_000)] = ""


class WorldConfig(_StrictSettings, frozen=True, kw_only=True):
    """All that decides how a world runs, its artifacts apart."""

    seed: Annotated[int, Meta(ge=0, le=2**53)] = 0
    start_balance: Scrip = 100
    """Scrip of an agent that joins."""
    model: Name = "offline"
    """Of agents that name none."""
    models: Annotated[list[Name], Meta(max_length=1_000)] | None = None
    """Patterns of the models that agents may name beside the world's own, such as `openai:*`. None: those
    that are asked already."""
    max_output_tokens: Annotated[int, Meta(ge=1, le=10**6)] = 1_000
    activation: Activation = "simultaneous"
    """`simultaneous`: all think about the end of the tick before. `random`: one after another, in a seeded
    order, each seeing what the ones before did. `staged`: stage by stage, simultaneous within one."""
    stages: list[list[str]] = []
    """Of `staged`: ids of agents, each in one stage; those in none come last."""
    subscriptions: Subscriptions = Subscriptions()
    resources: Resources = Resources()
    mint: Mint = Mint()
    network: dict[str, list[str]] | None = None
    """Whom each agent sees: messages and offers of others do not reach it. None: everybody."""
    shocks: Annotated[list[Shock], Meta(max_length=10_000)] = []
    actions: list[str] | None = None
    """Names of the allowed actions; None: all."""
    rules: Annotated[int, Meta(ge=1, le=RULES)] | None = None
    """Version of the economic rules. A new world records the newest; None is a world older than that: 1."""
    collect: dict[str, str] = {}
    """Column to expression over an agent's facts, for tables of results."""

    @property
    def asks_consent(self) -> bool:
        """True if nobody pays more than the price that its thought saw, and only new use is worth money."""
        return (self.rules or 1) >= 2

    def with_rules(self) -> WorldConfig:
        """Return the settings as a new world records them."""
        return self if self.rules else msgspec.structs.replace(self, rules=RULES)

    @property
    def limits(self) -> SubscriptionLimits:
        return SubscriptionLimits(
            max_count=self.subscriptions.max_count, max_size_bytes=self.subscriptions.max_size_bytes
        )


def read_config(given: object) -> WorldConfig:
    """Settings from themselves or a mapping. Errors: `InvalidConfig` that names the key.

    What is taken stops no tick, whatever agents there are: names of agents that are not there do nothing.
    """
    plain = msgspec.to_builtins(given) if isinstance(given, WorldConfig) else given
    try:
        check_json(plain)
        config = msgspec.convert({} if plain is None else plain, WorldConfig)
    except (msgspec.ValidationError, InvalidArtifact, RecursionError) as error:
        raise mistake(error, WorldConfig, what="invalid settings of a world") from None
    _check_actions(config)
    _check_models(config)
    _check_stages(config)
    _check_shocks(config)
    _check_cases(config.mint)
    _check_columns(config)
    return config


def plain_config(config: WorldConfig) -> dict[str, Any]:
    """Return settings as they are stored: what older worlds did not know and nobody gave is left out."""
    plain: dict[str, Any] = msgspec.to_builtins(config)
    for name in ("models", "rules"):
        if plain[name] is None:
            del plain[name]
    return plain


def _check_actions(config: WorldConfig) -> None:
    if unknown := sorted(set(config.actions or ()) - set(ACTIONS)):
        raise InvalidConfig(
            "invalid settings of a world: actions that are none",
            expected=", ".join(ACTIONS),
            got=", ".join(unknown)[:200],
            path=("actions",),
        )


def _check_models(config: WorldConfig) -> None:
    try:
        check_models(config.models or [])
    except InvalidRequest as error:
        raise InvalidConfig(
            f"invalid settings of a world: models: {error.message}",
            expected=error.expected,
            got=error.got,
            path=("models",),
        ) from None


def _check_stages(config: WorldConfig) -> None:
    """An agent acts once in a tick."""
    if twice := _twice(agent for stage in config.stages for agent in stage):
        raise InvalidConfig(
            "invalid settings of a world: stages name an agent twice",
            expected="each agent in one stage",
            got=twice[:200],
        )


def _check_shocks(config: WorldConfig) -> None:
    for number, shock in enumerate(config.shocks):
        if twice := _twice(shock.to):
            raise InvalidConfig(
                f"invalid settings of a world: shocks[{number}] names an agent twice",
                expected="each agent once",
                got=twice[:200],
            )
    # All accounts together must stay far from what a number of the store can hold.
    if (paid := sum(shock.pay for shock in config.shocks if shock.pay > 0)) > PRICE_MAX:
        raise InvalidConfig(
            "invalid settings of a world: shocks pay too much to one agent",
            expected=f"at most {PRICE_MAX} scrip in all",
            got=paid,
        )


def _check_cases(mint: Mint) -> None:
    for kind, cases in mint.cases.items():
        where = f"invalid settings of a world: mint.cases.{kind[:100]}"
        if len(cases) > CASES_MAX:
            raise InvalidConfig(f"{where}: too many", expected=f"at most {CASES_MAX}", got=len(cases))
        for number, case in enumerate(cases):
            if case.keys() - {"args", "expected"} or not isinstance(case.get("args", {}), dict):
                raise InvalidConfig(
                    f"{where}[{number}] is no test case",
                    expected="{args: {name: value}, expected: value}",
                    got=repr(case)[:200],
                )


def _check_columns(config: WorldConfig) -> None:
    if not config.collect:
        return
    from artelier.world.figures.tables import columns_of  # with the language of conditions

    try:
        columns_of(config.collect)
    except InvalidRequest as error:
        raise InvalidConfig(
            f"invalid settings of a world: collect: {error.message}", expected=error.expected, got=error.got
        ) from None


def _twice(names: Iterable[str]) -> str:
    """The first name that stands twice; empty if none does."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name or "''"
        seen.add(name)
    return ""
