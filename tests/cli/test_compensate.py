"""`artelier runs compensate`, and `--replay fork_on_drift`: from the command line, over several processes."""

from __future__ import annotations

from tests.cli.conftest import Shell

FLOW = '''
from artelier import ToolContext, tool


def book(line):
    with open("book.txt", "a") as file:
        file.write(line + "\\n")


async def refund(arguments, result, ctx: ToolContext):
    if arguments["to"] == "lost":
        raise ConnectionError("the line went dead")
    book(f"undo {arguments['to']} {result} {ctx.idempotency_key}")


@tool(side_effect=True, compensate=refund)
async def pay(to: str, ctx: ToolContext) -> str:
    """Pay."""
    book(f"pay {to}")
    return f"receipt of {to}"


async def main(run):
    for name in ("ann", "bob"):
        await run.step_tool("pay", {"to": name}, key=name)
    raise RuntimeError("no room left")


async def lost(run):
    for name in ("ann", "lost"):
        await run.step_tool("pay", {"to": name}, key=name)


async def broken(run):
    await lost(run)
    raise RuntimeError("no room left")


async def first(run):
    await run.step_tool("pay", {"to": "ann"})
    await run.approve("go on?")


async def second(run):
    return (await run.step_tool("pay", {"to": "ANN"})).value
'''


def written(shell: Shell) -> list[str]:
    return (shell.folder / "book.txt").read_text().splitlines()


def test_compensate_undoes_a_failed_run_once_and_it_cannot_be_retried(shell: Shell) -> None:
    (shell.folder / "trip.py").write_text(FLOW)
    assert shell("run", "trip.py:main", "--run-id", "trip").code == 1

    blind = shell("runs", "compensate", "trip", "--json")
    told = shell("runs", "compensate", "trip")
    assert "nothing" not in told.err and "compensate trip --tools trip.py" in told.err
    assert blind.json == {"run_id": "trip", "undone": [], "not_undone": ["bob", "ann"]}
    done = shell("runs", "compensate", "trip", "--tools", "trip.py", "--note", "called off")
    again = shell("runs", "compensate", "trip", "--tools", "trip.py", "--json")

    assert (done.code, done.out.splitlines()) == (0, ["undone bob", "undone ann"])
    assert again.json["undone"] == []
    assert written(shell)[2:] == [
        "undo bob receipt of bob default/trip:bob/undo",
        "undo ann receipt of ann default/trip:ann/undo",
    ]
    assert shell("runs", "show", "trip", "--json").json["status"] == "failed"
    advised = shell("runs", "show", "trip").err
    assert "retry" not in advised and "undone" in advised
    refused = shell("retry", "trip")
    assert refused.code == 1 and "undone" in refused.err
    assert shell("verify").code == 0


def test_show_says_how_to_undo_what_still_stands(shell: Shell) -> None:
    (shell.folder / "trip.py").write_text(FLOW)
    assert shell("run", "trip.py:broken", "--run-id", "trip").code == 1

    assert shell("runs", "compensate", "trip", "--tools", "trip.py").code == 5
    before = shell("runs", "show", "trip").err
    shell("reconcile", "trip", "lost/undo", "--succeeded", "null")
    between = shell("runs", "show", "trip").err
    assert shell("runs", "compensate", "trip", "--tools", "trip.py").code == 0
    after = shell("runs", "show", "trip").err

    for still in (before, between):
        assert "artelier runs compensate trip" in still and "start a new run" not in still
    assert "start a new run" in after


def test_an_undone_run_of_which_all_was_erased_is_shown(shell: Shell) -> None:
    (shell.folder / "trip.py").write_text(FLOW)
    assert shell("run", "trip.py:broken", "--run-id", "trip").code == 1
    assert shell("runs", "compensate", "trip", "--tools", "trip.py").code == 5
    assert shell("erase", "--tenant", "default", "--yes").code == 0

    shown = shell("runs", "show", "trip")

    assert shown.code == 0, shown.err
    assert "artelier runs compensate" not in shown.err


def test_tail_tells_what_was_undone_and_has_words_for_every_event(shell: Shell) -> None:
    (shell.folder / "trip.py").write_text(FLOW)
    shell("run", "trip.py:main", "--run-id", "trip")
    shell("runs", "compensate", "trip", "--tools", "trip.py", "--note", "called {off}\x1b[2J")

    told = shell("runs", "tail", "trip", "--after", "0").out

    assert "2 calls to be undone, asked by " in told and ": called {off}" in told
    assert 'bob/undo  undoes bob: pay(to="bob")' in told
    assert "\x1b" not in told
    events = shell("runs", "tail", "trip", "--after", "0", "--json").json["items"]
    assert not [line for line in told.splitlines() if line.endswith(tuple(e["kind"] for e in events))]


def test_an_unknown_undoing_is_settled_and_the_command_goes_on(shell: Shell) -> None:
    (shell.folder / "trip.py").write_text(FLOW)
    shell("run", "trip.py:lost", "--run-id", "trip")

    held = shell("runs", "compensate", "trip", "--tools", "trip.py", "--json")
    assert held.code == 5
    assert held.json == {"run_id": "trip", "status": "unknown_outcome", "reason": "lost/undo"}
    assert "reconcile" in held.err
    assert "compensate trip --tools trip.py" in held.err
    assert shell("reconcile", "trip", "lost/undo", "--failed", "they kept it").code == 0
    failed = shell("runs", "compensate", "trip", "--tools", "trip.py")
    assert failed.code == 5  # a new attempt, whose outcome is unknown as well
    assert shell("reconcile", "trip", "lost/undo/2", "--succeeded", "null").code == 0
    done = shell("runs", "compensate", "trip", "--tools", "trip.py", "--json")

    assert done.json["undone"] == ["ann"]
    assert shell("runs", "compensate", "nothing").code == 6
    assert shell("runs", "compensate", "trip", "--tools", "none.py").code == 6


REFUSING = FLOW.replace(
    'raise ConnectionError("the line went dead")',
    'raise __import__("artelier.errors").errors.ToolFailed("they kept it")',
)


def test_a_failed_undoing_names_the_command_that_tries_it_again(shell: Shell) -> None:
    (shell.folder / "trip.py").write_text(REFUSING)
    shell("run", "trip.py:lost", "--run-id", "trip")

    failed = shell("runs", "compensate", "trip", "--tools", "trip.py")

    assert failed.code == 1
    assert "step lost of trip was not undone: they kept it" in failed.err
    assert "artelier runs compensate trip --tools trip.py" in failed.err


def test_a_changed_run_goes_on_in_a_fork_under_its_first_name(shell: Shell) -> None:
    (shell.folder / "trip.py").write_text(FLOW)
    assert shell("run", "trip.py:first", "--run-id", "trip").code == 3

    strict = shell("run", "trip.py:second", "--run-id", "other", "--replay", "whatever")
    drifted = shell("run", "trip.py:second", "--run-id", "trip", "--replay", "fork_on_drift", "--json")
    again = shell("run", "trip.py:second", "--run-id", "trip", "--replay", "fork_on_drift", "--json")

    assert strict.code == 2
    assert drifted.code == 0
    assert (drifted.json["id"], drifted.json["result"]) == ("trip.drift-1", "receipt of ANN")
    assert again.json["id"] == "trip.drift-1"
    assert shell("runs", "show", "trip", "--json").json["reason"] == "drifted"
    assert written(shell) == ["pay ann", "pay ANN"]
