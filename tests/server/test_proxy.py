"""Behind a reverse proxy: cookies for https alone, and limits that count clients, not the proxy."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from artelier.errors import InvalidConfig
from artelier.server.security.identity import client_address, parse_networks
from artelier.server.security.login_sessions import FAILURES_MAX
from artelier.server.security.users import Users
from artelier.server.settings import ServerSettings
from tests.server.house import house

TRUSTED = parse_networks(["10.0.0.0/8", "::1"])


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("10.0.0.1", "203.0.113.7", "203.0.113.7"),
        ("10.0.0.1", "198.51.100.9, 203.0.113.7, 10.2.3.4", "203.0.113.7"),
        ("::1", "2001:db8::5", "2001:db8::5"),
        ("::1", "[2001:db8::5]", "2001:db8::5"),
        ("::ffff:10.0.0.1", "203.0.113.7", "203.0.113.7"),
        ("10.0.0.1", "", "10.0.0.1"),
        ("10.0.0.1", "unknown, 203.0.113.7", "203.0.113.7"),
        ("10.0.0.1", "203.0.113.7, nonsense", "10.0.0.1"),
        ("203.0.113.99", "198.51.100.1", "203.0.113.99"),
    ],
)
def test_the_last_address_that_no_trusted_proxy_has_is_the_client(
    peer: str, forwarded: str, client: str
) -> None:
    headers = {"x-forwarded-for": forwarded} if forwarded else {}
    assert client_address(peer, headers, trusted=TRUSTED) == client


def test_without_trusted_proxies_the_header_says_nothing() -> None:
    assert client_address("10.0.0.1", {"x-forwarded-for": "1.2.3.4"}, trusted=()) == "10.0.0.1"


@pytest.mark.parametrize(
    "settings",
    [
        {"public_url": "desk.example"},
        {"public_url": "https://desk.example/artelier"},
        {"public_url": "https://me@desk.example"},
        {"public_url": "ftp://desk.example"},
        {"public_url": "https://desk.example:99999"},
        {"public_url": "https://[::1"},
        {"trusted_proxies": ("proxy.example",)},
        {"trusted_proxies": ("10.0.0.0/99",)},
    ],
)
def test_a_wrong_address_is_refused_at_the_start(settings: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig) as refused:
        ServerSettings(users=_users(tmp_path), **settings)
    assert refused.value.to_wire()["expected"]


def test_a_public_address_needs_users() -> None:
    with pytest.raises(InvalidConfig, match="without users"):
        ServerSettings(public_url="https://desk.example")


def _users(folder: Path) -> Users:
    from artelier.server.security.users import password_hash

    path = folder / "users.toml"
    path.write_text(
        f'[[users]]\nname = "bo"\nrole = "operator"\npassword = "{password_hash("the right one")}"\n'
        'tenants = ["default"]\n'
    )
    return Users.load(str(path))


def test_sessions_are_for_https_alone_where_the_public_address_is(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with (
            house(
                tmp_path,
                users=_users(tmp_path),
                public_url="https://desk.example",
                trusted_proxies=("127.0.0.1",),
            ) as home,
            home.stranger(Host="desk.example") as browser,
        ):
            answer = await browser.post(
                "/api/v1/login",
                json={"user": "bo", "password": "the right one"},
                headers={"Origin": "https://desk.example"},
            )
            assert answer.status_code == 200, answer.text
            assert "; Secure" in answer.headers["set-cookie"]
            assert answer.headers["strict-transport-security"].startswith("max-age=")

    asyncio.run(scenario())


def test_one_client_behind_the_proxy_locks_no_other_out(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with (
            house(
                tmp_path,
                users=_users(tmp_path),
                public_url="https://desk.example",
                trusted_proxies=("127.0.0.1",),
            ) as home,
            home.stranger(Host="desk.example") as proxy,
        ):

            async def login(address: str, password: str) -> int:
                asked = {"user": "bo", "password": password}
                forwarded = {"X-Forwarded-For": f"9.9.9.9, {address}"}
                answer = await proxy.post("/api/v1/login", json=asked, headers=forwarded)
                return answer.status_code

            for _ in range(FAILURES_MAX):
                assert await login("203.0.113.7", "wrong") == 401
            assert await login("203.0.113.7", "the right one") == 429
            assert await login("203.0.113.8", "the right one") == 200

    asyncio.run(scenario())


def test_the_card_of_a2a_names_the_public_address(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with (
            house(tmp_path, users=_users(tmp_path), public_url="https://desk.example") as home,
            home.stranger(Host="desk.example") as browser,
        ):
            card = (await browser.get("/.well-known/agent-card.json")).json()
            assert [one["url"] for one in card["supportedInterfaces"]] == ["https://desk.example/api/v1/a2a"]

    asyncio.run(scenario())
