"""A sweep: one world again and again, with other settings, numbers of agents and seeds.

Here is which runs there are, and how one is passed and measured; `sweep.py` keeps their rows, and
whoever sweeps brings kernels and processes.
"""

from __future__ import annotations

import csv
import io
import itertools
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import inspect

from artelier.atomic_file import replace_file
from artelier.errors import Conflict, InvalidConfig, InvalidRequest, NotFound
from artelier.ids import VERSION
from artelier.ledger.queries import account_balance
from artelier.threads import give_way
from artelier.tools.worker.queries import literal
from artelier.world.config import WorldConfig
from artelier.world.deciders import Policy
from artelier.world.figures.metrics import collect, tick_metrics
from artelier.world.figures.tables import FIXED, Columns
from artelier.world.genesis import found, read_world
from artelier.world.kernel_adapter import Host, Unbound
from artelier.world.world import World

WORLD = "world"
"""What the world of every run is called, in the database of its own."""

AGENTS = "agents"
"""The parameter that is no setting: how many agents each template makes."""

RUNS_MAX = 100_000
SEEDS_MAX = 10_000
TICKS_MAX = 10_000_000

FIGURES: Mapping[str, str] = {
    "agents_left": "BIGINT",
    "gini": "DOUBLE",
    "circulating": "BIGINT",
    "trades": "BIGINT",
    "volume": "BIGINT",
    "minted": "BIGINT",
    "actions": "BIGINT",
    "rejected": "BIGINT",
    "tokens": "BIGINT",
    "model_cost_microusd": "BIGINT",
    "hash": "VARCHAR",
}
"""What a row says of a world after its last tick, and the types of these columns.

The first three are as they stand then, the others sums over all ticks, but for `hash`: that of `World.hash`.
`model_cost_microusd` is what the tenant has spent. See `TickMetrics` for the rest.
"""

MEAN = "mean_"
"""How the columns begin that are means of what the world's setting `collect` asks for."""

Param = int | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """One run of a sweep."""

    id: str
    """16 hex digits: of all that the run depends on, so that what has changed is run anew."""
    params: Mapping[str, Param]
    seed: int
    ticks: int
    spec: Mapping[str, Any]
    """The world, as `found` takes it."""

    @property
    def means(self) -> tuple[str, ...]:
        """The columns of its row that are means, in the order of `collect`."""
        return tuple(f"{MEAN}{name}" for name in self.spec.get("world", {}).get("collect", {}))


def plan(
    spec: Mapping[str, Any],
    params: Mapping[str, Sequence[str]],
    *,
    seeds: int,
    ticks: int,
    rules: bytes = b"",
) -> list[PlannedRun]:
    """Every combination of the parameters, each with `seeds` seeds from that of the world on.

    `params` are texts by name: `agents` for the count of every template among the agents, else a setting such
    as `mint.every`. `rules` is the file of rule agents, on which the runs depend as well.
    Errors: `InvalidRequest` and `InvalidConfig` that name the parameter and what it may be.
    """
    _check("seeds", seeds, 1, SEEDS_MAX)
    _check("ticks", ticks, 1, TICKS_MAX)
    values = {name: _values(name, texts) for name, texts in params.items()}
    count = seeds
    for some in values.values():
        count *= len(some)
    if count > RUNS_MAX:
        raise InvalidRequest("the sweep is too large", expected=f"at most {RUNS_MAX} runs", got=count)
    Columns(read_world(spec).config.collect)  # said before anything begins
    planned: list[PlannedRun] = []
    for combination in itertools.product(*values.values()):
        give_way()
        chosen = dict(zip(values, combination, strict=True))
        changed = _apply_params(spec, chosen)
        first = read_world(changed).config.seed
        base = sha256(msgspec.json.encode([VERSION, changed, ticks], order="sorted") + rules)
        for seed in range(first, first + seeds):
            digest = base.copy()
            digest.update(b"\n%d" % seed)
            planned.append(
                PlannedRun(id=digest.hexdigest()[:16], params=chosen, seed=seed, ticks=ticks, spec=changed)
            )
    return planned


def read_params(given: Sequence[str]) -> dict[str, list[str]]:
    """`["agents=10,20"]` as `{"agents": ["10", "20"]}`. Errors: `InvalidRequest`."""
    found: dict[str, list[str]] = {}
    for one in given:
        name, equals, texts = (part.strip() for part in one.partition("="))
        values = [text.strip() for text in texts.split(",")]
        if not equals or not name or "" in values:
            raise InvalidRequest("--param", expected="NAME=VALUE,VALUE such as agents=10,20", got=one)
        if name in found:
            raise InvalidRequest(f"--param {name} is given twice", expected=f"{name}=VALUE,VALUE")
        found[name] = values
    return found


def known_params() -> dict[str, Any]:
    """The type of each setting that is one value, by its dotted name."""
    return {name: kind for name, kind in _settings(WorldConfig, "") if name != "seed"}


