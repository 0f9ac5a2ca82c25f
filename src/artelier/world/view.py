"""The views of worlds: which there are, where their agents stand, what is offered, granted, remembered."""

from __future__ import annotations

from msgspec.json import encode

from artelier.artifacts.access import account_of
from artelier.artifacts.events import (
    Act,
    ArtifactCharged,
    ArtifactDeleted,
    ArtifactInvoked,
    ArtifactTransferred,
    ArtifactWritten,
)
from artelier.artifacts.queries import kind_in, owner_in
from artelier.artifacts.ref import ACTORS
from artelier.errors import Conflict
from artelier.ledger.queries import balances_in
from artelier.log import Applied, Tx, View
from artelier.money import SCRIP
from artelier.world import events as ev

SERVICES = "genesis_"
"""What the ids of services begin with."""

PROGRAMS_MAX = 10
"""Programs that own each other, up to the one that an agent owns."""

_SPACE = "tenant TEXT NOT NULL, space TEXT NOT NULL"

world_view = View(
    name="worlds",
    version=3,
    tables=(
        "worlds",
        "world_ancestors",
        "world_agents",
        "world_offers",
        "world_licences",
        "world_royalties",
        "world_bids",
        "world_rounds",
        "world_uses",
        "world_fees",
        "world_inbox",
        "world_paid",
        "world_checkpoints",
        "world_usage",
        "store_entries",
        "store_removals",
        "store_counts",
    ),
    schema=(
        """CREATE TABLE worlds(
            tenant TEXT NOT NULL, id TEXT NOT NULL, tick INTEGER NOT NULL, seed INTEGER NOT NULL,
            config TEXT NOT NULL, paused INTEGER NOT NULL, parent TEXT, forked_at INTEGER,
            PRIMARY KEY(tenant, id)) STRICT, WITHOUT ROWID""",
        # The nearest first. Prompts of ticks that are shared stand in the runs of these worlds. Of a fork
        # that is not whole yet, its origin alone, as number -1.
        """CREATE TABLE world_ancestors(
            tenant TEXT NOT NULL, id TEXT NOT NULL, n INTEGER NOT NULL, ancestor TEXT NOT NULL,
            tick INTEGER NOT NULL, PRIMARY KEY(tenant, id, n)) STRICT, WITHOUT ROWID""",
        f"""CREATE TABLE world_agents(
            {_SPACE}, agent TEXT NOT NULL, n INTEGER NOT NULL, active INTEGER NOT NULL,
            state TEXT, ticks_in_state INTEGER NOT NULL, failures INTEGER NOT NULL,
            last_tick INTEGER, last_action TEXT, last_ok INTEGER, last_result TEXT, last_source TEXT,
            PRIMARY KEY(tenant, space, agent)) STRICT, WITHOUT ROWID""",
        f"""CREATE TABLE world_offers(
            {_SPACE}, offer TEXT NOT NULL, n INTEGER NOT NULL, artifact TEXT NOT NULL,
            version INTEGER NOT NULL, kind TEXT NOT NULL, seller TEXT NOT NULL,
            price INTEGER NOT NULL, sells TEXT NOT NULL, buyer_only TEXT NOT NULL, uses INTEGER,
            ticks INTEGER, royalty_percent INTEGER NOT NULL, preview TEXT, made INTEGER NOT NULL,
            status TEXT NOT NULL, buyer TEXT, closed INTEGER, sold INTEGER NOT NULL,
            PRIMARY KEY(tenant, space, offer)) STRICT, WITHOUT ROWID""",
        "CREATE INDEX world_offers_open ON world_offers(tenant, space, n) WHERE status = 'open'",
        "CREATE INDEX world_offers_by_artifact ON world_offers(tenant, space, artifact)"
        " WHERE status = 'open'",
        "CREATE INDEX world_offers_by_seller ON world_offers(tenant, space, seller) WHERE status = 'open'",
        f"""CREATE TABLE world_licences(
            {_SPACE}, licence TEXT NOT NULL, artifact TEXT NOT NULL, holder TEXT NOT NULL,
            uses_left INTEGER, until_tick INTEGER,
            PRIMARY KEY(tenant, space, artifact, holder, licence)) STRICT, WITHOUT ROWID""",
        f"""CREATE TABLE world_royalties(
            {_SPACE}, artifact TEXT NOT NULL, origin TEXT NOT NULL, percent INTEGER NOT NULL,
            PRIMARY KEY(tenant, space, artifact)) STRICT, WITHOUT ROWID""",
        f"""CREATE TABLE world_bids(
            {_SPACE}, agent TEXT NOT NULL, artifact TEXT NOT NULL, amount INTEGER NOT NULL,
            n INTEGER NOT NULL, PRIMARY KEY(tenant, space, agent)) STRICT, WITHOUT ROWID""",
        # How often others than its owner have read, invoked or shown an artifact, and in which tick last.
        f"""CREATE TABLE world_uses(
            {_SPACE}, artifact TEXT NOT NULL, user TEXT NOT NULL, times INTEGER NOT NULL,
            used INTEGER NOT NULL, PRIMARY KEY(tenant, space, artifact, user)) STRICT, WITHOUT ROWID""",
        # What principals have paid to services since fees were shared.
        f"""CREATE TABLE world_fees(
            {_SPACE}, payer TEXT NOT NULL, amount INTEGER NOT NULL,
            PRIMARY KEY(tenant, space, payer)) STRICT, WITHOUT ROWID""",
        # By the tick: whoever changes how long a round is may have its number come twice.
        f"""CREATE TABLE world_rounds(
            {_SPACE}, round INTEGER NOT NULL, tick INTEGER NOT NULL, winner TEXT NOT NULL,
            artifact TEXT NOT NULL, price INTEGER NOT NULL, score INTEGER NOT NULL,
            minted INTEGER NOT NULL, duplicate INTEGER NOT NULL,
            PRIMARY KEY(tenant, space, tick)) STRICT, WITHOUT ROWID""",
        # What the agent sees at the tick after `tick`; an empty agent stands for all of them.
        f"""CREATE TABLE world_inbox(
            {_SPACE}, agent TEXT NOT NULL, tick INTEGER NOT NULL, n INTEGER NOT NULL,
            sender TEXT NOT NULL, text TEXT NOT NULL,
            PRIMARY KEY(tenant, space, agent, tick, n)) STRICT, WITHOUT ROWID""",
        # What the prompts of the tick at hand have moved: the tick before ended without it.
        f"""CREATE TABLE world_paid(
            {_SPACE}, account TEXT NOT NULL, asset TEXT NOT NULL, agent TEXT NOT NULL,
            step TEXT NOT NULL, moved INTEGER NOT NULL,
            PRIMARY KEY(tenant, space, account, asset, agent, step)) STRICT, WITHOUT ROWID""",
        # What stood at the end of some ticks: figures of later ones go on from there.
        f"""CREATE TABLE world_checkpoints(
            {_SPACE}, tick INTEGER NOT NULL, seq INTEGER NOT NULL, money TEXT NOT NULL,
            agents TEXT NOT NULL, PRIMARY KEY(tenant, space, tick)) STRICT, WITHOUT ROWID""",
        f"""CREATE TABLE world_usage(
            {_SPACE}, agent TEXT NOT NULL, tick INTEGER NOT NULL, calls INTEGER NOT NULL,
            tokens INTEGER NOT NULL,
            PRIMARY KEY(tenant, space, agent, tick)) STRICT, WITHOUT ROWID""",
        f"""CREATE TABLE store_entries(
            {_SPACE}, store TEXT NOT NULL, n INTEGER NOT NULL, entry TEXT NOT NULL,
            tick INTEGER NOT NULL, text TEXT NOT NULL, tags TEXT, importance INTEGER NOT NULL,
            vector TEXT NOT NULL, embedder TEXT NOT NULL, mark TEXT NOT NULL,
            PRIMARY KEY(tenant, space, store, n)) STRICT, WITHOUT ROWID""",
        "CREATE UNIQUE INDEX store_entries_by_id ON store_entries(tenant, space, store, entry)",
        "CREATE INDEX store_entries_by_mark ON store_entries(tenant, space, store, mark)",
        "CREATE INDEX store_entries_by_importance ON store_entries(tenant, space, store, importance, n)",
        # What an index in memory must forget; `n` is the seq of the removal.
        f"""CREATE TABLE store_removals(
            {_SPACE}, store TEXT NOT NULL, n INTEGER NOT NULL, entry TEXT NOT NULL,
            PRIMARY KEY(tenant, space, store, n)) STRICT, WITHOUT ROWID""",
        f"""CREATE TABLE store_counts(
            {_SPACE}, store TEXT NOT NULL, added INTEGER NOT NULL, entries INTEGER NOT NULL,
            changed INTEGER NOT NULL, PRIMARY KEY(tenant, space, store)) STRICT, WITHOUT ROWID""",
    ),
)


