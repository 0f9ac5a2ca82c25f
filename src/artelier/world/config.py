"""The settings of a world, as they stand in its log and in `world.toml`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from artelier.artifacts.access.bill import PRICE_MAX
from artelier.artifacts.content import check_json
from artelier.errors import InvalidArtifact, InvalidConfig, InvalidRequest
from artelier.kernel.policy import check_models
from artelier.world.actions import ACTIONS
from artelier.world.config_errors import mistake
from artelier.world.mind_artifacts import SubscriptionLimits

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
    from artelier.world.figures.columns import columns_of  # with the language of conditions

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
