"""Which addresses and spellings of URLs `http_json` refuses."""

from __future__ import annotations

import pytest

from artelier.tools.http_rules import HttpRule, UnclearUrl, parse_url, why_refused


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",
        "10.1.2.3",
        "100.64.0.1",
        "127.0.0.1",
        "127.255.0.9",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "192.0.0.8",
        "192.0.2.1",
        "198.18.0.1",
        "203.0.113.9",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "100.100.100.200",
        "168.63.129.16",
        "::ffff:168.63.129.16",
        "::",
        "::1",
        "fe80::1",
        "fc00::1",
        "fd12::1",
        "fd00:ec2::254",
        "ff02::1",
        "fec0::1",
        "::ffff:10.0.0.1",
        "::ffff:127.0.0.1",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::1",
        "2002:7f00:1::",
        "2002:a9fe:a9fe::1",
        "2001:db8::1",
        "2001::1",
        "3fff::1",
        "5f00::1",
        "fe80::1%eth0",
        "1.2.3",
        "x",
    ],
)
def test_only_addresses_of_the_internet_are_called(address: str) -> None:
    assert why_refused(address, private=False)


@pytest.mark.parametrize("address", ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "::ffff:8.8.8.8"])
def test_addresses_of_the_internet_are_called(address: str) -> None:
    assert why_refused(address, private=False) is None


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.1", "::1", "fd12::1", "192.168.0.1"])
def test_a_private_rule_reaches_private_networks(address: str) -> None:
    assert why_refused(address, private=True) is None


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "168.63.129.16",
        "100.100.100.200",
        "0.0.0.0",
        "224.0.0.1",
        "fe80::1",
        "fd00:ec2::254",
        "::ffff:169.254.1.1",
    ],
)
def test_even_a_private_rule_reaches_no_metadata_and_no_multicast(address: str) -> None:
    assert why_refused(address, private=True)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "api.example.com",
        "ftp://a/",
        "file:///etc/passwd",
        "https://",
        "https:///x",
        "https://a b/",
        "https://user@a/",
        "https://a:b@c/",
        "https://a\\@b/",
        "https://a/\\..\\b",
        "https://a/x#y",
        "https://a/\n",
        "https://a/\t",
        "https://a/\x00",
        "https://\u0430pple.com/",
        "https://a/\u00e9",
        "https://a%2eb/",
        "https://a_b/",
        "https://-a/",
        "https://a./",
        "https://.a/",
        "https://a..b/",
        "https://2130706433/",
        "https://0x7f000001/",
        "https://0177.0.0.1/",
        "https://127.1/",
        "https://0x7f.0.0.1/",
        "https://1.2.3.4.5/",
        "https://256.1.1.1/",
        "https://a:0/",
        "https://a:/",
        "https://a:99999/",
        "https://a:x/",
        "https://[::1/",
        "https://[fe80::1%25eth0]/",
        "https://a/%2e%2e/b",
        "https://a/%2E/",
        "https://a/x%2fy",
        "https://a/x%5cy",
        "https://a/%252e",
        "https://a/../b",
        "https://a/.",
        "https://a/b/..",
        "https://a/..;x/b",
        "https://a/..%3b/b",
        "https://a/..%3Bx",
        "https://a/.%3b/b",
        "https://a/b/..%3bx;y/c",
        "https://a/%zz",
        "https://a/%",
        "https://a/%c0%af",
        "https://a/%00",
        "https://a/%0d%0a",
        "https://a/" + "x" * 4_000,
        5,
        None,
        b"https://a/",
    ],
)
def test_a_url_with_two_readings_is_none(url: object) -> None:
    with pytest.raises(UnclearUrl):
        parse_url(url)


@pytest.mark.parametrize(
    ("url", "spelt"),
    [
        ("HTTPS://API.Example.COM:443", "https://api.example.com/"),
        ("https://xn--80ak6aa92e.com/a?b=%2F..", "https://xn--80ak6aa92e.com/a?b=%2F.."),
        ("http://a:8080/x;y=1/%C3%A9", "http://a:8080/x;y=1/%C3%A9"),
        ("https://a/x%3By/...%3b", "https://a/x%3By/...%3b"),
        ("https://[2606:4700:0:0::1111]/", "https://[2606:4700::1111]/"),
    ],
)
def test_a_url_has_one_spelling(url: str, spelt: str) -> None:
    assert str(parse_url(url)) == spelt


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("https://api.example.com/v1/x", True),
        ("https://API.example.com:443/v1/", True),
        ("https://api.example.com/v1", False),
        ("https://api.example.com/v10/", False),
        ("https://api.example.com/V1/x", False),
        ("https://api.example.com:8443/v1/x", False),
        ("http://api.example.com/v1/x", False),
        ("https://api.example.com.evil.net/v1/x", False),
        ("https://evil.net/https://api.example.com/v1/", False),
    ],
)
def test_a_rule_is_an_origin_and_a_path(url: str, allowed: bool) -> None:
    rule = HttpRule(url="https://api.example.com/v1/")

    assert rule.allows(parse_url(url)) is allowed