@world_view.on(ev.WorldMade)
def show_made(event: Applied, tx: Tx) -> None:
    data = event.data
    assert isinstance(data, ev.WorldMade)
    tenant, _space, _ = event.stream
    done = tx.execute(
        "INSERT INTO worlds VALUES (?, ?, 0, ?, ?, 0, NULL, NULL) ON CONFLICT DO NOTHING",
        (tenant, event.stream.id, data.seed, data.config),
    )
    if done.rowcount != 1:
        raise Conflict(f"there is a world {event.stream.id} already")


@world_view.on(ev.WorldConfigured)
def show_configured(event: Applied, tx: Tx) -> None:
    data = event.data
    assert isinstance(data, ev.WorldConfigured)
    tx.execute(
        "UPDATE worlds SET config = ? WHERE tenant = ? AND id = ?",
        (data.config, event.stream.tenant, event.stream.id),
    )


@world_view.on(ev.WorldPaused, ev.WorldResumed)
def show_pause(event: Applied, tx: Tx) -> None:
    tenant, _space, _ = event.stream
    status = ev.WorldStatus.of(paused=isinstance(event.data, ev.WorldPaused))
    row = tx.one("SELECT paused FROM worlds WHERE tenant = ? AND id = ?", (tenant, event.stream.id))
    if row is None:
        return
    ev.WorldStatus.of(paused=bool(row[0])).follow(status, world=event.stream.id)
    tx.execute(
        "UPDATE worlds SET paused = ? WHERE tenant = ? AND id = ?",
        (int(status is ev.WorldStatus.PAUSED), tenant, event.stream.id),
    )


