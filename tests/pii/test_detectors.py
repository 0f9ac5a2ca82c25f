"""What the shipped detectors find, kind by kind, and what they leave alone."""

from __future__ import annotations

import pytest

from artelier.pii.detectors import builtin_detectors, find_all
from artelier.ports.pii import Detector
from artelier_lab.pii.corpus import KINDS, judge

DETECTORS = builtin_detectors()


def marked(text: str) -> list[str]:
    """What is found, as `KIND:text`."""
    return [f"{one.kind}:{text[one.start : one.end]}" for one in find_all(DETECTORS, text)]


def normal(text: str) -> str:
    """The normal form of the one value in a text."""
    (found,) = find_all(DETECTORS, text)
    return found.normal


def test_each_kind_of_the_corpus_is_found_and_look_alikes_are_left() -> None:
    marks = judge(find_all, DETECTORS, seed=11, count=500)

    assert set(marks.recall) == set(KINDS)
    assert {kind: part for kind, part in marks.recall.items() if part < 0.98} == {}
    assert {kind: wrong for kind, wrong in marks.false_alarms.items() if wrong > 10} == {}
    assert marks.false_alarms_total <= 5


def test_shipped_detectors_fulfil_the_port() -> None:
    assert tuple(one.kind for one in DETECTORS if isinstance(one, Detector)) == (
        "SECRET",
        "IBAN",
        "CARD",
        "EMAIL",
        "NATIONAL_ID",
        "IP",
        "PHONE",
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<john@x.com>", ["EMAIL:john@x.com"]),
        ("john@example.com,jane@example.com", ["EMAIL:john@example.com", "EMAIL:jane@example.com"]),
        ("mailto:john%40example.com", ["EMAIL:john%40example.com"]),
        ('say "j d"@example.org', ['EMAIL:"j d"@example.org']),
        ("email me at john.doe@example.com!", ["EMAIL:john.doe@example.com"]),
        ("邮箱john@x.com吗", ["EMAIL:john@x.com"]),
        ("用户@例子.广告", ["EMAIL:用户@例子.广告"]),
        ("icon@2x.png react@18.2.0 @john git@github.com:o/r.git items[at].b", []),
        ("ssh://git@example.com/x scp a@b.example.com:/srv x@y.mean() x-y@openssh.com", []),
        ("anna (at) example.com", ["EMAIL:anna (at) example.com"]),
        ("b.o [at] example [dot] co.uk!", ["EMAIL:b.o [at] example [dot] co.uk"]),
        ("say anna at example dot com", ["EMAIL:anna at example dot com"]),
    ],
)
def test_addresses_of_mail(text: str, expected: list[str]) -> None:
    assert marked(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("+49 (0)30 1234567", ["PHONE:+49 (0)30 1234567"]),
        ("1 (800) 555-0199", ["PHONE:1 (800) 555-0199"]),
        ("800 555 0199", ["PHONE:800 555 0199"]),
        ("Call 5551234567", ["PHONE:5551234567"]),
        ("+1 415 555 2671 ext. 5", ["PHONE:+1 415 555 2671"]),
        ("(+44) 20 7946 0958", ["PHONE:(+44) 20 7946 0958"]),
        ("0049 170 1234567", ["PHONE:0049 170 1234567"]),
        ('{"customerPhone":"4155552671"}', ["PHONE:4155552671"]),
        ("Tél. : 01 42 68 53 00", ["PHONE:01 42 68 53 00"]),
        ("手机13812345678", ["PHONE:13812345678"]),
        ("+49-30-1234567/+49-30-7654321", ["PHONE:+49-30-1234567", "PHONE:+49-30-7654321"]),
        ("4155552671 and 012-345-6789 and SKU: 415-555-2671", []),
        ("2024-11-05T10:30:00+01:00, 05.11.2024 10:30, 10 000 000", []),
        ("Zeile 1: 0301234567", []),
    ],
)
def test_phone_numbers(text: str, expected: list[str]) -> None:
    assert marked(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4111111111111111,12/26,123", ["CARD:4111111111111111"]),
        ("4111 1111 1111 1111 12/26 123", ["CARD:4111 1111 1111 1111"]),
        ("Amex 3714-496353-98431", ["CARD:3714-496353-98431"]),
        ("visa 4222222222222", ["CARD:4222222222222"]),
        ("4111 1111 1111 1111 5500 0000 0000 0004", ["CARD:4111 1111 1111 1111", "CARD:5500 0000 0000 0004"]),
        ("4111 1111 1111 1112", []),
        ("4222222222222", []),
        ("1763816263000000 0x4111111111111111 0.4111111111111111 4111111111111111abc", []),
        ("b:4111111111111111-aaaaaaaaaaaaaaaaaaaaaaaaaa", []),
        ("DE89 3704 0044 0532 0130 00", ["IBAN:DE89 3704 0044 0532 0130 00"]),
        ("gb82west12345698765432", ["IBAN:gb82west12345698765432"]),
        ("DE 89 3704 0044 0532 0130 00.", ["IBAN:DE 89 3704 0044 0532 0130 00"]),
        ("DE89 3704 0044 0532 0130 01", []),
        ("DE89370400440532013000BIC", []),
    ],
)
def test_cards_and_accounts(text: str, expected: list[str]) -> None:
    assert marked(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("078-05-1120", ["NATIONAL_ID:078-05-1120"]),
        ("1 85 05 78 006 084 91", ["NATIONAL_ID:1 85 05 78 006 084 91"]),
        ("RSSMRA85T10A562S", ["NATIONAL_ID:RSSMRA85T10A562S"]),
        ("2341 2341 2346", ["NATIONAL_ID:2341 2341 2346"]),
        ("112-233-445 95", ["NATIONAL_ID:112-233-445 95"]),
        ("pesel 44051401359", ["NATIONAL_ID:44051401359"]),
        ("Steuer-ID 36 574 261 809", ["NATIONAL_ID:36 574 261 809"]),
        ("44051401359, 000-12-3456, 666-12-3456, 12345678A, 20241105A", []),
        ("123 45 6789", []),
        ("192.168.1.1-192.168.1.20", ["IP:192.168.1.1", "IP:192.168.1.20"]),
        ("http://203.0.113.7:8080/x", ["IP:203.0.113.7"]),
        ("[2001:db8::8a2e:370:7334]", ["IP:2001:db8::8a2e:370:7334"]),
        ("version 1.2.3.4, v1.2.3.4, lib==1.2.3.4, 1.2.3.4.5, 256.1.1.1", []),
        ("127.0.0.1 0.0.0.0 255.255.255.0 ::1 10:30:45 std::vector a::b", []),
    ],
)
def test_numbers_of_people_and_machines(text: str, expected: list[str]) -> None:
    assert marked(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("key sk-proj-abcdefghijklmnop1234", ["SECRET:sk-proj-abcdefghijklmnop1234"]),
        ("AKIAIOSFODNN7EXAMPLE", ["SECRET:AKIAIOSFODNN7EXAMPLE"]),
        ("JWT eyJhbGciOiJub25lIn0.eyJzdWIiOiIxIn0.", ["SECRET:eyJhbGciOiJub25lIn0.eyJzdWIiOiIxIn0."]),
        ("Authorization: Bearer abcdef0123456789ab", ["SECRET:abcdef0123456789ab"]),
        ("ftp://bob:s3cr3t@ftp.example.com/", ["SECRET:s3cr3t"]),
        ("password: correcthorse", ["SECRET:correcthorse"]),
        ("the password is hunter2.", ["SECRET:hunter2"]),
        ("PASSWORD='p@ss w0rd'", ["SECRET:p@ss w0rd"]),
        ("login=bob&password=tiger99&x=1", ["SECRET:tiger99"]),
        ('{\\"api_key\\": \\"9f8e7d6c5b4a3210\\"}', ["SECRET:9f8e7d6c5b4a3210"]),
        ("-----BEGIN PRIVATE KEY-----\nMIIE", ["SECRET:-----BEGIN PRIVATE KEY-----\nMIIE"]),
        ("password: required field, token: 5000, api_key=${KEY}", []),
        ('"password": {"type": "string"}, username, password = proxy_auth', []),
        ("risk-assessment-for-the-second-quarter-2024", []),
        ("3f786850e387550fdab836ed7e6dc881de23001b", []),
    ],
)
def test_secrets(text: str, expected: list[str]) -> None:
    assert marked(text) == expected


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Ann@Example.COM", "ann@example.com"),
        ("x@xn--mnchen-3ya.de", "x@münchen.de"),
        ("a+b@example.com", "a%2Bb%40example.com"),
        ("+1 (415) 555-2671", "(415) 555-2671"),
        ("+44 20 7946 0958", "020 7946 0958"),
        ("4111-1111-1111-1111", "4111 1111 1111 1111"),
        ("gb82 west 1234 5698 7654 32", "GB82WEST12345698765432"),
        ("2001:DB8:0:0:0:0:0:1f", "2001:db8::1f"),
        ("12345678-Z", "12345678Z"),
    ],
)
def test_spellings_of_one_value_have_one_normal_form(first: str, second: str) -> None:
    assert normal(first) == normal(second)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("№ ４１１１\u30001111\u00a01111\u202f1111!", "４１１１\u30001111\u00a01111\u202f1111"),
        ("\u202a+1 415\u2011555\u20112671\u202c", "+1 415\u2011555\u20112671"),
        ("to jo\u200bhn@exa\u00admple.com.", "jo\u200bhn@exa\u00admple.com"),
        ("é١٩٢.168.1.20", "١٩٢.168.1.20"),
    ],
)
def test_places_are_those_of_the_text_whatever_signs_it_uses(text: str, expected: str) -> None:
    expected_in = text.replace("é", "é ")

    found = find_all(DETECTORS, expected_in)

    assert [expected_in[one.start : one.end] for one in found] == [expected]
    assert all(one.normal.isascii() for one in found)
