"""Rows of the conversation tree: a node and its status, read and written inside a transaction."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from artelier.errors import Conflict, InvalidEvent, NotFound
from artelier.kernel.queries.runs import is_over
from artelier.log import Applied, Tx
from artelier.operations import events as ev
from artelier.operations.events import ReplyPart

NODES_PER_EVENT = 4096
"""Node ids are `seq of the event * this + n`: unique in a chat, and the same in another store."""

VERSIONS_PER_EVENT = 1024
"""The same for versions of artifacts: `seq * this + n`."""

WORDS_HIDDEN = 1
REPLY_HIDDEN = 2

_encode = msgspec.json.Encoder(order="sorted").encode
_parts = msgspec.json.Decoder(tuple[ReplyPart, ...]).decode
_state = msgspec.json.Decoder(dict[str, int]).decode
_marks = msgspec.json.Decoder(dict[str, tuple[int, int]]).decode


class TurnStatus(StrEnum):
    """The status of a node: of a turn before it has a reply, or of one of its variants.

        asked               the person's words; each reply is a node of its own
        begun ──▶ done | failed | aborted      the variant's run has ended
        failed | aborted ──▶ done | failed | aborted      its run was cut off, and ends again
        done ──▶ done       a reply is continued

    Greetings, imported turns and the steps of agents begin as `done`.
    """

    ASKED = "asked"
    BEGUN = "begun"
    DONE = "done"
    FAILED = "failed"
    ABORTED = "aborted"

    @property
    def successors(self) -> frozenset[TurnStatus]:
        """The statuses that can follow this one."""
        return _SUCCESSORS[self]

    def can_become(self, other: TurnStatus) -> bool:
        """Return True if the other status can follow this one."""
        return other in self.successors


ENDS = frozenset((TurnStatus.DONE, TurnStatus.FAILED, TurnStatus.ABORTED))
"""The statuses that the end of a variant can lead to."""

_SUCCESSORS = {
    TurnStatus.ASKED: frozenset[TurnStatus](),
    TurnStatus.BEGUN: ENDS,
    TurnStatus.DONE: frozenset((TurnStatus.DONE,)),
    TurnStatus.FAILED: ENDS,
    TurnStatus.ABORTED: ENDS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A variant of a turn, or the turn before it has one (`variant` 0). Fields are columns."""

    chat: int
    """Row id of the chat's stream."""
    node: int
    parent: int
    """The node that this one was said after; 0 at the beginning. All variants of a turn have the same."""
    turn: int
    """The first node of its turn, which has the person's words."""
    number: int
    """Of the turn along the path, from 1; 0 for a greeting."""
    variant: int
    """Within the turn, from 1; 0 for the turn without a reply."""
    status: TurnStatus
    trigger: str = ""
    """How it came about; empty for greetings and imported turns."""
    run: str = ""
    """Which run made it."""
    base: str = ""
    """The run whose recorded conversation ends with it; empty if none does."""
    shown: int = 0
    """How many messages of that conversation stand for the chat up to here."""
    apart: int = 0
    """What comes after those in another form than the run recorded: 1 the reply, 2 the person's words too."""
    profile: str = ""
    """`id@version`."""
    scope: str = ""
    """Whose artifacts `state` is about: `<profile id>/<session id>`."""
    other: int = 0
    """The nearest node above of another scope; 0 for none."""
    state: str = "{}"
    """JSON: version row by tag."""
    marks: str = "{}"
    """JSON: when each operation was done last."""
    user: str = "[]"
    """JSON parts: the person's words, if this node has any of its own."""
    parts: str = "[]"
    """JSON parts: the reply."""
    tokens: int = 0
    """Estimate of the conversation up to and with this node."""
    finish: str = ""
    at_us: int = 0
    hidden: int = 0
    """What later prompts leave out: 1 the person's words (of the turn's first node), 2 the reply."""
    deleted: int = 0
    """1 if it is gone: it holds the place of those after it, and says nothing."""

    def user_parts(self) -> tuple[ReplyPart, ...]:
        return _parts(self.user)

    def reply_parts(self) -> tuple[ReplyPart, ...]:
        return _parts(self.parts)

    def versions(self) -> dict[str, int]:
        return _state(self.state)

    def decode_marks(self) -> dict[str, tuple[int, int]]:
        return _marks(self.marks)

    @property
    def has_reply(self) -> bool:
        return self.parts != "[]"

    def row(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in COLUMNS)


def versions_in(state: str) -> tuple[int, ...]:
    """Return the rows of the versions that a state is made of."""
    return tuple(_state(state).values())


COLUMNS = tuple(Node.__dataclass_fields__)
SELECT = "SELECT " + ", ".join(f"n.{name}" for name in COLUMNS) + " FROM chat_nodes n"
_INSERT = f"INSERT INTO chat_nodes VALUES ({', '.join('?' * len(COLUMNS))})"