@world_view.on(ev.WorldForking)
def hide_copy(event: Applied, tx: Tx) -> None:
    data = event.data
    assert isinstance(data, ev.WorldForking)
    tx.execute(
        "INSERT INTO world_ancestors VALUES (?, ?, -1, ?, ?)",
        (event.stream.tenant, data.world, data.parent, data.tick),
    )


@world_view.on(ev.WorldForked)
def show_forked(event: Applied, tx: Tx) -> None:
    data = event.data
    assert isinstance(data, ev.WorldForked)
    tx.execute(
        "DELETE FROM world_ancestors WHERE tenant = ? AND id = ? AND n = -1",
        (event.stream.tenant, data.world),
    )
    tx.execute(
        "UPDATE worlds SET parent = ?, forked_at = ? WHERE tenant = ? AND id = ?",
        (data.parent, data.tick, event.stream.tenant, data.world),
    )
    tenant = event.stream.tenant
    tx.execute(
        "INSERT INTO world_ancestors VALUES (?, ?, 0, ?, ?)", (tenant, data.world, data.parent, data.tick)
    )
    tx.execute(
        "INSERT INTO world_ancestors SELECT tenant, ?, n + 1, ancestor,"
        " CASE WHEN tick < ? THEN tick ELSE ? END FROM world_ancestors WHERE tenant = ? AND id = ?",
        (data.world, data.tick, data.tick, tenant, data.parent),
    )


