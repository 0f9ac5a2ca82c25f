"""Branches of chats as the view keeps them, and the rules that refuse what a branch cannot take now."""

from __future__ import annotations

from typing import Any

from artelier.chat.rows.nodes import Node
from artelier.errors import Conflict, NotFound
from artelier.kernel.queries.runs import is_over
from artelier.log import Applied, Tx
from artelier.operations import events as ev

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


_BRANCH = ("name", "head", "run", "trigger", "made")


def branch_of(event: Applied, tx: Tx, name: str) -> dict[str, Any]:
    """Errors: `NotFound`."""
    row = tx.one(
        f"SELECT {', '.join(_BRANCH)} FROM chat_branches WHERE chat = ? AND name = ?", (event.stream_id, name)
    )
    if row is None:
        check_open(event, tx)
        raise NotFound(f"chat {event.stream.id!r} has no branch {name!r}")
    return dict(zip(_BRANCH, row, strict=True))


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


def check_free(event: Applied, tx: Tx, branch: dict[str, Any]) -> None:
    """Errors: `Conflict` while the run that a branch waits for has not ended."""
    if branch["run"] and not is_over(tx, event.stream.tenant, branch["run"]):
        raise ChatConflict(
            f"branch {branch['name']!r} of chat {event.stream.id!r} is busy:"
            f" run {branch['run']} has not ended",
            hint="Wait for it, or bring it to its end: session.resume(), session.cancel()."
            " Beside it the chat goes on in a branch from an earlier turn: session.branch(at_turn=N).",
            run=branch["run"],
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


def waiting(event: Applied, tx: Tx, name: str, run: str) -> dict[str, Any]:
    """The branch that waits for a run. Errors: `Conflict`, `NotFound`."""
    branch = branch_of(event, tx, name)
    if not run or branch["run"] != run:
        raise ChatConflict(
            f"branch {name!r} of chat {event.stream.id!r} does not wait for run {run!r}",
            expected=branch["run"] or "no run",
        )
    return branch


def run_name(chat: str, number: int) -> str:
    """Return what the runs of a chat are called, from 1."""
    return f"{chat}/r{number:06d}"


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
