"""Links work once, cookies cannot be made up, and what a user may do is decided by the file of users."""

from __future__ import annotations

import asyncio
import base64
import json
import stat
from pathlib import Path

import pytest

from artelier.errors import ArtelierError, InvalidConfig
from artelier.server.security.login_sessions import ENDED_MAX, Attempts, Sessions
from artelier.server.security.users import Users, password_hash, token_hash
from artelier.server.settings import ServerSettings
from artelier.testing import ManualClock
from tests.server.house import PATIENCE_S, House, asking, assert_fault, documented, house, spoken

PASSWORD = "correct horse battery"
TOKEN = "a-program's token, long and random"


def people() -> Users:
    rows: list[dict[str, object]] = [
        {"name": "ada", "role": "admin", "tenants": ["default", "acme"]},
        {"name": "vic", "role": "viewer", "tenants": ["default"]},
        {"name": "robot", "role": "operator", "tenants": ["acme"], "tokens": [token_hash(TOKEN)]},
    ]
    for row in rows[:2]:
        row["password"] = password_hash(PASSWORD)
    return Users.parse({"users": rows})


async def login(home: House, user: str, password: str = PASSWORD) -> None:
    answer = await home.client.post("/api/v1/login", json={"user": user, "password": password})
    assert answer.status_code == 200, answer.text
    me = (await home.client.get("/api/v1/me")).json()
    home.client.headers["X-CSRF-Token"] = me["csrf_token"]


# The link