@world_view.on(ev.WorldImported)
def show_imported(event: Applied, tx: Tx) -> None:
    data = event.data
    assert isinstance(data, ev.WorldImported)
    tenant = event.stream.tenant
    if data.parent:
        tx.execute(
            "UPDATE worlds SET parent = ?, forked_at = ? WHERE tenant = ? AND id = ?",
            (data.parent, data.forked_at, tenant, data.world),
        )
    for n, ancestor in enumerate(data.ancestors):
        tx.execute(
            "INSERT INTO world_ancestors VALUES (?, ?, ?, ?, ?)",
            (tenant, data.world, n, ancestor.world, ancestor.tick),
        )


@world_view.on(ev.TickPassed)
def show_tick(event: Applied, tx: Tx) -> None:
    data = event.data
    assert isinstance(data, ev.TickPassed)
    tenant, space, _ = event.stream
    tx.execute("UPDATE worlds SET tick = ? WHERE tenant = ? AND id = ?", (data.tick, tenant, event.stream.id))
    tx.execute("DELETE FROM world_paid WHERE tenant = ? AND space = ?", (tenant, space))
    if data.tick % CHECKPOINT_TICKS == 0:
        _check_point(event, tx, data.tick)


def _check_point(event: Applied, tx: Tx, tick: int) -> None:
    """Keep the scrip of all accounts and who acts, as they stand at the end of a tick."""
    place = event.stream[:2]
    money = balances_in(tx, *place, SCRIP)
    agents = tx.execute(
        "SELECT agent, active FROM world_agents WHERE tenant = ? AND space = ? ORDER BY n", place
    ).fetchall()
    tx.execute(
        "INSERT INTO world_checkpoints VALUES (?, ?, ?, ?, ?, ?)",
        (*place, tick, event.seq, encode(money).decode(), encode(agents).decode()),
    )


@world_view.on(ev.AgentJoined)
def show_joined(event: Applied, tx: Tx) -> None:
    data = event.data
    assert isinstance(data, ev.AgentJoined)
    tx.execute(
        "INSERT INTO world_agents VALUES (?, ?, ?, ?, 1, NULL, 0, 0, NULL, NULL, NULL, NULL, NULL)"
        " ON CONFLICT(tenant, space, agent) DO UPDATE SET active = 1",
        (*event.stream[:2], data.agent, event.seq),
    )


@world_view.on(ev.AgentLeft)
def show_left(event: Applied, tx: Tx) -> None:
    data = event.data
    assert isinstance(data, ev.AgentLeft)
    tx.execute(
        "UPDATE world_agents SET active = 0 WHERE tenant = ? AND space = ? AND agent = ?",
        (*event.stream[:2], data.agent),
    )


@world_view.on(
    *ev.ACTING,
    ev.OfferCancelled,
    ev.EntryAdded,
    ArtifactWritten,
    ArtifactDeleted,
    ArtifactTransferred,
    ArtifactInvoked,
)
def show_act(event: Applied, tx: Tx) -> None:
    """The newest step of an agent; whoever has another event of an action does not carry its act."""
    data = event.data
    act: Act | None = getattr(data, "act", None)
    if act is None:
        return
    ok = not isinstance(data, ev.ActionRejected) and getattr(data, "outcome", "done") == "done"
    result = data.reason if isinstance(data, ev.ActionRejected) else act.result
    tx.execute(
        "UPDATE world_agents SET last_tick = ?, last_action = ?, last_ok = ?, last_result = ?,"
        " last_source = ?, failures = CASE WHEN ? THEN 0 ELSE failures + 1 END,"
        " ticks_in_state = ticks_in_state + iif(state IS NOT NULL, 1, 0)"
        " WHERE tenant = ? AND space = ? AND agent = ?",
        (event.at_us, act.action, int(ok), result, act.source, int(ok), *event.stream[:2], event.actor),
    )
    if act.source == "model":
        _count_usage(event, tx, event.actor, act.tokens)