def _settings(struct: type[msgspec.Struct], prefix: str) -> list[tuple[str, object]]:
    found: list[tuple[str, Any]] = []
    for field in msgspec.structs.fields(struct):
        kind = inspect.type_info(field.type)
        name = f"{prefix}{field.name}"
        if isinstance(kind, inspect.StructType):
            found += _settings(kind.cls, f"{name}.")
        elif _is_value(kind):
            found.append((name, field.type))
    return found


def _is_value(kind: inspect.Type) -> bool:
    if isinstance(kind, inspect.UnionType):
        return all(_is_value(one) for one in kind.types)
    return isinstance(kind, inspect.IntType | inspect.StrType | inspect.LiteralType | inspect.NoneType)


def _values(name: str, texts: Sequence[str]) -> list[Param]:
    """The values of a parameter, each once."""
    known = known_params()
    if name == "seed":
        raise InvalidRequest("parameter seed", expected="`seeds`: so many, from the world's on")
    if name != AGENTS and name not in known:
        raise InvalidRequest(
            f"there is no parameter {name[:100]!r}", expected=f"of {AGENTS}, {', '.join(known)}"
        )
    kind = int if name == AGENTS else known[name]
    found: list[Param] = []
    for text in texts:
        try:
            found.append(msgspec.convert(text, kind, strict=False))
        except msgspec.ValidationError as error:
            raise InvalidRequest(
                f"parameter {name}: {error}", expected="another value", got=text[:100]
            ) from None
    return list(dict.fromkeys(found))


def _apply_params(spec: Mapping[str, Any], chosen: Mapping[str, Param]) -> dict[str, Any]:
    """The world with the chosen parameters. Errors: `InvalidConfig`."""
    changed = dict(spec)
    for name, value in chosen.items():
        if name == AGENTS:
            changed["agents"] = _repeat_agents(spec.get("agents", []), cast("int", value))
            continue
        holder = changed
        for step in ("world", *name.split(".")[:-1]):
            # Copies on the way down: the world as it was given serves other combinations.
            holder[step] = dict(holder.get(step, {}))
            holder = holder[step]
        holder[name.rpartition(".")[2]] = value
    try:
        read_world(changed)
    except InvalidConfig as error:
        if not chosen:
            raise
        said = ", ".join(f"{name}={value}" for name, value in chosen.items())
        raise InvalidConfig(
            f"with {said}: {error.message}", expected=error.expected, got=error.got, hint=error.hint
        ) from None
    return changed


def _repeat_agents(agents: Sequence[Mapping[str, Any]], count: int) -> list[Mapping[str, Any]]:
    if count < 0:
        raise InvalidRequest("parameter agents", expected="numbers from 0", got=count)
    templates = ["{n}" in str(one.get("id")) for one in agents]
    if not any(templates):
        raise InvalidConfig(
            "parameter agents, but the world has no template of agents",
            expected="an entry of [[agents]] with {n} in its id, such as trader_{n}",
        )
    return [
        {**one, "count": count} if is_template else one
        for one, is_template in zip(agents, templates, strict=True)
    ]


