"""Views of a tenant: its rates, its patterns, the placeholders that its runs received, and its erasures."""

from __future__ import annotations

from typing import cast

from artelier.kernel.events import RunForked, RunStarted
from artelier.kernel.tenants.events import PatternsChanged, PersonalReceived, RatesChanged
from artelier.log import Applied, ContentErased, Tx, View

rates_view = View(
    name="rates",
    version=1,
    tables=("tenant_rates",),
    schema=(
        """CREATE TABLE tenant_rates(
            tenant TEXT NOT NULL, name TEXT NOT NULL, requests INTEGER, tokens INTEGER,
            PRIMARY KEY(tenant, name)) STRICT, WITHOUT ROWID""",
    ),
)


@rates_view.on(RatesChanged)
def _apply_rates(event: Applied, tx: Tx) -> None:
    assert isinstance(event.data, RatesChanged)
    tenant = event.stream.tenant
    tx.execute("DELETE FROM tenant_rates WHERE tenant = ?", (tenant,))
    for rate in event.data.rates:
        tx.execute(
            "INSERT INTO tenant_rates VALUES (?, ?, ?, ?)", (tenant, rate.name, rate.requests, rate.tokens)
        )


erasure_view = View(
    name="erasure",
    version=1,
    tables=("keyed", "erasures"),
    schema=(
        "CREATE TABLE keyed(run INTEGER PRIMARY KEY, key_id INTEGER NOT NULL) STRICT",
        "CREATE INDEX keyed_by_key ON keyed(key_id)",
        "CREATE TABLE erasures(position INTEGER PRIMARY KEY, tenant TEXT NOT NULL, at_us INTEGER NOT NULL,"
        " actor TEXT NOT NULL, whole INTEGER NOT NULL, what TEXT NOT NULL, blobs INTEGER NOT NULL,"
        " vault_values INTEGER NOT NULL) STRICT",
        "CREATE INDEX erasures_by_tenant ON erasures(tenant, position)",
    ),
)


@erasure_view.on(RunStarted, RunForked)
def _apply_begun(applied: Applied, tx: Tx) -> None:
    key_id = cast("RunStarted | RunForked", applied.data).key_id
    if key_id is not None:
        tx.execute("INSERT INTO keyed VALUES (?, ?)", (applied.stream_id, key_id))


@erasure_view.on(ContentErased)
def _apply_erased(applied: Applied, tx: Tx) -> None:
    data = cast(ContentErased, applied.data)
    tx.execute(
        "INSERT INTO erasures VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            applied.position,
            applied.stream.tenant,
            applied.at_us,
            applied.actor,
            int(data.whole),
            data.what,
            data.blobs,
            data.values,
        ),
    )


personal_view = View(
    name="personal",
    version=1,
    tables=("received", "tenant_patterns"),
    schema=(
        "CREATE TABLE received(run INTEGER NOT NULL, placeholder TEXT NOT NULL,"
        " PRIMARY KEY (run, placeholder)) STRICT",
        "CREATE TABLE tenant_patterns(tenant TEXT NOT NULL, kind TEXT NOT NULL,"
        " expression TEXT NOT NULL, PRIMARY KEY (tenant, kind)) STRICT",
    ),
)


@personal_view.on(PersonalReceived)
def _apply_received(applied: Applied, tx: Tx) -> None:
    data = applied.data
    assert isinstance(data, PersonalReceived)
    for one in data.placeholders:
        tx.execute("INSERT INTO received VALUES (?, ?) ON CONFLICT DO NOTHING", (applied.stream_id, one))


@personal_view.on(PatternsChanged)
def _apply_patterns(applied: Applied, tx: Tx) -> None:
    data, tenant = applied.data, applied.stream.tenant
    assert isinstance(data, PatternsChanged)
    tx.execute("DELETE FROM tenant_patterns WHERE tenant = ?", (tenant,))
    for one in data.patterns:
        tx.execute("INSERT INTO tenant_patterns VALUES (?, ?, ?)", (tenant, *one))