def _count_usage(event: Applied, tx: Tx, agent: str, tokens: int) -> None:
    """A model was asked for an agent in this tick."""
    tx.execute(
        "INSERT INTO world_usage VALUES (?, ?, ?, ?, 1, ?)"
        " ON CONFLICT(tenant, space, agent, tick)"
        " DO UPDATE SET calls = world_usage.calls + 1, tokens = world_usage.tokens + excluded.tokens",
        (*event.stream[:2], agent, event.at_us, tokens),
    )


@world_view.on(ev.AgentMoved)
def show_moved(event: Applied, tx: Tx) -> None:
    data = event.data
    assert isinstance(data, ev.AgentMoved)
    if data.step:
        _count_usage(event, tx, data.agent, data.tokens)
    if data.origin == data.to:
        return
    tx.execute(
        "UPDATE world_agents SET state = ?, ticks_in_state = 0 WHERE tenant = ? AND space = ? AND agent = ?",
        (data.to, *event.stream[:2], data.agent),
    )


@world_view.on(ev.MessageSent)
def show_message(event: Applied, tx: Tx) -> None:
    data = event.data
    assert isinstance(data, ev.MessageSent)
    _deliver(event, tx, data.to, event.actor, data.text)


@world_view.on(ev.EventInjected)
def show_injected(event: Applied, tx: Tx) -> None:
    data = event.data
    assert isinstance(data, ev.EventInjected)
    for agent in data.to or ("",):
        _deliver(event, tx, agent, "world", data.text)


def _deliver(event: Applied, tx: Tx, agent: str, sender: str, text: str) -> None:
    tx.execute(
        "INSERT INTO world_inbox VALUES (?, ?, ?, ?, ?, ?, ?)",
        (*event.stream[:2], agent, event.at_us, event.seq, sender, text),
    )


@world_view.on(ArtifactCharged)
def show_charged(event: Applied, tx: Tx) -> None:
    """Record the cost of a prompt, and the uses of a licence that it consumed."""
    data = event.data
    assert isinstance(data, ArtifactCharged)
    tenant, space, local = event.stream
    if data.licence:
        done = tx.execute(
            "UPDATE world_licences SET uses_left = uses_left - 1 WHERE tenant = ? AND space = ?"
            " AND artifact = ? AND holder = ? AND licence = ? AND uses_left > 0",
            (tenant, space, data.id, data.payer, data.licence),
        )
        if done.rowcount != 1:
            # Whoever tries again finds it used up, and is refused by the stage: no tick is lost for good.
            raise Conflict(f"licence {data.licence} of {data.payer} for {data.id} is used up")
    if not local.startswith("agent:"):
        return
    for source, target, asset, amount in (
        (one.source, one.target, one.asset, one.amount) for one in data.postings
    ):
        for account, moved in ((source, -amount), (target, amount)):
            tx.execute(
                "INSERT INTO world_paid VALUES (?, ?, ?, ?, ?, ?, ?)"
                " ON CONFLICT(tenant, space, account, asset, agent, step)"
                " DO UPDATE SET moved = world_paid.moved + excluded.moved",
                (tenant, space, account, asset, event.stream.id, data.step, moved),
            )


