"""A secret of a rule never leaves `http_json`, wherever and however the server sends it back."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from artelier.errors import ToolFailed, TransientError
from artelier.tools.http_json import TEXT_CHARS_MAX, Veil
from tests.tools.test_http import called, local
from tests.tools.web import Says, Seen, served

TOKEN = "Tok12345-Secret"
ODD = 's3cr3t/To"k\\en+&=='
"""With everything that one encoding or another escapes."""


def asked(path: Path, answer: Callable[[Seen], Says], *, token: str = TOKEN, **call: Any) -> list[Any]:
    """What one call with the token brought, after the stored bytes were searched for it."""
    with served(answer) as site:
        rule = local(site.url, headers={"Authorization": "Bearer env:T"})
        found = called(path, [rule], {"url": site.url, **call}, environ={"T": token})
    assert site.seen[0].headers["authorization"] == f"Bearer {token}"
    stored = b"".join(file.read_bytes() for file in path.rglob("*") if file.is_file()).lower()
    assert token.lower().encode() not in stored
    assert token.lower() not in str(found).lower()
    return found


def echoed(seen: Seen) -> str:
    return seen.headers["authorization"].removeprefix("Bearer ")


@pytest.mark.parametrize("kind", ["text/{}", "{}", "text/html{}", "application/{}", "a" * 190 + "{}"])
def test_a_secret_in_the_media_type_is_hidden(tmp_path: Path, kind: str) -> None:
    found = asked(tmp_path, lambda seen: Says(raw=b"x", kind=kind.format(echoed(seen))))

    assert found[0][0]
    assert "tok12345" not in str(found), "not even a part, where a text was cut"


def test_a_done_side_effect_hides_the_secret_in_its_note(tmp_path: Path) -> None:
    found = asked(tmp_path, lambda seen: Says(raw=b"x", kind=f"text/{echoed(seen)}"), method="POST")

    assert found == [(False, {"status": 200, "body": {"note": "the reply is no JSON but text/[secret]"}})]


@pytest.mark.parametrize("before", ["", "a" * 35])
def test_a_secret_in_the_coding_is_hidden(tmp_path: Path, before: str) -> None:
    def answer(seen: Seen) -> Says:
        return Says(raw=b"x", headers={"content-encoding": before + echoed(seen)})

    found = asked(tmp_path, answer)

    assert found[0][0]
    assert "tok12" not in str(found)


@pytest.mark.parametrize(
    "location",
    [
        "http://{}.evil.test/",
        "https://evil.test/{}",
        "/../{}",
        "no url {}",
        "http://a/" + "b" * 280 + "{}",
        "http://user:{}@evil.test/",
        "http://" + "c" * 4_000 + "{}",
        "http://evil.test:{}/",
    ],
)
def test_a_secret_in_a_redirect_is_hidden(tmp_path: Path, location: str) -> None:
    def answer(seen: Seen) -> Says:
        return Says(status=302, raw=b"", headers={"location": location.format(echoed(seen))})

    found = asked(tmp_path, answer)

    assert found[0][0]
    assert "tok12345" not in str(found).lower()


def test_a_percent_encoded_secret_in_a_redirect_is_hidden(tmp_path: Path) -> None:
    spelt = "".join(f"%{ord(sign):02x}" for sign in TOKEN)

    def answer(seen: Seen) -> Says:
        return Says(status=302, raw=b"", headers={"location": f"http://{spelt}.evil.test/"})

    assert spelt not in str(asked(tmp_path, answer))


def test_a_refusal_is_cut_only_after_the_secret_is_out(tmp_path: Path) -> None:
    def answer(seen: Seen) -> Says:
        return Says(status=400, value="x" * (TEXT_CHARS_MAX - 10) + echoed(seen))

    assert "Tok1" not in str(asked(tmp_path, answer))


@pytest.mark.parametrize(
    "spelt",
    [
        ODD,
        ODD.upper(),
        quote(ODD),
        quote(ODD, safe=""),
        quote(quote(quote(ODD, safe=""), safe=""), safe=""),
        quote(ODD, safe="").lower(),
        "".join(f"%{ord(sign):02X}" for sign in ODD),
        json.dumps(ODD),
        json.dumps(json.dumps(ODD)),
        "".join(f"\\u{ord(sign):04x}" for sign in ODD),
        ODD.replace("&", "&amp;").replace('"', "&quot;"),
        "".join(f"&#{ord(sign)};" for sign in ODD),
        "".join(f"&#x{ord(sign):X};" for sign in ODD),
        ODD.encode().hex(),
        f"Bearer {ODD}",
    ],
)
def test_a_secret_in_a_body_is_hidden_in_each_of_its_spellings(tmp_path: Path, spelt: str) -> None:
    value = {"a": ["kept", {"b": f"<{spelt}>", f"k{spelt}": 1, "n": 5}]}

    found = asked(tmp_path, lambda seen: Says(value=value), token=ODD)

    [(is_error, result)] = found
    assert not is_error
    assert result["body"]["a"][0] == "kept"
    assert result["body"]["a"][1]["n"] == 5
    assert spelt not in json.dumps(result)
    assert spelt not in str(list(result["body"]["a"][1].items()))


@pytest.mark.parametrize("before", ["", "u", "us", "user:"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_base64_of_a_secret_is_hidden_wherever_it_begins(
    before: str, encode: Callable[[bytes], bytes]
) -> None:
    spelt = encode(f"{before}{ODD}".encode()).decode()

    shown = Veil([ODD]).text(f"say {spelt}")

    assert spelt[4:-4] not in shown
    assert "[secret]" in shown


def test_the_password_of_basic_credentials_is_a_secret_too(tmp_path: Path) -> None:
    whole = base64.b64encode(b"customer:pass-word-1").decode()
    with served(lambda seen: Says(value=["customer", "pass-word-1", "customer:pass-word-1"])) as site:
        rule = local(site.url, headers={"Authorization": "Basic env:T"})
        found = called(tmp_path, [rule], {"url": site.url}, environ={"T": whole})

    assert found == [(False, {"status": 200, "body": ["customer", "[secret]", "[secret]"]})]


def test_a_number_that_is_a_secret_is_hidden() -> None:
    assert Veil(["48151623"]).value([48151623, 4, True, None]) == ["[secret]", 4, True, None]


def test_a_secret_of_the_first_host_is_hidden_when_the_second_says_it(tmp_path: Path) -> None:
    with served(lambda seen: Says(value=seen.path)) as other:
        onward = other.url.replace("localhost", "127.0.0.1")

        def answer(seen: Seen) -> Says:
            return Says(status=302, raw=b"", headers={"location": onward + echoed(seen)})

        with served(answer) as site:
            allow = [local(site.url, headers={"Authorization": "Bearer env:T"}), local(onward)]
            found = called(tmp_path, allow, {"url": site.url}, environ={"T": TOKEN})

    assert found == [(False, {"status": 200, "body": "/[secret]"})]


def test_a_deep_reply_is_searched_to_its_ground() -> None:
    value: Any = TOKEN
    for _ in range(100_000):
        value = [value]

    found = Veil([TOKEN]).value(value)

    while isinstance(found, list):
        (found,) = found
    assert found == "[secret]"


@pytest.mark.parametrize("kind", [ToolFailed, TransientError])
def test_every_text_of_an_error_is_searched_and_bounded(kind: type[ToolFailed]) -> None:
    error = kind(
        f"m {TOKEN}",
        expected=f"e {TOKEN}",
        got="x" * (TEXT_CHARS_MAX - 4) + TOKEN,
        hint=f"h {TOKEN}",
        retry_after_s=5.0,
        where=TOKEN,
    )

    Veil([TOKEN]).error(error)

    assert (error.message, error.expected, error.hint) == ("m [secret]", "e [secret]", "h [secret]")
    assert error.got == "x" * (TEXT_CHARS_MAX - 4) + "[sec"
    assert error.args == ("m [secret]",)
    assert error.facts == {"retry_after_s": 5.0, "where": "[secret]"}


def test_what_shows_no_secret_stays_as_it_is() -> None:
    value = {"a": ["100%25 &amp; \\u0041", 1.5, None], "tok12345": "Tok12345_Secret"}

    assert Veil([TOKEN]).value(json.loads(json.dumps(value))) == value
    assert Veil([]).value(value) is value