def test_a_link_signs_in_once_and_leaves_no_token_in_the_address(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as home, home.stranger() as one, home.stranger() as two:
            token = home.app.state.gate.sessions.link()
            first = await one.get("/", params={"token": token})
            assert (first.status_code, first.headers["location"]) == (303, "/")
            cookie = first.headers["set-cookie"].lower()
            assert "httponly" in cookie and "samesite=strict" in cookie
            assert (await one.get("/api/v1/me")).json()["role"] == "admin"
            again = await two.get("/", params={"token": token})
            assert again.status_code == 401
            assert token not in again.text
            assert_fault(await two.get("/api/v1/me"), 401, "not_signed_in")
            reload = await one.get("/", params={"token": token})
            assert reload.status_code == 303, "who is signed in may follow it again"

    asyncio.run(scenario())


def test_looking_at_a_link_does_not_use_it_up(tmp_path: Path) -> None:
    """Mail programs and chats ask for the head of what they show."""

    async def scenario() -> None:
        async with house(tmp_path) as home, home.stranger() as checker, home.stranger() as person:
            token = home.app.state.gate.sessions.link()
            looked = await checker.head("/", params={"token": token})
            assert "set-cookie" not in looked.headers
            assert (await person.get("/", params={"token": token})).status_code == 303
            assert (await person.get("/api/v1/me")).status_code == 200

    asyncio.run(scenario())


def test_a_link_expires(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        async with house(tmp_path, clock=clock) as home, home.stranger() as late:
            token = home.app.state.gate.sessions.link()
            clock.advance(3601)
            assert (await late.get("/", params={"token": token})).status_code == 401

    asyncio.run(scenario())


@pytest.mark.parametrize("token", ["", "x", "%00", "ü" * 500])
def test_a_made_up_link_signs_nobody_in(tmp_path: Path, token: str) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as home, home.stranger() as stranger:
            answer = await stranger.get("/", params={"token": token})
            assert answer.status_code == 401
            assert "set-cookie" not in answer.headers

    asyncio.run(scenario())


# The cookie


def test_a_session_outlives_a_restart_and_ends_with_its_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        async with house(tmp_path, clock=clock) as home:
            cookies = dict(home.client.cookies)
        file = tmp_path / "sessions"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        async with house(tmp_path, clock=clock) as home, home.stranger() as back:
            back.cookies.update(cookies)
            assert (await back.get("/api/v1/me")).status_code == 200
            clock.advance(7 * 24 * 3600 + 1)
            assert_fault(await back.get("/api/v1/me"), 401, "not_signed_in")

    asyncio.run(scenario())


def test_a_changed_cookie_is_worth_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as home, home.stranger() as forger:
            [(name, cookie)] = home.client.cookies.items()
            version, payload, mac = cookie.split(".")
            raw = json.loads(base64.urlsafe_b64decode(payload + "=="))
            raw["until_us"] *= 2
            longer = base64.urlsafe_b64encode(json.dumps(raw).encode()).decode().rstrip("=")
            flipped = ("B" if mac[0] == "A" else "A") + mac[1:]
            for made in (
                f"{version}.{longer}.{mac}",
                f"{version}.{payload}.{flipped}",
                f"{version}.{payload}.",
                f"v2.{payload}.{mac}",
                payload,
                "",
                "v1..",
                "v1.e30." + mac,
                cookie + "A" * 2000,
            ):
                forger.cookies.set(name, made)
                assert_fault(await forger.get("/api/v1/me"), 401, "not_signed_in")
            forger.cookies.set(name, cookie)
            assert (await forger.get("/api/v1/me")).status_code == 200

    asyncio.run(scenario())


def test_a_logout_ends_the_session_for_copies_of_its_cookie_too_and_after_a_restart(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as home:
            cookies = dict(home.client.cookies)
            assert (await home.client.post("/api/v1/logout")).json() == {"signed_out": True}
            async with home.stranger() as copy:
                copy.cookies.update(cookies)
                assert_fault(await copy.get("/api/v1/me"), 401, "not_signed_in")
        async with house(tmp_path) as home, home.stranger() as copy:
            copy.cookies.update(cookies)
            assert_fault(await copy.get("/api/v1/me"), 401, "not_signed_in")

    asyncio.run(scenario())


def test_a_new_password_ends_the_sessions_of_the_old(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path, users=people()) as home:
            await login(home, "ada")
            cookies = dict(home.client.cookies)
        async with house(tmp_path, users=people()) as home:  # the same words, hashed anew
            home.client.cookies.update(cookies)
            assert_fault(await home.client.get("/api/v1/me"), 401, "not_signed_in")

    asyncio.run(scenario())


# Users


def test_who_signs_in_is_named_by_what_they_do(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path, users=people()) as home:
            await asking(home.kernel, "m1")
            await login(home, "ada")
            me = (await home.client.get("/api/v1/me")).json()
            assert (me["name"], me["role"], me["tenants"]) == ("ada", "admin", ["default", "acme"])
            answer = await home.client.post("/api/v1/runs/m1/approve", json={"note": "looks good"})
            assert answer.json()["effect"] == "approval.given"
            events = [event async for event in home.kernel.events()]
            given = next(event for event in events if event.kind == "command.given")
            assert given.actor == "user:ada"

    asyncio.run(scenario())


def test_a_viewer_reads_and_changes_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path, users=people()) as home:
            await asking(home.kernel, "m1")
            await login(home, "vic")
            assert (await home.client.get("/api/v1/runs/m1")).status_code == 200
            before = (await home.kernel.store.root())[0]
            for path, methods in documented().items():
                for method in methods:
                    if method == "get" or path.endswith(("/login", "/logout", "/me")):
                        continue
                    address = path.replace("{run_id}", "m1")
                    answer = await home.client.request(method, address, json={})
                    assert_fault(answer, 403, "access_denied")
            assert (await home.kernel.store.root())[0] == before
            assert (await home.client.post("/api/v1/logout")).status_code == 200

    asyncio.run(scenario())


def test_another_tenant_and_its_ids_are_simply_not_found(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path, "hello", users=people()) as home:
            await spoken(home.kernel, "acme-secret", "the canary", tenant="acme")
            await asking(home.kernel, "acme-asks", tenant="acme")
            await login(home, "vic")
            for path in (
                "",
                "/steps",
                "/tree",
                "/cost",
                "/approvals",
                "/events",
                "/export",
                "/manifest?step=1",
                "/prompt?step=1",
                "/prompt/diff?a=1&b=1",
            ):
                answer = await home.client.get(f"/api/v1/runs/acme-secret{path}")
                assert_fault(answer, 404, "not_found")
            for path in ("/api/v1/runs", "/api/v1/approvals", "/api/v1/events"):
                answer = await home.client.get(path)
                assert "acme" not in answer.text and "canary" not in answer.text
            refused = await home.client.get("/api/v1/runs", headers={"X-Artelier-Tenant": "acme"})
            assert_fault(refused, 404, "not_found")
            await login(home, "ada")
            chosen = await home.client.get("/api/v1/runs", headers={"X-Artelier-Tenant": "acme"})
            assert [run["id"] for run in chosen.json()["items"]] == ["acme-secret", "acme-asks"]
            kept = await home.client.patch("/api/v1/me", json={"tenant": "acme"})
            assert kept.status_code == 200
            assert (await home.client.get("/api/v1/me")).json()["tenant"] == "acme"

    asyncio.run(scenario())


def test_a_header_makes_no_tenant(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path) as home:
            for name in ("nobody", "..", "a b"):
                answer = await home.client.get("/api/v1/runs", headers={"X-Artelier-Tenant": name})
                assert_fault(answer, 404, "not_found")
            assert (await home.client.get("/api/v1/me")).json()["tenants"] == ["default"]

    asyncio.run(scenario())


def test_a_program_acts_with_its_token_alone(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with house(tmp_path, users=people()) as home:
            await asking(home.kernel, "m1", tenant="acme")
            async with home.stranger(Authorization=f"Bearer {TOKEN}") as robot:
                paused = await robot.post("/api/v1/runs/m1/pause", json={})
                assert paused.json()["effect"] == "run.paused"
                assert (await robot.get("/api/v1/me")).json()["csrf_token"] is None
            async with home.stranger(Authorization=f"Bearer {token_hash(TOKEN)}") as thief:
                assert_fault(await thief.get("/api/v1/me"), 401, "not_signed_in")

    asyncio.run(scenario())


def test_no_session_that_was_ended_ever_comes_back(tmp_path: Path) -> None:
    """However often people sign out: the file that remembers it is bounded, by ending more, never less."""
    clock, file, stamp = ManualClock(), tmp_path / "sessions", b"s" * 32
    sessions = Sessions(clock, file)

    def begun(user: str) -> str:
        clock.advance(1)
        return sessions.begin(user, stamp)

    def lives(cookie: str, there: Sessions) -> bool:
        session = there.read(cookie)
        assert session is not None
        return there.proves(cookie, session, stamp)

    other, older = begun("vic"), begun("ada")
    ended = [begun("ada") for _ in range(ENDED_MAX + 5)]
    newer = begun("ada")
    for cookie in ended[:ENDED_MAX]:
        session = sessions.read(cookie)
        assert session is not None
        sessions.end(session)
    assert lives(older, sessions)
    for cookie in ended[ENDED_MAX:]:
        session = sessions.read(cookie)
        assert session is not None
        sessions.end(session)

    for there in (sessions, Sessions(clock, file)):
        assert not any(lives(cookie, there) for cookie in ended)
        assert not lives(older, there), "ended with those that are not kept one by one"
        assert lives(newer, there) and lives(other, there)
    assert file.read_text().count(":") < ENDED_MAX + 20


def test_guessing_is_slowed_down_whether_or_not_the_name_exists(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        async with house(tmp_path, clock=clock, users=people()) as home:
            for name in ("ada", "nobody"):
                guess = {"user": name, "password": "wrong password"}
                for _ in range(5):
                    answer = await home.client.post("/api/v1/login", json=guess)
                    assert_fault(answer, 401, "not_signed_in")
                limited = await home.client.post("/api/v1/login", json=guess)
                assert_fault(limited, 429, "too_many_attempts")
                assert int(limited.headers["retry-after"]) > 0
            right = {"user": "ada", "password": PASSWORD}
            assert (await home.client.post("/api/v1/login", json=right)).status_code == 429
            clock.advance(301)
            assert (await home.client.post("/api/v1/login", json=right)).status_code == 200

    asyncio.run(scenario())


def test_who_guesses_locks_out_nobody_elsewhere(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with (
            house(tmp_path, clock=ManualClock(), users=people()) as home,
            home.stranger(address="2001:db8::bad") as thief,
            home.stranger(address="2001:db8::bad:2") as neighbour,
            home.stranger(address="192.0.2.7") as ada,
        ):
            attempts: Attempts = home.app.state.attempts
            guess = {"user": "ada", "password": "wrong password"}
            right = {"user": "ada", "password": PASSWORD}
            for _ in range(5):
                assert (await thief.post("/api/v1/login", json=guess)).status_code == 401
            for client in (thief, neighbour):
                refused = await client.post("/api/v1/login", json=right)
                assert_fault(refused, 429, "too_many_attempts")
            for number in range(95):  # as the route counts them, without a hundred scrypts
                attempts.begin(f"n{number}", "2001:db8::bad")
            unknown = await thief.post("/api/v1/login", json={"user": "vic", "password": PASSWORD})
            assert_fault(unknown, 429, "too_many_attempts")
            assert (await ada.post("/api/v1/login", json=right)).status_code == 200

    asyncio.run(scenario())


def test_whoever_signed_in_at_an_address_does_not_wait_for_those_who_guess() -> None:
    """400 addresses with a wrong password each made a user wait for 16 seconds."""

    async def scenario() -> None:
        attempts, gate = Attempts(ManualClock()), asyncio.Event()

        async def guess(address: str) -> None:
            async with attempts.turn(address):
                await gate.wait()

        attempts.note_success("ada", "2001:db8::1")
        guessing = [asyncio.create_task(guess(f"192.0.2.{number}")) for number in range(50)]
        await asyncio.sleep(0)
        async with asyncio.timeout(PATIENCE_S), attempts.turn("2001:db8::2"):
            assert not any(one.done() for one in guessing)
        gate.set()
        await asyncio.gather(*guessing)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("user", "said"),
    [
        ({"name": "a b", "role": "admin", "tenants": ["t"], "tokens": [token_hash("x")]}, "name"),
        ({"name": "a", "role": "root", "tenants": ["t"], "tokens": [token_hash("x")]}, "role"),
        ({"name": "a", "role": "admin", "tenants": [], "tokens": [token_hash("x")]}, "tenants"),
        ({"name": "a", "role": "admin", "tenants": ["../x"], "tokens": [token_hash("x")]}, "tenant"),
        ({"name": "a", "role": "admin", "tenants": ["t"], "password": "hunter2"}, "hashed"),
        ({"name": "a", "role": "admin", "tenants": ["t"], "password": "scrypt:AA:AA"}, "hashed"),
        ({"name": "a", "role": "admin", "tenants": ["t"], "tokens": ["plain"]}, "hashed"),
        ({"name": "a", "role": "admin", "tenants": ["t"]}, "never sign in"),
        ({"name": "a", "role": "admin", "tenants": ["t"], "sudo": True}, "sudo"),
        ("a", "no table"),
    ],
)
def test_a_broken_file_of_users_is_refused_with_the_field(user: object, said: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        Users.parse({"users": [user]})

    assert said in str(caught.value)


def test_a_file_of_users_is_read_as_it_is_documented(tmp_path: Path) -> None:
    file = tmp_path / "users.toml"
    line = password_hash(PASSWORD)
    file.write_text(
        f'[[users]]\nname = "ada"\nrole = "operator"\ntenants = ["default"]\npassword = "{line}"\n'
    )

    users = Users.load(file)

    found = users.with_password("ada", PASSWORD)
    assert found is not None and found.role == "operator"
    assert users.with_password("ada", "another") is None
    for content in (b"\xff\xfe", b"users = 1", b"[[users]", b""):
        file.write_bytes(content)
        with pytest.raises(ArtelierError):
            Users.load(file)


def test_without_users_only_this_machine_may_reach_the_server() -> None:
    for host in ("0.0.0.0", "::", "192.168.1.4", "desk.example"):
        with pytest.raises(InvalidConfig):
            ServerSettings(host=host)
    assert ServerSettings(host="0.0.0.0", users=people()).users is not None