@world_view.on(ev.OfferMade)
def show_offer(event: Applied, tx: Tx) -> None:
    data = event.data
    assert isinstance(data, ev.OfferMade)
    tenant, space, _ = event.stream
    kind = kind_in(tx, tenant, space, data.artifact)
    if kind is None:
        return
    tx.execute(
        f"INSERT INTO world_offers VALUES ({'?, ' * 16}'open', NULL, NULL, 0)",
        (
            tenant,
            space,
            data.offer,
            event.seq,
            data.artifact,
            data.version,
            kind,
            data.seller,
            data.price,
            data.sells,
            data.to,
            data.uses,
            data.ticks,
            data.royalty_percent,
            data.preview,
            event.at_us,
        ),
    )


@world_view.on(ev.OfferAccepted)
def show_accepted(event: Applied, tx: Tx) -> None:
    data = event.data
    assert isinstance(data, ev.OfferAccepted)
    tenant, space, _ = event.stream
    tx.execute(
        "UPDATE world_offers SET sold = sold + 1 WHERE tenant = ? AND space = ? AND offer = ?",
        (tenant, space, data.offer),
    )
    # An offer of the thing itself is gone once it is sold; of copies and licences there are more.
    if data.sells == "ownership":
        _close(event, tx, data.offer, "accepted", data.buyer)
    if data.sells == "licence":
        tx.execute(
            "INSERT INTO world_licences VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                tenant,
                space,
                f"{data.offer}.{event.seq}",
                data.artifact,
                data.buyer,
                data.uses,
                data.until_tick,
            ),
        )
    if data.royalty_percent and data.got:
        tx.execute(
            "INSERT INTO world_royalties VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            (tenant, space, data.got, data.artifact, data.royalty_percent),
        )


@world_view.on(ev.OfferCancelled)
def show_cancelled(event: Applied, tx: Tx) -> None:
    data = event.data
    assert isinstance(data, ev.OfferCancelled)
    _close(event, tx, data.offer, "cancelled", None)


def _close(event: Applied, tx: Tx, offer: str, status: str, buyer: str | None) -> None:
    done = tx.execute(
        "UPDATE world_offers SET status = ?, buyer = ?, closed = ?"
        " WHERE tenant = ? AND space = ? AND offer = ? AND status = 'open'",
        (status, buyer, event.at_us, *event.stream[:2], offer),
    )
    if done.rowcount != 1:
        raise Conflict(f"offer {offer} is not open any more")


@world_view.on(ev.BidPlaced)
def show_bid(event: Applied, tx: Tx) -> None:
    data = event.data
    assert isinstance(data, ev.BidPlaced)
    tx.execute(
        "INSERT INTO world_bids VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT(tenant, space, agent)"
        " DO UPDATE SET artifact = excluded.artifact, amount = excluded.amount, n = excluded.n",
        (*event.stream[:2], event.actor, data.artifact, data.amount, event.seq),
    )


@world_view.on(ev.AuctionClosed)
def show_closed(event: Applied, tx: Tx) -> None:
    data = event.data
    assert isinstance(data, ev.AuctionClosed)
    tenant, space, _ = event.stream
    tx.execute("DELETE FROM world_bids WHERE tenant = ? AND space = ?", (tenant, space))
    tx.execute(
        "INSERT INTO world_rounds VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            tenant,
            space,
            data.round,
            event.at_us,
            data.winner,
            data.artifact,
            data.price,
            data.score,
            data.minted,
            int(data.duplicate),
        ),
    )


@world_view.on(ev.EntryAdded)
def show_entry(event: Applied, tx: Tx) -> None:
    data = event.data
    assert isinstance(data, ev.EntryAdded)
    done = tx.execute(
        "INSERT INTO store_entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (
            *event.stream[:2],
            data.store,
            event.seq,
            data.entry,
            event.at_us if data.tick is None else data.tick,
            data.text,
            data.tags,
            data.importance,
            data.vector,
            data.embedder,
            data.mark,
        ),
    )
    if done.rowcount != 1:
        raise Conflict(f"memory store {data.store} has an entry {data.entry} already")
    _count(event, tx, data.store, added=1, entries=1)


