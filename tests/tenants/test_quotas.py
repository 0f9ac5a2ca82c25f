"""Quotas: one tenant takes no more than its share, and is told how much that is and what to do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from artelier.cli.settings.file import load_settings
from artelier.errors import InvalidConfig, TooManyAtOnce
from artelier.kernel.rates import Quota, Quotas
from artelier.server.event_encoder import Filter
from artelier.server.live_hub import Hub
from tests.cli.conftest import Shell, shell
from tests.server.house import until
from tests.server.routes.served import Served, at, good, play, refused, serving

__all__ = ["shell"]


def with_quota(served: Served, **quota: int) -> None:
    """`default` has a quota of its own, `other` has the usual one."""
    served.kernel.services.quotas = Quotas(tenants={"default": Quota(**quota)})


def test_who_has_stored_enough_reads_deletes_and_ends_work_and_stores_no_more(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            ada = served.ada
            note = {"id": "note", "kind": "document", "content": "x" * 50_000}
            good(await ada.post("/artifacts", json=note), 201)
            shown = good(await ada.get("/tenants/me"))["quotas"]
            assert shown["stored_bytes"] >= 50_000 and shown["stored_bytes_max"] == 20 * 2**30
            with_quota(served, stored_bytes_max=60_000)
            file = {"file": ("big.txt", b"y" * 20_000)}
            told = refused(await ada.post("/uploads", files=file), 507, "quota_reached")
            assert told["expected"] == "at most 60000 bytes" and "[quotas]" in told["hint"]
            with_quota(served, stored_bytes_max=40_000)
            for address, body in (
                ("/artifacts", {**note, "id": "more"}),
                ("/worlds", {"id": "w", "world": {}}),
                ("/god-mode/plan", {"goal": "g", "model": "m"}),
                (at("artifacts", "note", "read"), {}),
            ):
                refused(await ada.post(address, json=body), 507, "quota_reached")
            assert good(await ada.get(at("artifacts", "note")))["version"] == 1
            good(await ada.post("/runs/stop-all", json={}))
            good(await served.eve.post("/artifacts", json=note), 201)
            assert good(await served.eve.get("/tenants/me"))["quotas"]["stored_bytes"] < 60_000
            assert (await ada.delete(at("artifacts", "note"))).status_code == 204

    play(scenario())


def test_what_is_new_is_counted_as_if_all_were_counted_anew(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            ada, store = served.ada, served.kernel.store
            note = {"id": "note", "kind": "document", "content": "x" * 50_000}
            good(await ada.post("/artifacts", json=note), 201)
            quotas = Quotas(Quota(stored_bytes_max=50_100))
            before = await quotas.stored_bytes(store, "default")
            good(await ada.post("/artifacts", json={**note, "id": "b", "content": "y" * 10}), 201)
            assert await quotas.stored_bytes(store, "default") > before
            assert await quotas.stored_bytes(store, "default") == await quotas.stored_bytes(
                store, "default", anew=True
            )

    play(scenario())


def test_ticks_of_one_request_are_bounded(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            good(await served.ada.post("/worlds", json={"id": "w", "world": {}}), 201)
            with_quota(served, ticks_max=3)
            for verb, body in (("run", {"ticks": 4}), ("tick", {"count": 4})):
                told = refused(await served.ada.post(at("worlds", "w", verb), json=body), 413)
                assert (told["expected"], told["got"]) == ("at most 3", 4) and told["hint"]
            good(await served.ada.post(at("worlds", "w", "tick"), json={"count": 3}))

    play(scenario())


def test_uploads_at_once_are_bounded_for_each_tenant(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            with_quota(served, uploads_max=1)
            held, go = asyncio.Event(), asyncio.Event()

            async def slow() -> AsyncIterator[bytes]:
                yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
                held.set()
                await go.wait()
                yield b"text\r\n--b--\r\n"

            form = {"Content-Type": "multipart/form-data; boundary=b"}
            first = asyncio.create_task(served.ada.post("/uploads", content=slow(), headers=form))
            await until(lambda: served.app.state.uploads["default"] == 1)
            file = {"file": ("b.txt", b"b")}
            told = refused(await served.ada.post("/uploads", files=file), 429, "too_many_at_once")
            assert told["expected"] == "at most 1" and told["hint"]
            good(await served.eve.post("/uploads", files=file), 201)
            go.set()
            good(await first, 201)
            good(await served.ada.post("/uploads", files=file), 201)

    play(scenario())


def test_live_streams_of_a_tenant_are_bounded_by_its_quota(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            with_quota(served, streams_max=1)
            hub: Hub = served.app.state.hub
            first = await hub.stream(Filter(tenant="default"), after=0, user="ada")
            assert await anext(first)
            with pytest.raises(TooManyAtOnce, match="of this tenant"):
                await hub.stream(Filter(tenant="default"), after=0, user="vic")
            answer = await served.vic.get("/events/stream")
            assert refused(answer, 429, "too_many_at_once")["expected"] == "at most 1"
            other = await hub.stream(Filter(tenant="other"), after=0, user="eve")
            assert await anext(other)
            for one in (first, other):
                await one.aclose()  # type: ignore[attr-defined] - a generator

    play(scenario())


def test_quotas_come_from_settings_and_are_shown(shell: Shell) -> None:
    shell.write(
        "artelier.toml", "[quotas]\nticks = 5\nstored_bytes = 1000\n[quotas.tenants.acme]\nticks = 7\n"
    )
    shell("tenants", "update", "acme", "--unlimited")

    quotas = load_settings(None, environ={}).quotas
    shown = shell("tenants", "show", "acme", "--json").json["quotas"]

    assert quotas is not None and quotas.of("beta") == Quota(ticks_max=5, stored_bytes_max=1000)
    assert quotas.of("acme") == Quota(ticks_max=7, stored_bytes_max=1000)
    assert (shown["ticks_max"], shown["stored_bytes_max"], shown["uploads_max"]) == (7, 1000, 8)
    assert "at most 7 a request" in shell("tenants", "show", "acme").out
    with pytest.raises(InvalidConfig):
        Quota(ticks_max=-1)
