"""Webhooks of `artelier.toml`."""

from __future__ import annotations

from pathlib import Path

import pytest

from artelier.cli.settings.file import load_settings
from artelier.errors import InvalidConfig

from .test_signature import OTHER, SECRET

ENVIRON = {"S": SECRET, "O": OTHER}


def test_webhooks_of_the_file_have_their_secrets_of_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "artelier.toml"
    file.write_text(
        '[webhooks.out.crm]\nurl = "https://crm.example.com/hook"\nsecret = "env:S"\nevents = ["run.*"]\n'
        '[webhooks.in.bank]\nsecret = ["env:S", "env:O"]\nrun = "payroll"\nsignal = "paid"\n'
        '[webhooks.in.shop]\nsecret = "env:S"\nactions = ["signal", "goal"]\n'
    )
    found = load_settings(str(file), environ=ENVIRON)

    [out] = found.outgoing_webhooks(environ=ENVIRON)
    bank, shop = found.incoming_webhooks(environ=ENVIRON)
    assert (out.name, out.secret, out.events, out.private) == ("crm", SECRET, ("run.*",), False)
    assert (bank.secrets, bank.run, bank.signal) == ((SECRET, OTHER), "payroll", "paid")
    assert (shop.secrets, shop.actions) == ((SECRET,), ("signal", "goal"))


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (f'[webhooks.out.crm]\nurl = "https://a.example"\nsecret = "{SECRET}"\n', "stands in the file"),
        ('[webhooks.out.crm]\nurl = "https://a.example"\nsecret = "env:NOT_THERE"\n', "NOT_THERE"),
        ('[webhooks.out.crm]\nurl = "ftp://a.example"\nsecret = "env:S"\n', "URL"),
        ('[webhooks.out.crm]\nurl = "https://u:p@a.example"\nsecret = "env:S"\n', "URL"),
        (
            '[webhooks.out.crm]\nurl = "https://a.example"\nsecret = "env:S"\nevents = ["x"]\n',
            "no such event",
        ),
        ('[webhooks.out.crm]\nurl = "https://a.example"\nsecret = "env:S"\nevent = "x"\n', "event"),
        ('[webhooks.in.shop]\nsecret = "env:S"\n', "does nothing"),
        ('[webhooks.in.shop]\nsecret = "env:S"\nactions = ["drop"]\n', "actions"),
        ('[webhooks.in."../x"]\nsecret = "env:S"\nactions = ["goal"]\n', "name of a webhook"),
    ],
)
def test_what_is_wrong_is_named_and_no_secret_is_shown(tmp_path: Path, text: str, named: str) -> None:
    file = tmp_path / "artelier.toml"
    file.write_text(text)

    with pytest.raises(InvalidConfig) as refused:
        found = load_settings(str(file), environ=ENVIRON)
        found.outgoing_webhooks(environ=ENVIRON)
        found.incoming_webhooks(environ=ENVIRON)

    assert named in str(refused.value)
    assert SECRET not in str(refused.value)
