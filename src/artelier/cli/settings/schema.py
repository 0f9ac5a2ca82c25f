"""The keys of `artelier.toml`, checked by pydantic at the door; imported when there is something to check."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from artelier.cli.settings.settings import ENVIRONMENT, MODEL, Settings
from artelier.errors import InvalidConfig, InvalidRequest
from artelier.money import format_usd, parse_usd
from artelier.ports.model import Price
from artelier.ports.model_params import check_params
from artelier.tokens.model_info import PartialWindow

if TYPE_CHECKING:
    from artelier.kernel import rates as speeds
    from artelier.kernel.rates import Quota, Quotas
    from artelier.tools.http_rules import HttpRule
    from artelier.tools.mcp.configuration import ServerEntry

KeyPath = tuple[str, ...]

_KEY = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_DOTTED = rf"{_KEY}(?:\s*\.\s*{_KEY})*"
_TABLE = re.compile(rf"\s*\[\[?\s*({_DOTTED})\s*\]\]?\s*(?:#.*)?$")
_PAIR = re.compile(rf"\s*({_DOTTED})\s*=")
_PART = re.compile(_KEY)
_MULTILINE = re.compile(r'"""|\'\'\'')


def key_lines(text: str) -> dict[KeyPath, int]:
    """Line (from 1) of every table and key of a file that parses, but for those inside inline tables."""
    found: dict[KeyPath, int] = {}
    table: KeyPath = ()
    inside: str | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        if inside is None:
            if (heading := _TABLE.match(line)) is not None:
                table = _parts(heading[1])
                found.setdefault(table, number)
            elif (pair := _PAIR.match(line)) is not None:
                found.setdefault((*table, *_parts(pair[1])), number)
        for mark in _MULTILINE.findall(line):
            if inside is None:
                inside = mark
            elif inside == mark:
                inside = None
    return found


def line_of(lines: dict[KeyPath, int], path: Sequence[str]) -> int:
    """Line of a key, or of the nearest table around it; 1 if nothing is known."""
    at = tuple(path)
    while at:
        if at in lines:
            return lines[at]
        deeper = [line for key, line in lines.items() if key[: len(at)] == at]
        if deeper:
            return min(deeper)
        at = at[:-1]
    return 1


def _parts(dotted: str) -> KeyPath:
    return tuple(_unquote(part) for part in _PART.findall(dotted))


def _unquote(part: str) -> str:
    if part.startswith("'"):
        return part[1:-1]
    if part.startswith('"'):
        return part[1:-1].encode().decode("unicode_escape")
    return part


