"""`artelier doctor`: what it looks at, what it says, and that it shows no secret."""

from __future__ import annotations

import socket
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from artelier.log.sqlite.schema import SCHEMA_VERSION
from tests.cli.conftest import Ran, Shell
from tests.tools.web import Says, served


def findings(ran: Ran) -> dict[str, Any]:
    return {one["what"]: (one["status"], one["said"]) for one in ran.json["findings"]}


def looked(shell: Shell, *words: str) -> dict[str, Any]:
    return findings(shell("doctor", "--port", "0", "--json", *words))


def test_it_says_who_may_be_called_and_how_fast(shell: Shell) -> None:
    shell.write(
        "artelier.toml",
        '[model]\nallow = ["offline", "openai:*"]\n[limits.rates.openai]\nrequests = 60\n'
        '[policy]\napprove_risk = "high"\n[tools.http]\nallow = ["https://api.example.com/v1/"]\n',
    )

    found = looked(shell)

    assert found["personal data"][0] == "note"
    assert found["models"] == ("ok", "allowed: offline, openai:*")
    assert found["rates"] == ("ok", "a minute, openai: 60 requests")
    assert found["approvals"][1].startswith("tools of risk high")
    assert found["http_json"] == ("ok", "https://api.example.com/v1/")


def test_it_says_whether_personal_data_is_replaced_and_what_else_is_looked_for(shell: Shell) -> None:
    shell.write("artelier.toml", "[pii]\nenabled = true\n[pii.patterns]\nCASE = 'AZ [0-9]+'\n")
    shell.set("ARTELIER_VAULT_KEY", "0" * 64)

    status, said = looked(shell)["personal data"]

    assert status == "ok" and "replaced" in said and said.endswith("CASE")


def test_a_default_model_that_is_not_allowed_is_wrong(shell: Shell) -> None:
    shell.write("artelier.toml", '[model]\nallow = ["openai:*"]\n')

    ran = shell("doctor", "--port", "0", "--json")

    assert ran.code == 1
    assert findings(ran)["models"][0] == "wrong"


def test_a_missing_secret_of_an_allowed_server_is_wrong_and_a_present_one_is_not_shown(shell: Shell) -> None:
    shell.write(
        "artelier.toml",
        "[tools.http]\nallow = [{ url = 'https://a.example/', "
        "headers = { Authorization = 'Bearer env:A_TOKEN' } }]\n",
    )

    assert looked(shell)["http_json"][0] == "wrong"
    shell.set("A_TOKEN", "canary-secret")
    ran = shell("doctor", "--port", "0", "--json")

    assert findings(ran)["http_json"] == ("ok", "https://a.example/")
    assert "canary" not in ran.out + ran.err


def test_personal_data_without_a_key_is_wrong_and_the_key_is_never_shown(shell: Shell) -> None:
    shell.write("artelier.toml", "[pii]\nenabled = true\n")
    assert looked(shell)["vault key"][0] == "wrong"

    shell.set("ARTELIER_VAULT_KEY", "canary canary canary canary")
    ran = shell("doctor", "--port", "0", "--json")

    assert findings(ran)["vault key"][0] == "ok"
    assert "canary" not in ran.out + ran.err


def test_a_database_of_another_clock_and_with_left_runs_is_noticed(shell: Shell) -> None:
    assert shell("tenants", "update", "acme", "--budget-usd", "1").code == 0
    assert looked(shell)["clock"][0] == "ok"
    assert looked(shell)["leases"] == ("ok", "0 runs are driven now")

    path = shell.folder / ".artelier/state.db"
    db = sqlite3.connect(path)
    db.execute("INSERT INTO leases(stream, holder, expires_us) VALUES ('default/main/run:x', 'gone', 5)")
    db.commit()
    assert looked(shell)["leases"][0] == "note"
    db.execute("DELETE FROM leases")
    db.commit()
    db.close()

    assert looked(shell)["database"][1].startswith(str(path.relative_to(shell.folder)))


def test_code_runs_in_its_cage(shell: Shell) -> None:
    assert looked(shell)["sandbox"] == ("ok", "code runs in its cage")


def test_nobody_is_called_unless_told_to(shell: Shell) -> None:
    shell.set("OPENAI_API_KEY", "sk-canary")
    with served(lambda seen: Says()) as site:
        shell.set("OPENAI_BASE_URL", site.url)
        assert not [what for what in looked(shell) if what.startswith("online")]
        assert site.seen == []


def test_a_provider_that_answers_is_found_without_its_key(shell: Shell) -> None:
    shell.set("OPENAI_API_KEY", "sk-canary")
    with served(lambda seen: Says(status=401)) as site:
        shell.set("OPENAI_BASE_URL", site.url)
        found = looked(shell, "--online")

    assert found["online openai"] == ("ok", "localhost answers")
    assert "sk-canary" not in str(site.seen)

    assert looked(shell, "--online")["online openai"][0] == "wrong", "nobody is there any more"