@world_view.on(ev.EntryRemoved)
def show_entry_removed(event: Applied, tx: Tx) -> None:
    data = event.data
    assert isinstance(data, ev.EntryRemoved)
    done = tx.execute(
        "DELETE FROM store_entries WHERE tenant = ? AND space = ? AND store = ? AND entry = ?",
        (*event.stream[:2], data.store, data.entry),
    )
    if done.rowcount != 1:
        raise Conflict(f"memory store {data.store} has no entry {data.entry}")
    tx.execute(
        "INSERT INTO store_removals VALUES (?, ?, ?, ?, ?)",
        (*event.stream[:2], data.store, event.seq, data.entry),
    )
    _count(event, tx, data.store, added=0, entries=-1)


def _count(event: Applied, tx: Tx, store: str, *, added: int, entries: int) -> None:
    tx.execute(
        "INSERT INTO store_counts VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT(tenant, space, store)"
        " DO UPDATE SET added = store_counts.added + excluded.added,"
        " entries = store_counts.entries + excluded.entries, changed = excluded.changed",
        (*event.stream[:2], store, added, entries, event.seq),
    )


@world_view.on(ArtifactCharged, ArtifactInvoked, ev.ActionTaken, ev.OfferAccepted)
def show_use(event: Applied, tx: Tx) -> None:
    """Somebody else than its owner used an artifact: what a preview and the mint tell of it.

    What a program uses its owner uses.
    """
    data = event.data
    if isinstance(data, ArtifactCharged):
        artifact, user = data.id, data.payer
    elif isinstance(data, ArtifactInvoked):
        artifact, user = (data.id if data.outcome == "done" else ""), data.caller
    elif isinstance(data, ev.OfferAccepted):
        artifact, user = data.artifact, data.buyer
    else:
        assert isinstance(data, ev.ActionTaken)
        act = data.act
        artifact = act.ref.partition("#")[0].partition("@")[0] if act.action == "read" else ""
        user = event.actor
    if not artifact:
        return
    tenant, space, _ = event.stream
    owner, user = owner_in(tx, tenant, space, artifact), _responsible(event, tx, user)
    if owner is None or owner == user:
        return
    tx.execute(
        "INSERT INTO world_uses VALUES (?, ?, ?, ?, 1, ?) ON CONFLICT(tenant, space, artifact, user)"
        " DO UPDATE SET times = world_uses.times + 1, used = excluded.used",
        (tenant, space, artifact, user, event.at_us),
    )


@world_view.on(ArtifactCharged, ArtifactInvoked)
def show_fee(event: Applied, tx: Tx) -> None:
    data = event.data
    assert isinstance(data, ArtifactCharged | ArtifactInvoked)
    if fee := fee_of(data):
        tx.execute(
            "INSERT INTO world_fees VALUES (?, ?, ?, ?) ON CONFLICT(tenant, space, payer)"
            " DO UPDATE SET amount = world_fees.amount + excluded.amount",
            (*event.stream[:2], data.payer, fee),
        )


def fee_of(data: ArtifactCharged | ArtifactInvoked) -> int:
    """Return the scrip that an event pays to a service of the world."""
    if not data.id.startswith(SERVICES):
        return 0
    return sum(one.amount for one in data.postings if one.target == account_of(data.id))


@world_view.on(ev.FeesShared)
def show_fees_shared(event: Applied, tx: Tx) -> None:
    tx.execute("DELETE FROM world_fees WHERE tenant = ? AND space = ?", event.stream[:2])


def _responsible(event: Applied, tx: Tx, principal: str) -> str:
    """Return who stands behind a program: its owner, through at most ten of them."""
    for _ in range(PROGRAMS_MAX):
        if not principal.startswith(ACTORS):
            break
        owner = owner_in(tx, *event.stream[:2], principal.removeprefix(ACTORS))
        if owner is None:
            break
        principal = owner
    return principal


CHECKPOINT_TICKS = 50
"""Between two checkpoints: at most so many ticks are folded besides those that are asked for (a guess)."""