def _check(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise InvalidRequest(name, expected=f"{least} to {most}", got=value)


# One run


async def pass_world(
    kernel: Host | Unbound,
    planned: PlannedRun,
    *,
    policies: Mapping[str, Policy] | None = None,
    told: Callable[[int], object] = lambda tick: None,
) -> dict[str, Any]:
    """Make the world of a run if it is not there, pass the ticks that it lacks, and measure it.

    Gives the row of the run. `told` is called with each tick that has passed.
    Errors: those of `found` and `World.tick`; `Conflict` if somebody has passed further ticks.
    """
    world = World.open(kernel, WORLD, policies=policies)
    if not await _is_there(world):
        world = await found(kernel, WORLD, planned.spec, seed=planned.seed, policies=policies)
    async with world:
        now = await world.tick_now()
        if now > planned.ticks:
            raise Conflict(
                f"the world of run {planned.id} was used otherwise",
                expected=f"tick {planned.ticks}",
                got=f"tick {now}",
                hint="Remove the folder of the run, and it is passed anew.",
            )
        for _ in range(planned.ticks - now):
            told((await world.tick()).tick)
        return {
            "run": planned.id,
            "params": dict(planned.params),
            "seed": planned.seed,
            "ticks": planned.ticks,
            **await figures(world),
            **await means(world),
            "hash": await world.hash(),
        }


async def _is_there(world: World) -> bool:
    try:
        await world.row()
    except NotFound:
        return False
    return True


async def figures(world: World) -> dict[str, int | float]:
    """The figures of a world over all its ticks, by the names of `FIGURES`. Cost: reads every event once."""
    found: dict[str, int | float] = {}
    summed = dict.fromkeys(("trades", "volume", "minted", "actions", "rejected", "tokens"), 0)
    async for one in tick_metrics(world):
        found = {"agents_left": len(one.balances), "gini": one.gini, "circulating": one.circulating}
        for name, value in zip(
            summed, (one.trades, one.volume, one.minted, one.acted, one.rejected, one.tokens), strict=True
        ):
            summed[name] += value
    cost = await account_balance(world.host.services.store, world.host.id, "spent")
    return {**found, **summed, "model_cost_microusd": cost or 0}


async def means(world: World) -> dict[str, float | None]:
    """Return the mean of each column of `collect` over the agents after the last tick, as `mean_<name>`.

    Truth counts as 1 or 0, so that its mean is a share. Other cells that are not numbers are left out, and a
    column without numbers has None. Cost: reads every event once, if anything is collected.
    """
    columns = Columns((await world.config()).collect)
    names = columns.names[len(FIXED) :]
    if not names:
        return {}
    cells: list[list[int | float]] = [[] for _ in names]
    async for row in collect(world, columns, from_tick=await world.tick_now()):
        for numbers, cell in zip(cells, row[len(FIXED) :], strict=True):
            if isinstance(cell, int | float):
                numbers.append(cell)
    return {
        f"{MEAN}{name}": sum(numbers) / len(numbers) if numbers else None
        for name, numbers in zip(names, cells, strict=True)
    }


# --------------------------------------------------------------------------- sweep results
# The files of a sweep: one with a row for each completed run, and the table of all runs.
# A file is either complete or absent. Text in a CSV never begins like a spreadsheet formula.


ROW = "row.json"
"""In the folder of a run, once it is done."""

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""How a cell begins that a spreadsheet might obey (OWASP, CSV injection)."""

Column = tuple[str, str]
"""Name and type, as DuckDB calls it."""


def folder_of(out: Path) -> Path:
    """Return where the runs of a table are kept. Errors: `InvalidRequest` for a name of neither format."""
    if out.suffix not in (".csv", ".parquet"):
        raise InvalidRequest("--out", expected="FILE.csv or FILE.parquet", got=str(out))
    return out.with_suffix(".sweep")


def save_row(folder: Path, row: Mapping[str, Any]) -> None:
    """Say that the run of this folder is done. Errors: `StoreUnavailable`."""
    _put(folder / ROW, msgspec.json.encode(row))


def row_of(folder: Path, planned: PlannedRun) -> dict[str, Any] | None:
    """The row of a run that is done; None if it is not, or the file is none of ours."""
    try:
        row = msgspec.json.decode((folder / planned.id / ROW).read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    is_whole = row.get("run") == planned.id and all(name in row for name in (*FIGURES, *planned.means))
    return {**row, "params": planned.params} if is_whole else None


def columns_of(planned: Sequence[PlannedRun]) -> list[Column]:
    """`run`, the parameters, `seed`, `ticks`, the figures, and the means of what is collected."""
    params: dict[str, list[Param]] = {}
    means: dict[str, str] = {}
    for one in planned:
        means.update(dict.fromkeys(one.means, "DOUBLE"))
        for name, value in one.params.items():
            params.setdefault(name, []).append(value)
    return [
        ("run", "VARCHAR"),
        *((name, _type_of(values)) for name, values in params.items()),
        ("seed", "BIGINT"),
        ("ticks", "BIGINT"),
        *FIGURES.items(),
        *means.items(),
    ]


def _type_of(values: Sequence[Param]) -> str:
    return "BIGINT" if all(isinstance(one, int | None) for one in values) else "VARCHAR"


def write_table(out: Path, rows: Sequence[Mapping[str, Any]], columns: Sequence[Column]) -> None:
    """Write the rows of runs, as CSV or Parquet by the name of the file. Errors: `StoreUnavailable`."""
    flat = [{**row, **row["params"]} for row in rows]
    data = _parquet(flat, columns) if out.suffix == ".parquet" else _csv(flat, columns)
    _put(out, data)


def _csv(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([name for name, _ in columns])
    for row in rows:
        writer.writerow([_cell(row[name]) for name, _ in columns])
    return text.getvalue().encode()


def _cell(value: object) -> object:
    """A number, or text that no spreadsheet takes for a formula."""
    if isinstance(value, str) and value.startswith(FORMULA):
        return f"'{value}"
    return "" if value is None else value


def _parquet(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column]) -> bytes:
    import duckdb

    with tempfile.TemporaryDirectory(prefix="artelier-") as scratch:
        source, target = Path(scratch, "rows.json"), Path(scratch, "rows.parquet")
        # A file is how rows enter DuckDB a hundred times faster than one by one.
        source.write_bytes(
            b"\n".join(msgspec.json.encode({name: row[name] for name, _ in columns}) for row in rows)
        )
        shape = ", ".join(f"{literal(name)}: {literal(kind)}" for name, kind in columns)
        with duckdb.connect(":memory:") as db:
            db.execute(
                f"COPY (SELECT * FROM read_json({literal(str(source))},"
                f" format = 'newline_delimited', columns = {{{shape}}}))"
                f" TO {literal(str(target))} (FORMAT parquet)"
            )
        return target.read_bytes()


def _put(path: Path, data: bytes) -> None:
    hint = "Name another one, or make room; what is done stays."
    with replace_file(path, "the file cannot be written", hint=hint, is_shared=True) as file:
        file.write(data)
