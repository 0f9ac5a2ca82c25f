"""`http_json` against servers of this machine: what it asks and refuses, and what becomes of side effects."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, Policy, RunSuspended
from artelier.errors import InvalidConfig
from artelier.tools.http_json import BODY_BYTES_MAX, http_json_tool
from artelier.tools.http_rules import HttpRule
from tests.tools.web import Says, Seen, bomb, certified, served

EAGER = Policy(backoff_s=0.0)


def called(
    path: Path, allow: list[Any], *calls: dict[str, Any], policy: Policy = EAGER, **options: Any
) -> list[Any]:
    """The values of steps of one run, each `(is_error, value)`; the status where the run stopped."""

    async def scenario() -> list[Any]:
        tool = http_json_tool(allow, environ=options.pop("environ", {}), **options)
        found: list[Any] = []
        with Kernel.open(path / "state.db", tools=[tool], environ={}, policy=policy) as kernel:
            try:
                async with kernel.run("r", on_wait="suspend") as run:
                    for call in calls:
                        result = await run.step_tool("http_json", call)
                        found.append((result.is_error, result.value))
            except RunSuspended as suspended:
                found.append(suspended.status)
        return found

    return asyncio.run(scenario())


def refused(found: list[Any]) -> str:
    """Why the only call was refused."""
    [(is_error, value)] = found
    assert is_error
    return value["error"]["message"]


def local(url: str, **more: Any) -> HttpRule:
    return HttpRule(url=url, private=True, **more)


def test_reads_json_of_an_allowed_url(tmp_path: Path) -> None:
    with served(lambda seen: Says(value={"path": seen.path})) as site:
        found = called(tmp_path, [local(site.url)], {"url": site.url + "v1/items?q=1"})

    assert found == [(False, {"status": 200, "body": {"path": "/v1/items?q=1"}})]
    assert site.seen[0].method == "GET"
    assert site.seen[0].headers["host"] == f"localhost:{site.port}"
    assert "cookie" not in site.seen[0].headers


def test_sends_a_side_effect_once_with_the_idempotency_key_of_its_step(tmp_path: Path) -> None:
    call = {"method": "POST", "body": {"amount": 5}}
    with served(lambda seen: Says(status=201, value={"id": 7})) as site:
        found = called(tmp_path, [local(site.url)], {"url": site.url, **call})

    assert found == [(False, {"status": 201, "body": {"id": 7}})]
    [seen] = site.seen
    assert seen.headers["idempotency-key"] == "default/r:1"
    assert seen.headers["content-type"] == "application/json"
    assert seen.body == b'{"amount":5}'


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422, 429])
def test_a_refused_side_effect_is_an_error_to_read(tmp_path: Path, status: int) -> None:
    with served(lambda seen: Says(status=status, value={"why": "no"})) as site:
        found = called(tmp_path, [local(site.url)], {"url": site.url, "method": "POST"})

    assert str(status) in refused(found)
    assert len(site.seen) == 1


@pytest.mark.parametrize(
    "says",
    [
        Says(status=500),
        Says(status=503),
        Says(status=409),
        Says(status=302),
        Says(is_gone=True),
        Says(is_cut=True),
        Says(raw=bomb(10), headers={"content-encoding": "br"}),
    ],
)
def test_what_became_of_a_side_effect_is_never_guessed(tmp_path: Path, says: Says) -> None:
    with served(lambda seen: says) as site:
        found = called(tmp_path, [local(site.url)], {"url": site.url, "method": "DELETE"})

    assert found == ["unknown_outcome"]
    assert len(site.seen) == 1, "it is not dispatched again"


def test_a_side_effect_that_could_not_be_sent_did_not_happen(tmp_path: Path) -> None:
    with served(lambda seen: Says()) as site:
        url = site.url
    found = called(tmp_path, [local(url)], {"url": url, "method": "POST"})

    assert "nothing was sent" in refused(found)


def test_a_done_side_effect_counts_as_done_whatever_its_reply_is(tmp_path: Path) -> None:
    with served(lambda seen: Says(raw=b"<html>", kind="text/html")) as site:
        found = called(tmp_path, [local(site.url)], {"url": site.url, "method": "PUT"})

    assert found == [(False, {"status": 200, "body": {"note": "the reply is no JSON but text/html"}})]


def test_reading_is_tried_again_when_the_server_stumbles(tmp_path: Path) -> None:
    answers = [Says(status=503), Says(is_gone=True), Says(value="well")]
    with served(lambda seen: answers.pop(0)) as site:
        found = called(tmp_path, [local(site.url)], {"url": site.url})

    assert found == [(False, {"status": 200, "body": "well"})]
    assert len(site.seen) == 3


@pytest.mark.parametrize(
    ("says", "why"),
    [
        (Says(raw=b"<html>", kind="text/html"), "no JSON"),
        (Says(raw=b"{broken"), "is none"),
        (Says(raw=b"[" * 100_000), "is none"),
        (Says(raw=bomb(BODY_BYTES_MAX + 10), headers={"content-encoding": "gzip"}), "too large"),
        (Says(raw=b'"' + b"a" * BODY_BYTES_MAX + b'"'), "too large"),
        (Says(raw=b"x", headers={"content-encoding": "deflate"}), "packed"),
        (Says(status=404, value={"why": "none"}), "404"),
    ],
)
def test_an_unusable_reply_is_an_error_to_read(tmp_path: Path, says: Says, why: str) -> None:
    with served(lambda seen: says) as site:
        found = called(tmp_path, [local(site.url)], {"url": site.url})

    assert why in refused(found)


def test_a_packed_reply_is_unpacked(tmp_path: Path) -> None:
    with served(lambda seen: Says(raw=bomb(1_000), headers={"content-encoding": "gzip"})) as site:
        found = called(tmp_path, [local(site.url)], {"url": site.url})

    assert found == [(False, {"status": 200, "body": "a" * 1_000})]


def test_a_rules_path_is_a_border(tmp_path: Path) -> None:
    with served(lambda seen: Says(value=1)) as site:
        paths = ("v2/x", "v1", "v1x/", "v1/../v2", "v1/%2e%2e/v2", "v1%2fx", "v1/..;/v2", "v1/..%3b/v2")
        found = called(tmp_path, [local(site.url + "v1/")], *({"url": site.url + path} for path in paths))

    assert [is_error for is_error, _ in found] == [True] * len(paths)
    assert site.seen == []


def test_this_machine_is_not_asked_unless_a_rule_says_so(tmp_path: Path) -> None:
    with served(lambda seen: Says(value="secret")) as site:
        hosts = ("localhost", "127.0.0.1", "[::ffff:127.0.0.1]")
        urls = [f"http://{host}:{site.port}/" for host in hosts]
        found = called(tmp_path, urls, *({"url": url} for url in urls))

    for is_error, value in found:
        assert is_error
        assert "must not be called" in value["error"]["message"]
    assert site.seen == []


def test_a_name_is_asked_once_and_the_checked_address_is_the_one_that_is_called(tmp_path: Path) -> None:
    """A second look would lead elsewhere: nobody takes one."""
    answers = [["127.0.0.1"], ["169.254.169.254"]]

    with served(lambda seen: Says(value="here")) as site:
        url = f"http://api.example.test:{site.port}/"
        found = called(tmp_path, [local(url)], {"url": url}, resolve=lambda host, port: answers.pop(0))

    assert found == [(False, {"status": 200, "body": "here"})]
    assert answers == [["169.254.169.254"]]
    assert site.seen[0].headers["host"] == f"api.example.test:{site.port}"


def test_a_name_with_one_forbidden_address_is_refused_whole(tmp_path: Path) -> None:
    with served(lambda seen: Says()) as site:
        url = f"http://api.example.test:{site.port}/"
        addresses = ["127.0.0.1", "169.254.169.254"]
        found = called(tmp_path, [local(url)], {"url": url}, resolve=lambda host, port: addresses)

    assert "must not be called" in refused(found)
    assert site.seen == []


def test_redirects_are_followed_only_to_allowed_urls_and_not_for_ever(tmp_path: Path) -> None:
    def answer(seen: Seen) -> Says:
        if seen.path == "/v1/go":
            return Says(status=302, headers={"location": "/v1/there"})
        if seen.path == "/v1/out":
            return Says(status=302, headers={"location": "/admin"})
        if seen.path == "/v1/metadata":
            return Says(status=302, headers={"location": "http://169.254.169.254/latest/"})
        if seen.path == "/v1/round":
            return Says(status=307, headers={"location": "/v1/round"})
        return Says(value=seen.path)

    with served(answer) as site:
        rule = local(site.url + "v1/")
        paths = ("go", "out", "metadata", "round")
        found = called(tmp_path, [rule], *({"url": f"{site.url}v1/{path}"} for path in paths))

    assert found[0] == (False, {"status": 200, "body": "/v1/there"})
    assert [is_error for is_error, _ in found] == [False, True, True, True]
    assert [seen.path for seen in site.seen].count("/v1/round") == 4
    assert "/admin" not in [seen.path for seen in site.seen]


def test_headers_of_a_rule_and_of_a_call_do_not_cross_to_another_host(tmp_path: Path) -> None:
    with served(lambda seen: Says(value="other")) as other:
        onward = other.url.replace("localhost", "127.0.0.1")
        with served(lambda seen: Says(status=302, headers={"location": onward})) as site:
            allow = [local(site.url, headers={"Authorization": "Bearer env:TOKEN"}), local(onward)]
            called(
                tmp_path,
                allow,
                {"url": site.url, "headers": {"prefer": "short"}},
                environ={"TOKEN": "s3cret-value"},
            )

    assert site.seen[0].headers["authorization"] == "Bearer s3cret-value"
    assert site.seen[0].headers["prefer"] == "short"
    assert not {"authorization", "prefer"} & other.seen[0].headers.keys()


def test_a_secret_is_never_stored_even_if_the_server_sends_it_back(tmp_path: Path) -> None:
    def echo(seen: Seen) -> Says:
        return Says(status=400 if seen.path == "/bad" else 200, value=dict(seen.headers))

    with served(echo) as site:
        rule = local(site.url, headers={"X-Api-Key": "env:TOKEN"})
        found = called(
            tmp_path, [rule], {"url": site.url}, {"url": site.url + "bad"}, environ={"TOKEN": "s3cret-value"}
        )

    assert site.seen[0].headers["x-api-key"] == "s3cret-value"
    assert found[0][1]["body"]["x-api-key"] == "[secret]"
    assert "s3cret" not in str(found)
    for file in tmp_path.iterdir():
        assert b"s3cret-value" not in file.read_bytes()


def test_a_missing_secret_is_an_error_before_anything_is_sent(tmp_path: Path) -> None:
    with served(lambda seen: Says()) as site:
        rule = local(site.url, headers={"Authorization": "Bearer env:TOKEN"})
        found = called(tmp_path, [rule], {"url": site.url, "method": "POST"})

    assert "needs a secret" in refused(found)
    assert site.seen == []


@pytest.mark.parametrize(
    "name", ["Authorization", "Host", "Cookie", "X-HTTP-Method-Override", "X-Original-URL", "Te"]
)
def test_a_call_sets_no_header_that_changes_who_asks_or_what(tmp_path: Path, name: str) -> None:
    with served(lambda seen: Says()) as site:
        call = {"url": site.url, "headers": {name: "x"}}
        assert "cannot be set" in refused(called(tmp_path, [local(site.url)], call))

    assert site.seen == []


def test_a_header_value_cannot_carry_a_second_request(tmp_path: Path) -> None:
    with served(lambda seen: Says()) as site:
        call = {"url": site.url, "headers": {"prefer": "a\r\nX: y"}}
        assert refused(called(tmp_path, [local(site.url)], call))

    assert site.seen == []


def test_the_certificate_must_be_of_the_host_that_was_named(tmp_path: Path) -> None:
    server, client = certified(tmp_path, "localhost", "api.example.test")
    with served(lambda seen: Says(value="safe"), tls=server) as site:
        good = f"https://api.example.test:{site.port}/"
        bad = f"https://other.example.test:{site.port}/"
        options: dict[str, Any] = {"resolve": lambda host, port: ["127.0.0.1"], "policy": EAGER}
        assert called(tmp_path, [local(good)], {"url": good}, context=client, **options) == [
            (False, {"status": 200, "body": "safe"})
        ]
        (tmp_path / "b").mkdir()
        found = called(tmp_path / "b", [local(bad)], {"url": bad}, context=client, **options)
        assert "no trustworthy connection" in refused(found)
        (tmp_path / "c").mkdir()
        found = called(tmp_path / "c", [local(good)], {"url": good}, **options)
        assert "no trustworthy connection" in refused(found), "an authority that nobody trusts"

    assert len(site.seen) == 1


def test_from_https_no_redirect_leads_to_http(tmp_path: Path) -> None:
    server, client = certified(tmp_path, "localhost")
    with served(lambda seen: Says(value="plain")) as plain:
        onward = Says(status=302, headers={"location": plain.url})
        with served(lambda seen: onward, tls=server) as site:
            found = called(tmp_path, [local(site.url), local(plain.url)], {"url": site.url}, context=client)

    assert "not encrypted" in refused(found)
    assert plain.seen == []


def test_proxies_of_the_environment_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(lambda seen: Says()) as proxy, served(lambda seen: Says(value=1)) as site:
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        assert called(tmp_path, [local(site.url)], {"url": site.url})[0][0] is False

    assert proxy.seen == []


def test_a_person_is_asked_before_a_side_effect_and_not_before_reading(tmp_path: Path) -> None:
    policy = Policy(approve_risk="high", backoff_s=0.0)
    with served(lambda seen: Says(value=1)) as site:
        found = called(
            tmp_path, [local(site.url)], {"url": site.url}, {"url": site.url, "method": "POST"}, policy=policy
        )

    assert found == [(False, {"status": 200, "body": 1}), "waiting_approval"]
    assert [seen.method for seen in site.seen] == ["GET"]


def test_what_was_only_read_is_no_side_effect_that_stays(tmp_path: Path) -> None:
    async def scenario(url: str) -> tuple[str, ...]:
        tool = http_json_tool([local(url)], environ={})
        with Kernel.open(tmp_path / "state.db", tools=[tool], environ={}) as kernel:
            async with kernel.run("r") as run:
                await run.step_tool("http_json", {"url": url}, key="read")
                await run.step_tool("http_json", {"url": url, "method": "POST"}, key="sent")
                return (await run.compensate()).not_undone

    with served(lambda seen: Says(value={})) as site:
        assert asyncio.run(scenario(site.url)) == ("sent",)


def test_a_server_that_says_nothing_is_left(tmp_path: Path) -> None:
    import threading

    over = threading.Event()

    def hang(seen: Seen) -> Says:
        over.wait(30)
        return Says()

    with served(hang) as site:
        found = called(tmp_path, [local(site.url)], {"url": site.url}, timeout_s=0.2)
        over.set()

    assert refused(found)


@pytest.mark.parametrize(
    "allow",
    [
        "https://api.example.com/",
        [5],
        [{"uri": "https://a/"}],
        ["ftp://a/"],
        ["https://a/?q=1"],
        ["https://user:pw@a/"],
        [{"url": "https://a/", "private": "yes"}],
        [{"url": "https://a/", "headers": {"Authorization": "Bearer abc"}}],
        [{"url": "http://a/", "headers": {"Authorization": "env:TOKEN"}}],
        [{"url": "https://a/", "headers": {"Host": "b"}}],
        [{"url": "https://a/", "headers": {"X-Note": "a\r\nb"}}],
    ],
)
def test_a_list_that_says_something_else_is_refused(allow: Any) -> None:
    with pytest.raises(InvalidConfig):
        http_json_tool(allow)