SCHEMA = (
    """CREATE TABLE chat_nodes(
        chat INTEGER NOT NULL, node INTEGER NOT NULL, parent INTEGER NOT NULL,
        turn INTEGER NOT NULL, number INTEGER NOT NULL, variant INTEGER NOT NULL,
        status TEXT NOT NULL, trigger TEXT NOT NULL, run TEXT NOT NULL, base TEXT NOT NULL,
        shown INTEGER NOT NULL, apart INTEGER NOT NULL, profile TEXT NOT NULL, scope TEXT NOT NULL,
        other INTEGER NOT NULL, state TEXT NOT NULL, marks TEXT NOT NULL, user TEXT NOT NULL,
        parts TEXT NOT NULL, tokens INTEGER NOT NULL, finish TEXT NOT NULL, at_us INTEGER NOT NULL,
        hidden INTEGER NOT NULL, deleted INTEGER NOT NULL,
        PRIMARY KEY(chat, node)) STRICT, WITHOUT ROWID""",
    "CREATE INDEX chat_nodes_below ON chat_nodes(chat, parent)",
    "CREATE INDEX chat_nodes_of_turn ON chat_nodes(chat, turn, variant)",
    "CREATE INDEX chat_nodes_by_run ON chat_nodes(chat, run) WHERE run <> ''",
)


def node_of(row: tuple[Any, ...]) -> Node:
    """A row of `SELECT`."""
    columns: dict[str, Any] = dict(zip(COLUMNS, row, strict=True))
    columns["status"] = TurnStatus(columns["status"])
    return Node(**columns)


def encoded_parts(parts: tuple[ReplyPart, ...]) -> str:
    return _encode(parts).decode()


def encoded_map(value: object) -> str:
    return _encode(value).decode()


def insert(tx: Tx, node: Node) -> None:
    tx.execute(_INSERT, node.row())


def end_node(tx: Tx, node: Node, status: TurnStatus, **columns: str | int) -> None:
    """Set the status of a stored node, and columns with it; their names are ours.

    Errors: `InvalidEvent` if the status cannot follow the node's.
    """
    if not node.status.can_become(status):
        raise InvalidEvent(
            "this node does not change so",
            expected=", ".join(sorted(node.status.successors)) or f"it stays {node.status}",
            got=status,
        )
    columns["status"] = status.value
    names = ", ".join(f"{name} = ?" for name in columns)
    tx.execute(
        f"UPDATE chat_nodes SET {names} WHERE chat = ? AND node = ?",
        (*columns.values(), node.chat, node.node),
    )


def load(tx: Tx, event: Applied, node: int) -> Node:
    """A node of the event's chat. Errors: `NotFound`, also for one of another chat."""
    row = tx.one(f"{SELECT} WHERE n.chat = ? AND n.node = ?", (event.stream_id, node))
    if row is None:
        raise NotFound(f"chat {event.stream.id!r} has no node {node}")
    return node_of(row)


def in_scope(tx: Tx, node: Node | None, scope: str) -> Node | None:
    """The nearest node above, itself included, whose state is that of a scope.

    Cost: as many rows as there were changes of scope.
    """
    while node is not None and node.scope != scope:
        above = tx.one(f"{SELECT} WHERE n.chat = ? AND n.node = ?", (node.chat, node.other))  # 0 is no node
        node = None if above is None else node_of(above)
    return node


def inherit_columns(tx: Tx, parent: Node | None, scope: str) -> dict[str, Any]:
    """Columns that a node takes over from what it hangs on, for a run with this scope.

    A plain turn (no scope) changes no artifacts and passes on whatever stands above it.
    """
    if parent is None:
        return {"scope": scope}
    if not scope or parent.scope == scope:
        return {"scope": parent.scope, "other": parent.other, "state": parent.state, "marks": parent.marks}
    found = in_scope(tx, parent, scope)
    return {
        "scope": scope,
        "other": parent.node if parent.scope else 0,
        "state": found.state if found is not None else "{}",
        "marks": found.marks if found is not None else "{}",
    }


BRANCHES_MAX = 1_000
VARIANTS_MAX = 200
"""Of one turn."""
PARTS_MAX = 256
MAIN = "main"
"""The branch that a chat begins with."""
RUNS_MAX = 999_999


class ChatConflict(Conflict):
    """The request does not fit the current state of the chat."""


def check_open(event: Applied, tx: Tx) -> None:
    if tx.one("SELECT 1 FROM chats WHERE id = ? AND deleted = 0", (event.stream_id,)) is None:
        raise NotFound(f"no chat {event.stream.id!r}")


