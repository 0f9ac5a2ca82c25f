"""`artelier doctor`: what it looks at, what it says, and that it shows no secret."""

from __future__ import annotations

import sqlite3
import time
from typing import Any

import pytest

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

    assert found["models"] == ("ok", "allowed: offline, openai:*")
    assert found["rates"] == ("ok", "a minute, openai: 60 requests")
    assert found["approvals"][1].startswith("tools of risk high")
    assert found["http_json"] == ("ok", "https://api.example.com/v1/")


def test_a_default_model_that_is_not_allowed_is_wrong(shell: Shell) -> None:
    shell.write("artelier.toml", '[model]\nallow = ["openai:*"]\n')

    ran = shell("doctor", "--port", "0", "--json")

    assert ran.code == 1
    assert findings(ran)["models"][0] == "wrong"


def test_a_missing_secret_of_an_allowed_server_is_wrong_and_a_present_one_is_not_shown(
    shell: Shell,
) -> None:
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
    db.execute(
        "INSERT INTO leases(stream, holder, expires_us) VALUES ('default/main/run:x', 'gone', 5)"
    )
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