def _dollars(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
        raise ValueError('an amount in USD such as "0.50" is expected')
    try:
        return format_usd(parse_usd(value))
    except InvalidRequest as error:
        raise ValueError(f"{error.expected} is expected") from None


def _rate(value: object) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
        raise ValueError('a price in USD per million tokens such as "0.25" is expected')
    try:
        rate = Decimal(value)
    except ArithmeticError:
        raise ValueError(f"{value!r} is not a number") from None
    if not rate.is_finite() or rate < 0:
        raise ValueError("a finite price of at least 0 is expected")
    return rate


Dollars = Annotated[str, BeforeValidator(_dollars)]
Rate = Annotated[Decimal, BeforeValidator(_rate)]


class Table(BaseModel):
    """A table that knows its keys."""

    model_config = ConfigDict(extra="forbid")


class ModelTable(Table):
    default: str = Field(MODEL, min_length=1, description="Model of new runs, `provider:name` or `offline`.")
    timeout_s: float | None = Field(None, gt=0, description="Seconds that one call of a model may take.")
    allow: list[str] | None = Field(
        None, description='Models that may be called at all, such as `["openai:*", "offline"]`.'
    )
    params: dict[str, Any] = Field(
        default_factory=dict,
        description="Parameters of the model calls of new runs, such as `{temperature = 0.2}`. Those of a"
        " call, a chat or `--param` stand over them.",
    )


class StoreTable(Table):
    path: str | None = Field(
        None, min_length=1, description="Database file, relative to the folder of this file."
    )


class WorkspacesTable(Table):
    root: str | None = Field(
        None,
        min_length=1,
        description="Folder that holds a workspace for each tenant, named after it. Tools of a tenant then"
        " reach nothing else.",
    )
    tenants: dict[str, str] = Field(
        default_factory=dict, description='Workspaces of single tenants, such as `{acme = "/srv/acme"}`.'
    )


class QuotaTable(Table):
    stored_bytes: int | None = Field(
        None, ge=0, description="Most bytes of content of a tenant; default 20 GiB."
    )
    streams: int | None = Field(None, ge=0, description="Most live streams at once; default 500.")
    ticks: int | None = Field(
        None, ge=0, description="Most ticks of a world that one request passes; default 100000."
    )
    uploads: int | None = Field(None, ge=0, description="Most uploads at once; default 8.")

    def over(self, other: Quota) -> Quota:
        """Return the quota that this table makes of another."""
        given: dict[str, int] = {
            f"{name}_max": value
            for name in ("stored_bytes", "streams", "ticks", "uploads")
            if (value := getattr(self, name)) is not None
        }
        return replace(other, **given)


class QuotasTable(QuotaTable):
    tenants: dict[str, QuotaTable] = Field(
        default_factory=dict, description="The same for single tenants, by their names."
    )


class RateTable(Table):
    requests: int | None = Field(
        None, gt=0, description="Most calls in any minute, of a provider or pattern of models."
    )
    tokens: int | None = Field(None, gt=0, description="Most tokens in any minute, input and output.")


class HttpRuleTable(Table):
    url: str
    private: bool = False
    headers: dict[str, str] = Field(default_factory=dict)


class HttpTable(Table):
    allow: list[str | HttpRuleTable] = Field(
        default_factory=list[str | HttpRuleTable],
        description="URLs below which the tool `http_json` may ask; without any it is off. A table"
        " `{url, private, headers}` allows private addresses and sets headers, their secrets as `env:NAME`.",
    )


class ToolsTable(Table):
    http: HttpTable = Field(default_factory=lambda: HttpTable())


class McpServerTable(Table):
    command: str | list[str] | None = Field(
        None,
        min_length=1,
        description="Program that is started, or program and arguments; no shell reads it.",
    )
    args: list[str] = Field(default_factory=list[str], description="Its arguments.")
    env: dict[str, str] = Field(
        default_factory=dict, description="Variables for it; `${NAME}` stands for one of ours."
    )
    url: str | None = Field(None, min_length=1, description="Address of a server that runs elsewhere.")
    headers: dict[str, str] = Field(
        default_factory=dict, description="Headers for it; `${NAME}` stands for a variable."
    )
    enabled: bool = Field(True, description="`false` leaves out a server of `.mcp.json`, too.")
    read_only: list[str] = Field(
        default_factory=list[str], description="Tools that only read: they may be called again."
    )
    idempotent: list[str] = Field(
        default_factory=list[str], description="Tools that may be called twice with one key."
    )
    risk: dict[str, Literal["low", "medium", "high"]] = Field(
        default_factory=dict,
        description="Risk by name of a tool; without it, high for what changes anything.",
    )
    trust_hints: bool = Field(False, description="Believe what the server says of its tools.")
    grant: str | None = Field(None, description="Grant that a run needs for its tools, such as `tools:mcp`.")
    timeout_s: float | None = Field(
        None, gt=0, le=3600, description="Seconds for its greeting, and for a call; default 60."
    )


class McpTable(Table):
    servers: dict[str, McpServerTable] = Field(default_factory=dict[str, McpServerTable])


class OutgoingWebhookTable(Table):
    url: str = Field(min_length=1, description="Where events are sent.")
    secret: str = Field(description="What they are signed with: `env:NAME` of a variable with `whsec_...`.")
    events: list[str] | None = Field(
        None,
        description='Kinds of events, such as `["run.*", "approval.requested"]`. Without it, those of ends'
        " and of questions.",
    )
    tenant: str = Field("default", description="Whose events.")
    private: bool = Field(
        False, description="Whether the address may be of this machine or a private network."
    )


class IncomingWebhookTable(Table):
    secret: str | list[str] = Field(
        description="What requests are signed with: `env:NAME`, or two while a sender changes its secret."
    )
    actions: list[Literal["signal", "message", "goal"]] = Field(
        default_factory=list[Literal["signal", "message", "goal"]], description="What a body may ask for."
    )
    run: str = Field(
        "", description="With `signal`: the run that is given the whole body as a signal's data."
    )
    signal: str = Field("", description="Name of that signal.")
    tenant: str = Field("default", description="In which tenant it acts.")


class WebhooksTable(Table):
    out: dict[str, OutgoingWebhookTable] = Field(default_factory=dict[str, OutgoingWebhookTable])
    in_: dict[str, IncomingWebhookTable] = Field(default_factory=dict[str, IncomingWebhookTable], alias="in")


class LimitsTable(Table):
    usd: Dollars | None = Field(None, description="Most US dollars that a new run may spend.")
    tokens: int | None = Field(None, gt=0, description="Most tokens of a new run, input and output.")
    steps: int | None = Field(None, gt=0, description="Most model and tool steps of a new run.")
    wall_s: float | None = Field(None, gt=0, description="Seconds after which a new run ends.")
    rates: dict[str, RateTable] = Field(default_factory=dict)


class PolicyTable(Table):
    approve_risk: Literal["low", "medium", "high"] | None = Field(
        None, description="Risk of a tool from which on a person must approve each call."
    )


class PiiTable(Table):
    enabled: bool = Field(
        False,
        description="Replace personal data by placeholders wherever it enters a run; needs"
        " ARTELIER_VAULT_KEY.",
    )
    patterns: dict[str, str] = Field(
        default_factory=dict,
        description="What else is looked for: a kind such as `EMPLOYEE`, and a regular expression.",
    )


class SandboxTable(Table):
    confinement: Literal["auto", "required", "off"] = Field(
        "auto",
        description="Walls of the kernel around the processes that run untrusted code. `auto`: those that it"
        " has; `required`: all, or code, SQL and patterns are refused; `off`: none. The variable holds in"
        " programs too.",
    )


class TelemetryTable(Table):
    enabled: bool = Field(
        False,
        description="Send spans and metrics of a command's runs by OpenTelemetry."
        " A program says `Kernel.open(telemetry=True)` instead.",
    )
    content: bool = Field(
        False,
        description="With what was said: messages, arguments, results. The variable holds in programs too.",
    )


class PluginsTable(Table):
    allow: list[str] = Field(
        default_factory=list[str],
        description='Distributions whose plugins may act, such as `["acme-models"]`. What is only installed'
        " does nothing.",
    )


class PriceTable(Table):
    input: Rate = Field(description="USD per million input tokens.")
    cached_input: Rate | None = Field(None, description="USD per million cached input tokens.")
    cache_write: Rate | None = Field(None, description="USD per million input tokens written to a cache.")
    cache_write_long: Rate | None = Field(
        None, description="USD per million input tokens written to a cache that lives an hour or longer."
    )
    output: Rate = Field(description="USD per million output tokens.")
    request: Rate = Field(Decimal(0), description="USD per call.")


class ModelLimitsTable(Table):
    window: int | None = Field(
        None, ge=1, le=10**9, description="Tokens of prompt and answer together. Without it, as published."
    )
    max_output: int | None = Field(
        None, ge=1, le=10**9, description="Tokens that one answer may have. Without it, as published."
    )


class SettingsFile(Table):
    """The whole file."""

    model: ModelTable = Field(default_factory=lambda: ModelTable())  # pyright: ignore[reportCallIssue] - all have defaults
    store: StoreTable = Field(default_factory=lambda: StoreTable())  # pyright: ignore[reportCallIssue] - as above
    workspaces: WorkspacesTable = Field(default_factory=lambda: WorkspacesTable())  # pyright: ignore[reportCallIssue] - as above
    quotas: QuotasTable = Field(default_factory=lambda: QuotasTable())  # pyright: ignore[reportCallIssue] - as above
    limits: LimitsTable = Field(default_factory=lambda: LimitsTable())  # pyright: ignore[reportCallIssue] - as above
    policy: PolicyTable = Field(default_factory=lambda: PolicyTable())  # pyright: ignore[reportCallIssue] - as above
    pii: PiiTable = Field(default_factory=lambda: PiiTable())  # pyright: ignore[reportCallIssue] - as above
    sandbox: SandboxTable = Field(default_factory=lambda: SandboxTable())  # pyright: ignore[reportCallIssue] - as above
    telemetry: TelemetryTable = Field(default_factory=lambda: TelemetryTable())  # pyright: ignore[reportCallIssue] - as above
    plugins: PluginsTable = Field(default_factory=lambda: PluginsTable())
    prices: dict[str, PriceTable] = Field(default_factory=dict)
    models: dict[str, ModelLimitsTable] = Field(default_factory=dict)
    tools: ToolsTable = Field(default_factory=lambda: ToolsTable())
    mcp: McpTable = Field(default_factory=lambda: McpTable())
    webhooks: WebhooksTable = Field(default_factory=lambda: WebhooksTable())  # pyright: ignore[reportCallIssue] - as above


def check_settings(raw: str | None, *, file: Path, overrides: Mapping[str, str]) -> Settings:
    """The settings of a file's text with the environment's values over them. Errors: `InvalidConfig`."""
    tables = _parse(raw, file) if raw is not None else {}
    found = _validate(tables, raw or "", file)
    for name, value in overrides.items():
        table, key = ENVIRONMENT[name]
        part: Table = getattr(found, table)
        try:
            changed = type(part).model_validate({**part.model_dump(), key: value})
        except ValidationError as error:
            raise InvalidConfig(f"{name}: {_message_of(error.errors()[0])}", got=repr(value)[:80]) from None
        setattr(found, table, changed)
    path = found.store.path
    if path is not None and "ARTELIER_DB" not in overrides and "://" not in path:
        path = str(file.parent / path)
    own = found.workspaces.root
    if own is not None and "ARTELIER_WORKSPACES" not in overrides:
        own = str(file.parent / own)
    models, rates, http_rules = _governing(found, raw or "", file)
    params = _params(found.model, raw or "", file)
    return Settings(
        models=models,
        rates=rates,
        http_rules=http_rules,
        quotas=_quotas(found.quotas),
        workspace_root=own,
        workspace_tenants={
            name: str(file.parent / folder) for name, folder in found.workspaces.tenants.items()
        },
        model=found.model.default,
        model_timeout_s=found.model.timeout_s,
        params=params,
        store_path=path,
        usd=found.limits.usd,
        tokens=found.limits.tokens,
        steps=found.limits.steps,
        wall_s=found.limits.wall_s,
        approve_risk=found.policy.approve_risk,
        pii=found.pii.enabled,
        confinement=found.sandbox.confinement,
        patterns=found.pii.patterns,
        telemetry=found.telemetry.enabled,
        telemetry_content=found.telemetry.content,
        plugins=tuple(found.plugins.allow),
        mcp_servers=_mcp_servers(found.mcp, file),
        webhooks_out={name: one.model_dump() for name, one in found.webhooks.out.items()},
        webhooks_in={name: one.model_dump() for name, one in found.webhooks.in_.items()},
        prices={
            name: Price(
                input=price.input,
                cached_input=price.cached_input,
                cache_write=price.cache_write,
                cache_write_long=price.cache_write_long,
                output=price.output,
                request=price.request,
            )
            for name, price in found.prices.items()
        },
        windows={
            name: PartialWindow(context_tokens=limits.window, max_output_tokens=limits.max_output)
            for name, limits in found.models.items()
        },
    )


def _mcp_servers(table: McpTable, file: Path) -> tuple[ServerEntry, ...]:
    """Return the servers of a file. Errors: `InvalidConfig` for one that is reached in two ways."""
    if not table.servers:
        return ()
    from artelier.tools.mcp.configuration import entry_of_settings

    for name, one in table.servers.items():
        if one.command is not None and one.url is not None:
            raise InvalidConfig(f"{file}: mcp.servers.{name}", expected="either command or url", got="both")
    return tuple(entry_of_settings(name, str(file), one.model_dump()) for name, one in table.servers.items())


def _params(table: ModelTable, raw: str, file: Path) -> dict[str, Any]:
    """Return the parameters of model calls. Errors: `InvalidConfig` with the line of the table."""
    try:
        return check_params({name: _plain(value) for name, value in table.params.items()})
    except InvalidRequest as error:
        line = line_of(key_lines(raw), ("model", "params"))
        raise InvalidConfig(
            f"{file}:{line}: model.params: {error.message}",
            expected=error.expected,
            got=error.got,
            hint=error.hint,
        ) from None


def _plain(value: object) -> object:
    """Return a value of the file as JSON has it: its numbers are read as decimals."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in cast("dict[str, Any]", value).items()}
    return [_plain(one) for one in cast("list[Any]", value)] if isinstance(value, list) else value


def _quotas(table: QuotasTable) -> Quotas | None:
    """Return the quotas of a file; None if it says nothing of them."""
    from artelier.kernel.rates import Quota, Quotas

    if not table.model_fields_set:
        return None
    every = table.over(Quota())
    return Quotas(every, tenants={name: one.over(every) for name, one in table.tenants.items()})


def _governing(
    found: SettingsFile, raw: str, file: Path
) -> tuple[tuple[str, ...] | None, dict[str, speeds.Rate], tuple[HttpRule, ...]]:
    """Return who may be called, and how fast. Errors: `InvalidConfig` with the line of the table."""
    from artelier.kernel import rates as speeds
    from artelier.kernel.policy import check_models
    from artelier.tools.http_rules import rules_from

    place: tuple[str, ...] = ()
    try:
        place = ("model", "allow")
        models = None if found.model.allow is None else check_models(found.model.allow)
        rates: dict[str, speeds.Rate] = {}
        for name, rate in found.limits.rates.items():
            place = ("limits", "rates", name)
            rates[name] = speeds.Rate(requests=rate.requests, tokens=rate.tokens)
        place = ("limits", "rates")
        rates = dict(speeds.check_rates(rates))
        place = ("tools", "http", "allow")
        allow = [one if isinstance(one, str) else one.model_dump() for one in found.tools.http.allow]
        return models, rates, rules_from(allow)
    except InvalidRequest as error:
        line = line_of(key_lines(raw), place)
        raise InvalidConfig(
            f"{file}:{line}: {'.'.join(place)}: {error.message}",
            expected=error.expected,
            got=error.got,
            hint=error.hint,
        ) from None


def _parse(raw: str, file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(raw, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        message, _, place = str(error).partition(" (at ")
        if place.startswith("line "):
            line = place.removeprefix("line ").partition(",")[0]
        else:  # at the end of the document
            line = str(raw.count("\n") + 1)
        raise InvalidConfig(f"{file}:{line}: {message[:1].lower()}{message[1:]}", expected="TOML") from None


def _validate(tables: dict[str, Any], raw: str, file: Path) -> SettingsFile:
    try:
        return SettingsFile.model_validate(tables)
    except ValidationError as error:
        problems = error.errors()
        lines = key_lines(raw)
        paths = [tuple(map(str, problem["loc"])) for problem in problems]
        # A misspelt key is also a missing one: the misspelling is what there is to see.
        _, line, index = min(
            (problem["type"] != "extra_forbidden", line_of(lines, paths[index]), index)
            for index, problem in enumerate(problems)
        )
        problem, path = problems[index], paths[index]
        more = f" ({len(problems) - 1} more)" if len(problems) > 1 else ""
        if problem["type"] == "extra_forbidden":
            raise InvalidConfig(
                f"{file}:{line}: unknown key {'.'.join(path)}{more}",
                expected=", ".join(known := _known_keys(path[:-1])),
                got=path[-1],
                hint=_nearest(path[-1], known),
            ) from None
        raise InvalidConfig(
            f"{file}:{line}: {'.'.join(path)}: {_message_of(problem)}{more}", got=repr(problem["input"])[:80]
        ) from None


def _message_of(problem: ErrorDetails) -> str:
    text = problem["msg"].removeprefix("Value error, ")
    return text[:1].lower() + text[1:]


def _known_keys(path: tuple[str, ...]) -> list[str]:
    """Keys that may stand in a table."""
    table: type[BaseModel] = SettingsFile
    below: type[BaseModel] | None = None
    for part in path:
        if below is not None:  # the part is a name
            table, below = below, None
            continue
        kind: Any = table.model_fields[part].annotation if part in table.model_fields else None
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            table = kind
        elif (below := _NAMED.get(part)) is None:
            break
    return sorted(table.model_fields)


_NAMED: dict[str, type[BaseModel]] = {
    "prices": PriceTable,
    "rates": RateTable,
    "models": ModelLimitsTable,
    "servers": McpServerTable,
}
"""Tables whose keys are names that the user chooses, and what stands below each."""


def _nearest(key: str, known: list[str]) -> str | None:
    near = get_close_matches(key, known, n=1)
    return f"Did you mean {near[0]}?" if near else None


class SettingRow(NamedTuple):
    """A key of the settings as the docs list it."""

    key: str
    default: str
    """`required` without one; empty if nothing holds."""
    meaning: str
    variable: str
    """Of the environment; empty for none."""


def setting_rows() -> list[SettingRow]:
    """Return every key; those with names that the user chooses come last."""
    variables = {place: name for name, place in ENVIRONMENT.items()}
    tables = (
        "model",
        "store",
        "workspaces",
        "quotas",
        "limits",
        "policy",
        "pii",
        "sandbox",
        "telemetry",
        "plugins",
    )
    found = [
        (f"{table}.{key}", variables.get((table, key), ""), one)
        for table in tables
        for key, one in cast(
            "type[BaseModel]", SettingsFile.model_fields[table].annotation
        ).model_fields.items()
        if key not in _NAMED
    ]
    found.append(("tools.http.allow", "", HttpTable.model_fields["allow"]))
    for place, table in (
        ('limits.rates."<name>"', RateTable),
        ('prices."<model>"', PriceTable),
        ('models."<model>"', ModelLimitsTable),
        ("mcp.servers.<name>", McpServerTable),
        ("webhooks.out.<name>", OutgoingWebhookTable),
        ("webhooks.in.<name>", IncomingWebhookTable),
    ):
        found += [(f"{place}.{key}", "", one) for key, one in table.model_fields.items()]
    return [
        SettingRow(key, _default_of(one), one.description or "", variable) for key, variable, one in found
    ]


def _default_of(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    return "" if field.default is None or field.default_factory is not None else str(field.default)