class BranchState(NamedTuple):
    """A branch of a chat. `head` is a node, 0 at the beginning; `run` is the one asked for last."""

    name: str
    head: int
    run: str
    trigger: str
    job: str
    """Settings of that run, as a reference."""
    made: int
    """The node that it has made, or goes on with; 0 for none."""
    origin: str
    n: int
    at_us: int


BRANCH = ", ".join(BranchState._fields)


def branch_of(event: Applied, tx: Tx, name: str) -> BranchState:
    """Errors: `NotFound`."""
    row = tx.one(f"SELECT {BRANCH} FROM chat_branches WHERE chat = ? AND name = ?", (event.stream_id, name))
    if row is None:
        check_open(event, tx)
        raise NotFound(f"chat {event.stream.id!r} has no branch {name!r}")
    return BranchState(*row)


def insert_branch(event: Applied, tx: Tx, name: str, *, head: int, origin: str, n: int) -> None:
    tx.execute(
        "INSERT INTO chat_branches VALUES (?, ?, ?, '', '', '', 0, ?, ?, ?)",
        (event.stream_id, name, head, origin, n, event.at_us),
    )


def move(event: Applied, tx: Tx, branch: str, *, head: int) -> None:
    """Put a branch elsewhere; it waits for no run from then on."""
    tx.execute(
        "UPDATE chat_branches SET head = ?, run = '', trigger = '', job = '', made = 0"
        " WHERE chat = ? AND name = ?",
        (head, event.stream_id, branch),
    )


def use_scope(event: Applied, tx: Tx, profile: str, session: str, *, runs: int) -> None:
    tx.execute(
        "INSERT INTO chat_scopes VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT(chat, profile, session)"
        " DO UPDATE SET runs = chat_scopes.runs + excluded.runs, used_us = excluded.used_us",
        (event.stream_id, profile, session, runs, event.at_us, event.at_us),
    )


# Rules


def check_free(event: Applied, tx: Tx, branch: BranchState) -> None:
    """Errors: `Conflict` while the run that a branch waits for has not ended."""
    if branch.run and not is_over(tx, event.stream.tenant, branch.run):
        raise ChatConflict(
            f"branch {branch.name!r} of chat {event.stream.id!r} is busy: run {branch.run} has not ended",
            hint="Wait for it, or bring it to its end: session.resume(), session.cancel()."
            " Beside it the chat goes on in a branch from an earlier turn: session.branch(at_turn=N).",
            run=branch.run,
            busy=True,
        )


def check_settled(event: Applied, tx: Tx, node: Node) -> None:
    """Errors: `Conflict` for a node that a run is still at work on."""
    if node.run and not is_over(tx, event.stream.tenant, node.run):
        raise ChatConflict(
            f"run {node.run} is still at work on this turn of chat {event.stream.id!r}",
            hint="Wait for it, or cancel it.",
            run=node.run,
            busy=True,
        )


def waiting(event: Applied, tx: Tx, name: str, run: str) -> BranchState:
    """The branch that waits for a run. Errors: `Conflict`, `NotFound`."""
    branch = branch_of(event, tx, name)
    if not run or branch.run != run:
        raise ChatConflict(
            f"branch {name!r} of chat {event.stream.id!r} does not wait for run {run!r}",
            expected=branch.run or "no run",
        )
    return branch


def run_name(chat: str, number: int) -> str:
    """Return what the runs of a chat are called, from 1."""
    return f"{chat}/r{number:06d}"


def draft_name(chat: str, number: int) -> str:
    """Return what the runs of a chat are called that write words for the person, from 1."""
    return f"{chat}/draft-{number:06d}"


def draft_range(chat: str) -> tuple[str, str]:
    """Return two texts between which the ids of all these runs stand."""
    return f"{chat}/draft-", f"{chat}/draft."


def take_run(event: Applied, tx: Tx, run: str) -> None:
    """Errors: `Conflict` unless a run has the next name."""
    check_open(event, tx)
    row = tx.one("SELECT runs FROM chats WHERE id = ?", (event.stream_id,))
    number = (row[0] if row else 0) + 1
    expected = run_name(event.stream.id, number)
    if run != expected or number > RUNS_MAX:
        raise ChatConflict("the name of a chat's next run is another", expected=expected, got=run[:200])
    tx.execute(
        "UPDATE chats SET runs = ?, changed_us = ? WHERE id = ?", (number, event.at_us, event.stream_id)
    )


def limit_parts(parts: tuple[ev.ReplyPart, ...]) -> tuple[ev.ReplyPart, ...]:
    if len(parts) > PARTS_MAX:
        raise too_many("parts of one message", PARTS_MAX, len(parts))
    return parts


def too_many(what: str, most: int, got: int) -> ChatConflict:
    return ChatConflict(f"too many {what}", expected=f"at most {most}", got=got)
