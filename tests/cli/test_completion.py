"""Tab: what a shell is proposed, through its own script."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Shell

BIN = Path(sys.executable).parent

needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not here")


def in_bash(shell: Shell, *words: str, set_up: str = "") -> list[str]:
    """What bash proposes for the last of the words, with the script that is shown for it."""
    script = shell("--show-completion", "bash").out
    quoted = " ".join(f"'{word}'" for word in ("artelier", *words))
    code = (
        f"{script}\n{set_up}\nCOMP_WORDS=({quoted}); COMP_CWORD={len(words)}\n"
        '_artelier_completion artelier\nprintf "%s\\n" "${COMPREPLY[@]}"'
    )
    environ = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    ran = subprocess.run(
        ["bash", "--norc", "-c", code],
        env=environ,
        cwd=shell.folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert ran.stderr == ""
    return ran.stdout.split()


def worked(shell: Shell) -> None:
    """A database with a run."""
    shell.write("work/a.txt", "hello")
    shell("do", "What is in a.txt?", "--solo", "--workspace", "work", "--run-id", "q3:report")
    assert shell("runs", "list", "--json").json["items"][0]["id"] == "q3:report"


@needs_bash
def test_bash_completes_commands_and_options(shell: Shell) -> None:
    assert in_bash(shell, "ar") == ["artifacts"]
    assert set(in_bash(shell, "runs", "re")) == {"resume", "retry", "reconcile", "replay"}
    assert in_bash(shell, "doctor", "--onl") == ["--online"]


@needs_bash
def test_bash_completes_what_is_in_the_database(shell: Shell) -> None:
    worked(shell)

    assert in_bash(shell, "runs", "show", "q3:") == ["q3:report"]
    assert in_bash(shell, "do", "x", "--model", "off") == ["offline"]
    assert in_bash(shell, "runs", "list", "--tenant", "def") == ["default"]
    assert in_bash(shell, "runs", "show", "--db", "none/state.db", "q") == []


@needs_bash
def test_a_broken_database_or_settings_file_proposes_nothing(shell: Shell) -> None:
    shell.write("broken.db", "no database at all")
    assert in_bash(shell, "runs", "show", "--db", "broken.db", "") == []

    shell.write("artelier.toml", "this is no toml")
    assert in_bash(shell, "runs", "show", "") == []


def test_proposals_load_nothing_heavy(shell: Shell) -> None:
    worked(shell)
    code = (
        "import atexit, sys\n"
        "atexit.register(lambda: print('heavy:', {'duckdb', 'fastapi', 'rich', 'artelier.app',"
        " 'artelier.kernel'} & set(sys.modules), file=sys.stderr))\n"
        "from artelier.cli import main\nmain(['x'])"
    )
    environ = {
        **os.environ,
        "_ARTELIER_COMPLETE": "complete_bash",
        "COMP_WORDS": "artelier\nruns\nshow\nq3",
        "COMP_CWORD": "3",
    }
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env=environ,
        cwd=shell.folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert ran.stdout.split() == ["q3:report"]
    assert "heavy: set()" in ran.stderr


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_each_shell_has_its_script_and_can_install_it(
    shell: Shell, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(shell.folder))

    shown = shell("--show-completion", name)
    installed = shell("--install-completion", name)

    assert (shown.code, installed.code) == (0, 0)
    assert "_ARTELIER_COMPLETE" in shown.out
    written = [file for file in shell.folder.rglob("*") if file.is_file()]
    assert any("_ARTELIER_COMPLETE" in file.read_text() for file in written)


def test_another_shell_is_refused(shell: Shell) -> None:
    assert shell("--show-completion", "tcsh").code == 2


def asked(shell: Shell, name: str, line: str, **more: str) -> subprocess.CompletedProcess[str]:
    """What `artelier` answers when the script of a shell asks about a line."""
    environ = {**os.environ, "_ARTELIER_COMPLETE": f"complete_{name}", "_TYPER_COMPLETE_ARGS": line, **more}
    return subprocess.run(
        [BIN / "artelier"],
        env=environ,
        cwd=shell.folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_zsh_is_told_commands_and_what_is_in_the_database(shell: Shell) -> None:
    worked(shell)
    script = shell("--show-completion", "zsh").out
    assert '_TYPER_COMPLETE_ARGS="${words[1,$CURRENT]}" _ARTELIER_COMPLETE=complete_zsh' in script

    commands = asked(shell, "zsh", "artelier runs re").stdout
    runs = asked(shell, "zsh", "artelier runs show q3:").stdout

    assert commands.startswith('_arguments \'*: :(("resume":')
    assert '"reconcile":' in commands and '"list"' not in commands
    assert "report" in runs


def test_fish_is_told_commands_and_what_is_in_the_database(shell: Shell) -> None:
    worked(shell)
    script = shell("--show-completion", "fish").out
    assert "_TYPER_COMPLETE_FISH_ACTION=get-args" in script

    def told(line: str) -> list[str]:
        lines = asked(shell, "fish", line, _TYPER_COMPLETE_FISH_ACTION="get-args").stdout
        return [one.split("\t")[0] for one in lines.splitlines()]

    assert set(told("artelier runs re")) == {"resume", "retry", "reconcile", "replay"}
    assert told("artelier runs show q3:") == ["q3:report"]
    there = asked(shell, "fish", "artelier ru", _TYPER_COMPLETE_FISH_ACTION="is-args")
    assert there.returncode == 0


@pytest.mark.parametrize("name", ["zsh", "fish"])
@pytest.mark.parametrize(
    "line",
    [
        "artelier runs show '",
        'artelier runs show "',
        "artelier runs show $(touch pwned)",
        "artelier runs show `touch pwned`",
        "artelier runs show \\",
        "artelier nothing like this",
        "",
        "artelier runs show \N{SNOWMAN}\x1b[2J",
        "artelier --db",
    ],
)
def test_a_half_written_line_proposes_something_or_nothing_and_does_nothing(
    shell: Shell, name: str, line: str
) -> None:
    ran = asked(shell, name, line, _TYPER_COMPLETE_FISH_ACTION="get-args")

    assert "Traceback" not in ran.stderr
    assert not list(shell.folder.rglob("pwned"))


@needs_bash
def test_bash_itself_loads_what_was_installed(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the file that a new terminal reads to the word under the cursor."""
    monkeypatch.setenv("HOME", str(shell.folder))
    worked(shell)
    assert shell("--install-completion", "bash").code == 0
    code = (
        'source "$HOME/.bashrc"; complete -p artelier >/dev/null || exit 9\n'
        "COMP_WORDS=(artelier runs show q3:); COMP_CWORD=3\n"
        'f=$(complete -p artelier | sed "s/.*-F \\([^ ]*\\).*/\\1/"); $f artelier\n'
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    environ = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(shell.folder)}
    ran = subprocess.run(
        ["bash", "--norc", "-c", code],
        env=environ,
        cwd=shell.folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert (ran.returncode, ran.stdout.split(), ran.stderr) == (0, ["q3:report"], "")
