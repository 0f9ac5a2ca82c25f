"""`artelier.toml` and the environment: what holds, and how a mistake is pointed at."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from artelier.cli.settings.file import load_settings
from artelier.cli.settings.schema import key_lines, line_of
from artelier.cli.settings.settings import ENVIRONMENT, Settings
from artelier.errors import InvalidConfig, NotFound
from artelier.kernel import Limits, Rate
from artelier.ports.model import Price
from tests.cli.conftest import Shell

FULL = """\
[model]
default = "openai:gpt-5-mini"
timeout_s = 30

[store]
path = "data/state.db"

[limits]
usd = 0.5
tokens = 1000
steps = 20
wall_s = 60.5

[policy]
approve_risk = "high"

[prices."ollama:qwen3"]
input = 0
output = "0.10"
cached_input = 0.05
"""


def test_without_a_file_the_defaults_hold(shell: Shell) -> None:
    assert load_settings(None, environ={}) == Settings()
    assert Settings().model == "offline"
    assert Settings().limits() is None


def test_a_file_sets_everything(shell: Shell) -> None:
    shell.write("artelier.toml", FULL)

    settings = load_settings(None, environ={})

    assert settings.model == "openai:gpt-5-mini"
    assert settings.policy().model_timeout_s == 30
    assert settings.policy().approve_risk == "high"
    assert settings.limits() == Limits(usd="0.50", tokens=1000, steps=20, wall_s=60.5)
    assert settings.limits(usd="2") == Limits(usd="2", tokens=1000, steps=20, wall_s=60.5)
    assert settings.prices == {
        "ollama:qwen3": Price(input=Decimal(0), output=Decimal("0.10"), cached_input=Decimal("0.05"))
    }


def test_a_path_in_a_file_is_relative_to_the_file(shell: Shell) -> None:
    shell.write("etc/artelier.toml", FULL)

    settings = load_settings("etc/artelier.toml", environ={})

    assert settings.store_path == "etc/data/state.db"


def test_the_environment_goes_over_the_file(shell: Shell) -> None:
    shell.write("artelier.toml", FULL)

    settings = load_settings(
        None,
        environ={
            "ARTELIER_MODEL": "offline",
            "ARTELIER_DB": "other.db",
            "ARTELIER_LIMITS_USD": "7",
            "ARTELIER_LIMITS_STEPS": "3",
            "ARTELIER_POLICY_APPROVE_RISK": "low",
        },
    )

    assert (settings.model, settings.store_path) == ("offline", "other.db")
    assert settings.limits() == Limits(usd="7.00", tokens=1000, steps=3, wall_s=60.5)
    assert settings.approve_risk == "low"


def test_an_option_goes_over_the_environment_and_that_over_the_file(shell: Shell) -> None:
    shell.write("artelier.toml", '[store]\npath = "file.db"\n')

    shell("db", "migrate")
    shell.set("ARTELIER_DB", "environment.db")
    shell("db", "migrate")
    shell("db", "migrate", "--db", "option.db")

    made = sorted(path.name for path in shell.folder.glob("*.db"))
    assert made == ["environment.db", "file.db", "option.db"]


def test_every_variable_names_a_key_of_the_file() -> None:
    from artelier.cli.settings.schema import setting_rows

    keys = {row.key for row in setting_rows()}

    assert {".".join(place) for place in ENVIRONMENT.values()} <= keys
    assert all(row.meaning for row in setting_rows())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[model]\ndefault = "x"\n\ndefalt = "y"\n', "t.toml:4: unknown key model.defalt"),
        ("[modle]\n", "t.toml:1: unknown key modle"),
        ('\n\n[prices."a:b"]\ninput = 1\nouput = 2\n', "t.toml:5: unknown key prices.a:b.ouput"),
        ("model = { default = 'x', foo = 1 }\n", "t.toml:1: unknown key model.foo"),
        ("limits.usd = 1\nlimits.uds = 2\n", "t.toml:2: unknown key limits.uds"),
        ('[model]\ndefault = """\n[fake]\n"""\nbad = 1\n', "t.toml:5: unknown key model.bad"),
        ("[limits]\ntokens = 0\n", "t.toml:2: limits.tokens:"),
        ("[limits]\ntokens = 1.5\n", "t.toml:2: limits.tokens:"),
        ("[limits]\nusd = true\n", "t.toml:2: limits.usd:"),
        ("[limits]\nusd = -1\n", "t.toml:2: limits.usd:"),
        ("[limits]\nusd = nan\n", "t.toml:2: limits.usd:"),
        ("[limits]\nwall_s = -3\n", "t.toml:2: limits.wall_s:"),
        ('[policy]\napprove_risk = "some"\n', "t.toml:2: policy.approve_risk:"),
        ('[prices."a:b"]\ninput = "cheap"\noutput = 1\n', "t.toml:2: prices.a:b.input:"),
        ("[prices.x]\ninput = 1\n", "t.toml:1: prices.x.output: field required"),
        ("[model\n", "t.toml:1: "),
        ("[model]\ndefault = \n", "t.toml:2: invalid value"),
        ('[model]\ndefault = "a', "t.toml:2: "),
        ("[model]\ndefault = 'a'\ndefault = 'b'\n", "t.toml:3: "),
    ],
)
def test_a_mistake_in_the_file_is_named_with_its_line(shell: Shell, text: str, said: str) -> None:
    shell.write("t.toml", text)

    ran = shell("runs", "list", "--config", "t.toml", "--json")

    assert ran.code == 2
    assert ran.error["code"] == "invalid_config"
    assert ran.error["message"].startswith(said)


def test_an_unknown_key_comes_with_the_known_and_the_nearest(shell: Shell) -> None:
    shell.write("artelier.toml", "[limits]\ntoken = 3\n")

    error = shell("runs", "list", "--json").error

    assert error["expected"] == "rates, steps, tokens, usd, wall_s"
    assert error["hint"] == "Did you mean tokens?"


@pytest.mark.parametrize(
    "name", sorted(set(ENVIRONMENT) - {"ARTELIER_MODEL", "ARTELIER_DB", "ARTELIER_WORKSPACES"})
)
def test_a_mistake_in_the_environment_is_named_with_its_variable(shell: Shell, name: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        load_settings(None, environ={name: "nonsense"})

    assert refused.value.message.startswith(f"{name}: ")


def test_a_named_file_must_be_there_and_be_text(shell: Shell) -> None:
    (shell.folder / "bytes.toml").write_bytes(b"\xff\xfe")

    with pytest.raises(NotFound):
        load_settings("gone.toml", environ={})
    with pytest.raises(NotFound):
        load_settings(None, environ={"ARTELIER_CONFIG": "gone.toml"})
    with pytest.raises(InvalidConfig):
        load_settings("bytes.toml", environ={})
    with pytest.raises(InvalidConfig):
        load_settings(".", environ={})


def test_lines_of_keys_are_found_around_strings_and_comments() -> None:
    text = '# a = 1\n[a."b.c"] # here\nx.y = """\nz = 1\n"""\n\'q r\' = 2\n[[list]]\nk = 1\n'

    lines = key_lines(text)

    assert lines[("a", "b.c")] == 2
    assert lines[("a", "b.c", "x", "y")] == 3
    assert lines[("a", "b.c", "q r")] == 6
    assert ("a", "b.c", "z") not in lines
    assert line_of(lines, ("a", "b.c", "x", "unseen")) == 3
    assert line_of(lines, ("nowhere",)) == 1


GOVERNED = """\
[model]
allow = ["openai:*", "offline"]

