"""`artelier token`: made once, listed by name, taken back."""

from __future__ import annotations

from pathlib import Path

from artelier.server.security.users import ProgramTokens
from tests.cli.conftest import Shell


def test_a_token_is_shown_once_and_known_by_its_hash(shell: Shell, tmp_path: Path) -> None:
    made = shell("token", "new", "notebook")

    token = made.out.strip()
    assert made.code == 0, made.err
    tokens = ProgramTokens(tmp_path / ".artelier" / "state.db.tokens")
    found = tokens.find(token)
    assert found is not None
    assert found.name == "notebook"
    assert tokens.find(token[:-1]) is None
    assert token not in (tmp_path / ".artelier" / "state.db.tokens").read_text()
    assert (tmp_path / ".artelier" / "state.db.tokens").stat().st_mode & 0o077 == 0
    assert "notebook" in shell("token", "list").out
    assert shell("token", "new", "notebook").code != 0
    assert shell("token", "revoke", "notebook").code == 0
    assert tokens.find(token) is None
    assert shell("token", "revoke", "notebook").code != 0


def test_a_broken_file_of_tokens_knows_nobody(shell: Shell) -> None:
    shell.write(".artelier/state.db.tokens", "{")

    ran = shell("token", "list")

    assert ran.code != 0
    assert "the tokens of programs cannot be read" in ran.err
