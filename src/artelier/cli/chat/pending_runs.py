"""A run of the chat that waits: for a person, money, or a process that has its tools. It is left waiting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from artelier.errors import NotFound

if TYPE_CHECKING:
    from artelier.cli.chat.repl import Talk

_LEFT_BEHIND = ("pending", "running")
"""How a run stands that a process began, and did not end, while nobody asked it to wait."""


async def is_left_behind(desk: Any, run_id: str) -> bool:
    """Return True if a run that has not ended can go on here, without anybody being asked."""
    from artelier.chat.session.missing_tools import tools_missing

    try:
        status = (await desk.show(run_id))["status"]
    except NotFound:  # it was asked for, and never began
        return True
    return status in _LEFT_BEHIND and not await tools_missing(desk, run_id)


async def tell(talk: Talk, run_id: str) -> None:
    """Print what a waiting run waits for, and how it goes on; nothing is done with it."""
    if not talk.call.as_json:
        await advise(talk, run_id)
        return
    from artelier.chat.session.missing_tools import tools_missing
    from artelier.chat.turn.turn_runner import recorded_job, result_of
    from artelier.cli.chat.reply import facts_of, plain_turn

    desk = talk.session.desk
    job = await recorded_job(desk, run_id)
    assert job is not None, "a run that waits has begun"
    result = await result_of(desk.services, desk.id, run_id, job)
    turn = plain_turn(talk.session, result, await facts_of(talk.session, result))
    run = await desk.show(run_id)
    told = {**turn, "approvals": run["approvals"], "tools_missing": await tools_missing(desk, run_id)}
    talk.data(await talk.seen(told))


async def advise(talk: Talk, run_id: str) -> None:
    """Print the state of a run, its question, and the next steps."""
    from artelier.chat.session.missing_tools import tools_missing
    from artelier.cli.next_steps import next_steps, question_lines, standing

    screen, run = talk.screen, await talk.seen(await talk.session.desk.show(run_id))
    screen.note(f"{run_id} is {standing(run)}", "bold yellow")
    for asked in run["approvals"]:
        question, *about = question_lines(asked)
        screen.note(f"? {question}", "yellow")
        for line in about:
            screen.note(line)
    missing = await tools_missing(talk.session.desk, run_id)
    if not missing or run["approvals"]:
        for step in await next_steps(talk.call, talk.kernel, run):
            screen.note(step)
    if missing:
        screen.note(
            f"its tools are not here ({', '.join(missing)[:300]}): go on with the chat in the program that"
            " has them, or here with /cancel"
        )
    elif talk.is_asked:
        screen.note("then here: /resume, or /cancel")
