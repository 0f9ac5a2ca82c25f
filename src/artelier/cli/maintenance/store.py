"""`artelier store`: a whole database in another place."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from artelier.cli.call import CliCall
from artelier.cli.command import command, group

if TYPE_CHECKING:
    from artelier.log.blobs import Driving
    from artelier.log.store_copy import Copied

NOTED_EVERY_S = 2.0

app = group("store", help="Copy a whole database to another place, file or server.")


@command(app, name="copy", example="artelier store copy state.db postgresql://anna@/artelier")
def copy(
    call: CliCall,
    source: Annotated[str, typer.Argument(metavar="FROM", help="A database: a path or postgresql://...")],
    target: Annotated[str, typer.Argument(metavar="TO", help="An empty place: a path or postgresql://...")],
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a copy that was interrupted.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be copied.")] = False,
) -> None:
    """Copy a database to another place, with the same events and heads.

    Every hash chain is checked on the way, and the copy is verified before anybody can open it. Stop the
    workers and servers of FROM first: its runs go on at TO. FROM is only read; --db plays no part.
    """
    from artelier.app import VIEWS
    from artelier.log.places import label_of
    from artelier.log.store_copy import copy_store
    from artelier.pii.vault import sealer_from

    begun = time.monotonic()
    with call.screen.working(f"copying {label_of(source)} to {label_of(target)}") as note:
        copied = copy_store(
            call.existing(source),
            target,
            VIEWS,
            sealer=sealer_from(os.environ),
            is_driving=_make_check(source),
            resume=resume,
            dry=dry_run,
            progress=_slow_down(note),
        )
    took_s = time.monotonic() - begun
    if call.print_json(copied, took_s=round(took_s, 3)):
        return
    _show(call, copied, label_of(source), label_of(target), took_s)


def _slow_down(note: Callable[[str], None]) -> Callable[[str], None]:
    """Return a function that says what is being done, not more often than somebody reads it."""
    said = time.monotonic()

    def progress(text: str) -> None:
        nonlocal said
        if time.monotonic() - said > NOTED_EVERY_S:
            said = time.monotonic()
            note(text)

    return progress


def _make_check(source: str) -> Driving:
    """Return the check of which leases of a store still hold."""
    from functools import cache

    from artelier.log.contract import LeaseEnd
    from artelier.log.places import is_address, read_server_facts
    from artelier.process import is_dead, uptime_us

    dead, uptime = cache(is_dead), cache(uptime_us)
    now_us = read_server_facts(source).at_us if is_address(source) else time.time_ns() // 1_000

    def is_driving(holder: str, end: Sequence[Any]) -> bool:
        return not dead(holder) and not LeaseEnd(*end).is_over(now_us=now_us, uptime_us=uptime(holder))

    return is_driving


def _show(call: CliCall, copied: Copied, source: str, target: str, took_s: float) -> None:
    resumed = f", {copied.resumed:,} of them before" if copied.resumed else ""
    call.screen.facts(
        [
            ("from", source),
            ("to", target),
            ("events", f"{copied.events:,}{resumed}"),
            ("commits", f"{copied.commits:,}"),
            ("contents", f"{copied.contents:,}"),
            ("other rows", "" if copied.dry else f"{copied.rows:,}"),
            ("head", copied.head),
            ("took", "" if copied.dry else f"{took_s:.1f} s"),
        ]
    )
    if copied.dry:
        call.screen.line("nothing was copied: this was a dry run", "bold")
    else:
        call.screen.line("copied and verified", "bold")
