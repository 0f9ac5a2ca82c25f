"""Rows of the conversation tree: a node, its status and edits, read and written inside a transaction.

Edits revise, hide and delete messages, branches and chats. A deleted node keeps its place in the tree,
without words, so that the turns after it stand where they stood. What a run has recorded of a conversation is
not changed by an edit: nodes from there on forget which run recorded them, and the next prompt is made of the
messages themselves.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import takewhile
from typing import Any, NamedTuple, cast

import msgspec

from artelier.errors import Conflict, InvalidEvent, NotFound
from artelier.kernel.queries.runs import is_over, open_between
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

INDEXES = ("CREATE INDEX IF NOT EXISTS chat_nodes_recorded ON chat_nodes(chat, base) WHERE base > ''",)
"""The index of the nodes that a run has recorded, which edits look for."""


def node_of(row: tuple[Any, ...]) -> Node:
    """A row of `SELECT`."""
    columns: dict[str, Any] = dict(zip(COLUMNS, row, strict=True))
    columns["status"] = TurnStatus(columns["status"])
    return Node(**columns)


FILE = "file"
"""The channel of what a file says beside a message: neither people nor prompts see it."""


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


def inherit(tx: Tx, node: Node, parent: Node | None, *, scope: str = "") -> Node:
    """Return a node with what it takes over from what it hangs on, for a run with this scope.

    A plain turn (no scope) changes no artifacts and passes on whatever stands above it.
    """
    if parent is None:
        return replace(node, scope=scope)
    if not scope or parent.scope == scope:
        return replace(node, scope=parent.scope, other=parent.other, state=parent.state, marks=parent.marks)
    found = in_scope(tx, parent, scope)
    return replace(
        node,
        scope=scope,
        other=parent.node if parent.scope else 0,
        state=found.state if found is not None else "{}",
        marks=found.marks if found is not None else "{}",
    )


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


def check_nobody_writes(tx: Tx, tenant: str, chat: str) -> None:
    """Check that no draft and no trial of an operation is at work: it may write down words that are deleted.

    Errors: `Conflict`.
    """
    trials = (f"{chat}/r", f"{chat}/s")
    run = open_between(tx, tenant, *draft_range(chat)) or open_between(tx, tenant, *trials, like=f"%{TRIAL}%")
    if run is not None:
        raise ChatConflict(
            f"chat {chat!r} is busy: run {run} has not ended, and may write of what is to be deleted",
            hint=f"Wait for it, or cancel it (`artelier cancel {run}`), and delete then.",
            run=run,
            busy=True,
        )


TRIAL = "/again-"
"""Stands in the ids of runs that try an operation once more, behind that of its turn."""


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


ROLES = {"user": WORDS_HIDDEN, "assistant": REPLY_HIDDEN}

_BELOW = (
    "WITH RECURSIVE below(node) AS (SELECT node FROM chat_nodes WHERE chat = ? AND {first} = ?"
    " UNION SELECT n.node FROM chat_nodes n JOIN below ON n.chat = ? AND n.parent = below.node) "
)
"""Some nodes and all that were said after them."""


def revise_message(event: Applied, tx: Tx) -> None:
    data = cast(ev.MessageRevised, event.data)
    node = _message(event, tx, data)
    said = load(tx, event, node.turn).user_parts() if data.role == "user" else node.reply_parts()
    speaker = next((part.speaker for part in said if part.speaker is not None), None)
    kept = (part for part in said if part.channel == FILE)
    parts = encoded_parts((ev.ReplyPart(text=data.text, speaker=speaker), *kept))
    if data.role == "user":
        tx.execute(
            "UPDATE chat_nodes SET user = ? WHERE chat = ? AND node = ?", (parts, node.chat, node.turn)
        )
        if node.node != node.turn:
            # What an operation had made of the old words.
            tx.execute(
                "UPDATE chat_nodes SET user = '[]' WHERE chat = ? AND node = ?", (node.chat, node.node)
            )
    else:
        tx.execute(
            "UPDATE chat_nodes SET parts = ? WHERE chat = ? AND node = ?", (parts, node.chat, node.node)
        )
    _forget_recorded(tx, node, data.role)


def hide_message(event: Applied, tx: Tx) -> None:
    data = cast(ev.MessageHidden, event.data)
    node = _message(event, tx, data)
    bit, at = ROLES[data.role], node.turn if data.role == "user" else node.node
    change = "hidden | ?" if data.hidden else "hidden & ~?"
    tx.execute(f"UPDATE chat_nodes SET hidden = {change} WHERE chat = ? AND node = ?", (bit, node.chat, at))
    _forget_recorded(tx, node, data.role)


def _message(event: Applied, tx: Tx, data: ev.MessageRevised | ev.MessageHidden) -> Node:
    """Errors: `NotFound`, `Conflict`, `InvalidEvent`."""
    if data.role not in ROLES:
        raise InvalidEvent("role of a message", expected="user or assistant", got=data.role)
    branch_of(event, tx, data.branch)
    node = _load_present(event, tx, data.node)
    first = load(tx, event, node.turn)
    has_words = bool(node.user_parts() or first.user_parts())
    if not (has_words if data.role == "user" else node.has_reply):
        raise NotFound(f"turn {node.number} of chat {event.stream.id!r} has no message of the {data.role}")
    _check_idle(event, tx, "turn" if data.role == "user" else "node", node)
    return node


def _load_present(event: Applied, tx: Tx, number: int) -> Node:
    node = load(tx, event, number)
    if node.deleted:
        raise NotFound(f"turn {node.number} of chat {event.stream.id!r} was deleted")
    return node


def _check_idle(event: Applied, tx: Tx, first: str, node: Node) -> None:
    """Errors: `Conflict` while a run is at work that goes on from what is edited.

    Cost: only while a branch of the chat is busy, O(nodes below).
    """
    waiting_for = tx.execute("SELECT run FROM chat_branches WHERE chat = ? AND run <> ''", (node.chat,))
    if all(is_over(tx, event.stream.tenant, run) for (run,) in waiting_for.fetchall()):
        return
    rows = tx.execute(
        f"{_BELOW.format(first=first)}SELECT b.name, b.run FROM chat_branches b"
        " JOIN below ON b.head = below.node WHERE b.chat = ? AND b.run <> ''",
        (node.chat, getattr(node, first), node.chat, node.chat),
    )
    for name, run in rows.fetchall():
        if not is_over(tx, event.stream.tenant, run):
            raise ChatConflict(
                f"branch {name!r} of chat {event.stream.id!r} is busy: run {run} has not ended",
                hint="Wait for it, or cancel it, and edit then.",
                run=run,
                busy=True,
            )


_RECORDED_FROM = "chat = ? AND node >= ? AND base > ''"
"""The nodes from one on that a run has recorded: what is below was made later, and has a greater number."""


def _forget_recorded(tx: Tx, node: Node, role: str) -> None:
    """Have prompts made anew from a changed message on, of the messages as they are now.

    Cost: only if a run has recorded some of them, O(nodes below).
    """
    column = "turn" if role == "user" else "node"
    first = getattr(node, column)
    if tx.one(f"SELECT 1 FROM chat_nodes WHERE {_RECORDED_FROM} LIMIT 1", (node.chat, first)) is None:
        return
    tx.execute(
        f"{_BELOW.format(first=column)}UPDATE chat_nodes SET base = '', shown = 0, apart = 0"
        f" WHERE {_RECORDED_FROM} AND node IN (SELECT node FROM below)",
        (node.chat, first, node.chat, node.chat, first),
    )


# Deletions


_EMPTY = "user = '[]', parts = '[]', hidden = 0, deleted = 1, base = '', shown = 0, apart = 0"


def delete_turn(event: Applied, tx: Tx) -> None:
    data = cast(ev.TurnDeleted, event.data)
    branch_of(event, tx, data.branch)
    first = load(tx, event, data.turn)
    if first.node != first.turn:
        raise InvalidEvent("a turn is named by its first node", expected=first.turn, got=first.node)
    if not tx.one(
        "SELECT 1 FROM chat_nodes WHERE chat = ? AND turn = ? AND deleted = 0", (first.chat, first.turn)
    ):
        raise NotFound(f"turn {first.number} of chat {event.stream.id!r} was deleted")
    _check_idle(event, tx, "turn", first)
    _forget_recorded(tx, first, "user")
    _move_heads(event, tx, "turn", first.turn, head=_present_above(event, tx, first.parent))
    tx.execute(f"UPDATE chat_nodes SET {_EMPTY} WHERE chat = ? AND turn = ?", (first.chat, first.turn))


def delete_variant(event: Applied, tx: Tx) -> None:
    data = cast(ev.VariantDeleted, event.data)
    branch_of(event, tx, data.branch)
    node = _load_present(event, tx, data.node)
    if not node.variant:
        raise NotFound(f"turn {node.number} of chat {event.stream.id!r} has no reply to delete")
    _check_idle(event, tx, "node", node)
    if tx.one(
        f"{_BELOW.format(first='parent')}SELECT 1 FROM below JOIN chat_nodes n ON n.chat = ?"
        " AND n.node = below.node WHERE n.deleted = 0 LIMIT 1",
        (node.chat, node.node, node.chat, node.chat),
    ):
        raise ChatConflict(
            f"other turns of chat {event.stream.id!r} were said after this reply",
            hint="Delete the turn (the turns after it stay), or revise the reply.",
        )
    other = tx.one(
        "SELECT node FROM chat_nodes WHERE chat = ? AND turn = ? AND node <> ? AND deleted = 0"
        " AND parts <> '[]' ORDER BY abs(variant - ?), variant LIMIT 1",
        (node.chat, node.turn, node.node, node.variant),
    )
    first = load(tx, event, node.turn)
    if other is not None:
        head = other[0]
    elif first.user_parts():
        head = first.node
    else:
        head = _present_above(event, tx, node.parent)
    if data.erases:
        _forget_recorded(tx, node, "user")
    _move_heads(event, tx, "node", node.node, head=head)
    tx.execute(f"UPDATE chat_nodes SET {_EMPTY} WHERE chat = ? AND node = ?", (node.chat, node.node))


def _present_above(event: Applied, tx: Tx, node: int) -> int:
    """The nearest node from here up that is not deleted; 0 for the beginning."""
    while node:
        one = load(tx, event, node)
        if not one.deleted:
            return node
        node = one.parent
    return 0


def _move_heads(event: Applied, tx: Tx, column: str, number: int, *, head: int) -> None:
    """Put the branches that end where something is deleted elsewhere; they wait for no run from then on."""
    tx.execute(
        "UPDATE chat_branches SET head = ?, run = '', trigger = '', job = '', made = 0 WHERE chat = ?"
        f" AND head IN (SELECT node FROM chat_nodes WHERE chat = ? AND {column} = ?)",
        (head, event.stream_id, event.stream_id, number),
    )


def delete_branch(event: Applied, tx: Tx) -> None:
    data = cast(ev.BranchDeleted, event.data)
    branch = branch_of(event, tx, data.branch)
    if data.branch == MAIN:
        raise ChatConflict(
            f"the branch {MAIN!r} of chat {event.stream.id!r} stays as long as the chat",
            hint="Delete turns of it, or the chat.",
        )
    check_free(event, tx, branch)
    tx.execute("DELETE FROM chat_branches WHERE chat = ? AND name = ?", (event.stream_id, data.branch))
    tx.execute("DELETE FROM chat_sessions WHERE chat = ? AND branch = ?", (event.stream_id, data.branch))
    if turn := _first_alone(event, tx, branch.head):
        tx.execute(
            f"{_BELOW.format(first='turn')}UPDATE chat_nodes SET {_EMPTY}"
            " WHERE chat = ? AND node IN (SELECT node FROM below)",
            (event.stream_id, turn, event.stream_id, event.stream_id),
        )


def _first_alone(event: Applied, tx: Tx, head: int) -> int:
    """The first turn of a path that no branch shows any more; 0 for none. Cost: O(turns of the branches)."""
    kept = {
        row[0]
        for row in tx.execute(
            "WITH RECURSIVE up(node, parent, turn) AS (SELECT n.node, n.parent, n.turn FROM chat_branches b"
            " JOIN chat_nodes n ON n.chat = b.chat AND n.node = b.head WHERE b.chat = ?"
            " UNION SELECT n.node, n.parent, n.turn FROM up JOIN chat_nodes n ON n.chat = ?"
            " AND n.node = up.parent) SELECT turn FROM up",
            (event.stream_id, event.stream_id),
        )
    }
    path = tx.execute(
        "WITH RECURSIVE up(parent, turn, depth) AS (SELECT parent, turn, 1 FROM chat_nodes"
        " WHERE chat = ? AND node = ? UNION ALL SELECT n.parent, n.turn, up.depth + 1 FROM up"
        " JOIN chat_nodes n ON n.chat = ? AND n.node = up.parent) SELECT turn FROM up ORDER BY depth",
        (event.stream_id, head, event.stream_id),
    )
    alone = takewhile(lambda turn: turn not in kept, (turn for (turn,) in path))
    return next(iter(deque(alone, maxlen=1)), 0)


def delete_chat(event: Applied, tx: Tx) -> None:
    check_open(event, tx)
    for (name,) in tx.execute("SELECT name FROM chat_branches WHERE chat = ?", (event.stream_id,)):
        check_free(event, tx, branch_of(event, tx, name))
    for table in ("chat_branches", "chat_nodes", "chat_sessions", "chat_scopes", "chat_art"):
        tx.execute(f"DELETE FROM {table} WHERE chat = ?", (event.stream_id,))
    tx.execute("UPDATE chats SET deleted = 1, title = '', branches = 0 WHERE id = ?", (event.stream_id,))


def label_chat(event: Applied, tx: Tx) -> None:
    data = cast(ev.ChatLabeled, event.data)
    check_open(event, tx)
    tx.execute(
        "UPDATE chats SET title = ?, archived = ? WHERE id = ?",
        (data.title or "", int(data.archived), event.stream_id),
    )