def test_every_setting_is_shown_with_its_source(shell: Shell) -> None:
    shell.write(
        "artelier.toml",
        '[limits]\nusd = "0.50"\nsteps = 5\n[limits.rates."*"]\nrequests = 9\n[prices."ollama:q"]\n'
        "input = 0\noutput = 0.1\n",
    )
    shell.set("ARTELIER_LIMITS_STEPS", "7")

    ran = shell("doctor", "--settings", "--json")

    found = {one["key"]: (one["value"], one["source"]) for one in ran.json["items"]}
    assert found["model.default"] == ("offline", "default")
    assert found["limits.usd"] == ("0.50", "artelier.toml:2")
    assert found["limits.steps"] == ("7", "ARTELIER_LIMITS_STEPS")
    assert found['limits.rates."*".requests'] == ("9", "artelier.toml:5")
    assert found['prices."ollama:q".output'][1] == "artelier.toml:8"
    assert "artelier.toml:2" in shell("doctor", "--settings").out


def test_settings_with_a_mistake_are_not_shown(shell: Shell) -> None:
    shell.write("artelier.toml", "[limits]\nusdd = 5\n")

    ran = shell("doctor", "--settings", "--json")

    assert ran.code == 2
    assert "usdd" in ran.error["message"]


@pytest.mark.corrupts
def test_a_clock_that_was_set_back_is_noticed(shell: Shell) -> None:
    assert shell("tenants", "update", "acme", "--budget-usd", "1").code == 0
    db = sqlite3.connect(shell.folder / ".artelier/state.db")
    db.execute("UPDATE events SET at_us = ?", (int((time.time() + 3_600) * 1e6),))
    db.commit()
    db.close()

    assert looked(shell)["clock"][0] == "note"


# Where something is broken, the line says what to do


def said(shell: Shell, what: str, *words: str) -> str:
    status, text = looked(shell, *words)[what]
    assert status == "wrong"
    return text


def made(shell: Shell) -> Path:
    assert shell("tenants", "update", "acme", "--budget-usd", "1").code == 0
    return shell.folder / ".artelier/state.db"


def test_a_database_that_somebody_holds_is_told_from_a_broken_one(shell: Shell) -> None:
    db = sqlite3.connect(made(shell), isolation_level=None)
    db.execute("BEGIN EXCLUSIVE")
    try:
        assert "Wait for it to finish, or stop it" in said(shell, "database")
    finally:
        db.close()


@pytest.mark.corrupts
@pytest.mark.parametrize("at", [0, 100, 8_192])
def test_a_damaged_database_is_told_with_what_helps(shell: Shell, at: int) -> None:
    path = made(shell)
    with path.open("r+b") as file:
        file.seek(at)
        file.write(b"\xff" * 200_000)

    text = said(shell, "database")

    assert "damaged" in text
    assert "artelier verify" in text


@pytest.mark.corrupts
def test_what_is_no_database_at_all_is_told(shell: Shell) -> None:
    shell.write("state.db", "hello")
    assert "not a database" in said(shell, "database", "--db", "state.db")

    (shell.folder / "folder.db").mkdir()
    assert "Check the path" in said(shell, "database", "--db", "folder.db")


def test_a_place_where_no_file_can_be_made_is_told_before_anything_is_lost(shell: Shell) -> None:
    shell.write("file", "hello")

    text = said(shell, "database", "--db", "file/state.db")

    assert "cannot be written" in text
    assert "--db" in text
    assert (shell.folder / "file").read_text() == "hello"


def test_a_newer_database_is_told(shell: Shell) -> None:
    db = sqlite3.connect(made(shell))
    db.execute("PRAGMA user_version = 99")
    db.commit()
    try:
        assert "Upgrade Artelier" in said(shell, "database")
    finally:
        db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        db.commit()
        db.close()


def test_the_key_of_a_sealed_database_is_missed_or_found_wrong_and_never_shown(shell: Shell) -> None:
    shell.set("ARTELIER_VAULT_KEY", "canary-one canary-one canary-one")
    made(shell)
    assert looked(shell)["vault key"][0] == "ok"

    shell.set("ARTELIER_VAULT_KEY", "canary-two canary-two canary-two")
    ran = shell("doctor", "--port", "0", "--json")
    found = findings(ran)
    assert found["vault key"][0] == found["database"][0] == "wrong"
    assert "set that one" in found["vault key"][1]
    assert "canary" not in ran.out + ran.err

    shell.set("ARTELIER_VAULT_KEY", "")
    assert "set the ARTELIER_VAULT_KEY that it was written with" in said(shell, "vault key")

    shell.set("ARTELIER_VAULT_KEY", "short")
    assert "Make one:" in said(shell, "vault key")
    shell.set("ARTELIER_VAULT_KEY", "canary-one canary-one canary-one")


@pytest.mark.parametrize(
    ("model", "advice"),
    [("opnai:gpt", "provider:model"), ("openai:gpt-5-mini", "OPENAI_API_KEY"), ("openai:", "model")],
)
def test_a_model_that_cannot_be_called_is_told_with_what_helps(shell: Shell, model: str, advice: str) -> None:
    shell.write("artelier.toml", f'[model]\ndefault = "{model}"\n')

    assert advice in said(shell, "model")


def test_a_port_that_is_taken_and_a_rate_of_nobody_are_notes(shell: Shell) -> None:
    shell.write("artelier.toml", "[limits.rates.opnai]\nrequests = 5\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ran = shell("doctor", "--port", str(taken.getsockname()[1]), "--json")

    found = findings(ran)
    assert ran.code == 0
    assert found["port"][0] == found["rates"][0] == "note"
    assert "--port 0" in found["port"][1]
    assert "no provider is called opnai" in found["rates"][1]