[limits.rates.openai]
requests = 60
tokens = 90_000

[limits.rates."*"]
requests = 100

[tools.http]
allow = [
  "https://api.example.com/v1/",
  { url = "http://localhost:8080/", private = true, headers = { X-Note = "hi" } },
]
"""


def test_a_file_says_who_may_be_called_and_how_fast(shell: Shell) -> None:
    shell.write("artelier.toml", GOVERNED)

    settings = load_settings(None, environ={"ARTELIER_LIMITS_STEPS": "9"})

    assert settings.policy().models == ("offline", "openai:*")
    assert dict(settings.policy().rates) == {
        "openai": Rate(requests=60, tokens=90_000),
        "*": Rate(requests=100),
    }
    assert [tool.name for tool in settings.tools(environ={})] == ["http_json"]
    assert [rule.private for rule in settings.http_rules] == [False, True]
    assert Settings().tools(environ={}) == []


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("[limits.rates.openai]\n", "1: limits.rates.openai: a rate that limits nothing"),
        ("[limits.rates.openai]\nrequests = 0\n", "2: limits.rates.openai.requests"),
        ("[limits.rates.openai]\nrequest = 5\n", "2: unknown key limits.rates.openai.request"),
        ("[tools.http]\nallow = ['ftp://a/']\n", "2: tools.http.allow: an allowed URL is not of https"),
        ("[tools.http]\nallow = [{ uri = 'https://a/' }]\n", "2: "),
        ("[model]\nallow = ['']\n", "2: model.allow"),
    ],
)
def test_a_mistake_about_who_may_be_called_has_its_line(shell: Shell, text: str, where: str) -> None:
    shell.write("artelier.toml", text)

    with pytest.raises(InvalidConfig) as raised:
        load_settings(None, environ={})

    assert f"artelier.toml:{where}" in str(raised.value)


def test_what_is_enforced_is_no_less_than_the_policy_that_others_reach(tmp_path: Path) -> None:
    file = tmp_path / "artelier.toml"
    file.write_text('[policy]\napprove_risk = "medium"\n')
    strict = load_settings(str(file), environ={}).policy(is_enforced=True)
    assert (strict.pii, strict.approve_risk) == (True, "medium")

    plain = load_settings(None, environ={"ARTELIER_PII": "0"})
    assert (plain.policy().pii, plain.policy(is_enforced=True).pii) == (False, True)
    assert plain.policy(is_enforced=True).approve_risk == "high"
