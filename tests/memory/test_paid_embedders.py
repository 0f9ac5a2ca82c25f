"""An embedder of a provider, asked in a run, is a call of that run: allowed, timed, paid for, recorded."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, Policy, Price, Rate, RunSuspended, Tenant
from artelier.errors import InsufficientFunds, RunStopped
from artelier.kernel import Limits
from artelier.kernel.queries.costs import spending
from artelier.memory import LogMemory, LogMemoryStore
from artelier.memory.embedders.provider import ProviderEmbedder
from artelier.memory.embedders.registry import HashingEmbedder, paid_by_person
from artelier.testing import ManualClock
from artelier.testing.openai_server import Fault, OpenAIServer
from artelier.testing.openai_wire import embeddings
from artelier.world.stores import entries as kind
from tests.kernel.crashes import Deaths
from tests.kernel.stage import World, assert_conserved, balances
from tests.world.memories import acting, add, find, make_store, settled

MODEL = "openai:small"
PRICE = Price(input="1")  # pyright: ignore[reportArgumentType] - text is taken for what it says
"""A micro-dollar per token."""
ACME = Tenant("acme", budget_usd="1.00")
EAGER = Policy(backoff_s=0.0)


def play(scenario: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await scenario

    asyncio.run(bounded())


def opened(path: Path, policy: Policy = EAGER) -> Kernel:
    return Kernel.open(path / "state.db", environ={}, policy=policy, prices={MODEL: PRICE})


def memory_of(kernel: Kernel, server: OpenAIServer) -> LogMemory:
    embedder = ProviderEmbedder("small", base_url=server.base_url, api_key="k")
    store = LogMemoryStore(kernel.store, kernel.services.clock, embedder=embedder)
    return store.for_agent("acme", "ana")


async def used(
    kernel: Kernel,
    memory: LogMemory,
    *calls: tuple[str, dict[str, Any]],
    run_id: str = "r",
    tenant: Tenant = ACME,
) -> list[Any]:
    """Results of tools of a memory, one after the other."""
    found: list[Any] = []
    async with kernel.run(
        run_id, tenant=tenant, agent="ana", tools={one.name: one for one in memory.tools()}, on_wait="suspend"
    ) as run:
        for name, arguments in calls:
            found.append(await run.step_tool(name, arguments))
        run.finish("done")
    return found


KEEP = ("remember", {"text": "the code of the locker is 4711"})
FIND = ("recall", {"query": "locker code"})


def test_what_a_tool_embeds_is_paid_for_by_its_run_and_told_by_model(tmp_path: Path) -> None:
    async def scenario() -> None:
        with OpenAIServer([]) as server, opened(tmp_path) as kernel:
            kept, found = await used(kernel, memory_of(kernel, server), KEEP, FIND)
            assert not kept.is_error
            assert [hit["text"] for hit in found.value] == [KEEP[1]["text"]]

            tokens = sum(embeddings(one.body)["usage"]["prompt_tokens"] for one in server.requests)
            assert len(server.requests) == 2
            assert (await balances(kernel, "acme"))["spent"] == tokens > 0
            await assert_conserved(kernel, "acme")
            told = await spending(kernel.store, "acme", since_us=0)
            assert [(one.model, one.calls, one.cost_microusd) for one in told] == [(MODEL, 2, tokens)]

    play(scenario())


def test_a_vector_that_was_paid_for_is_as_good_as_one_that_was_not() -> None:
    async def scenario() -> None:
        with OpenAIServer([]) as server, Kernel.open(":memory:", prices={MODEL: PRICE}) as kernel:
            memory = memory_of(kernel, server)
            await used(kernel, memory, KEEP)
            [entry] = await memory.entries.entries(with_embedding=True)
            own = HashingEmbedder().vector(KEEP[1]["text"])
            assert entry.embedding == pytest.approx(own.tolist(), abs=1e-3)

    play(scenario())


@pytest.mark.parametrize(
    ("policy", "tenant"),
    [
        (Policy(models=("offline",)), ACME),
        (EAGER, Tenant("acme", grants={"tools:*", "models:offline"}, budget_usd="1.00")),
    ],
)
def test_an_embedder_that_is_not_allowed_is_not_asked(tmp_path: Path, policy: Policy, tenant: Tenant) -> None:
    async def scenario() -> None:
        with OpenAIServer([]) as server, opened(tmp_path, policy) as kernel:
            memory = memory_of(kernel, server)
            [refused] = await used(kernel, memory, KEEP, tenant=tenant)

            assert refused.is_error
            assert "openai:small" in refused.value["error"]["message"]
            assert server.requests == []
            assert await memory.entries.entries() == []
            assert "spent" not in await balances(kernel, "acme")

    play(scenario())


def test_an_embedder_without_a_known_price_is_not_free(tmp_path: Path) -> None:
    async def scenario() -> None:
        with OpenAIServer([]) as server:
            with Kernel.open(tmp_path / "state.db", environ={}) as kernel:
                [refused] = await used(kernel, memory_of(kernel, server), KEEP)
                assert "no price is known" in refused.value["error"]["message"]
            assert server.requests == []

    play(scenario())


def test_it_takes_its_turn_and_its_tokens_of_the_minute(tmp_path: Path) -> None:
    async def scenario() -> None:
        policy = Policy(rates={"openai": Rate(requests=10, tokens=10_000)})
        with OpenAIServer([]) as server, opened(tmp_path, policy) as kernel:
            await used(kernel, memory_of(kernel, server), KEEP, FIND)

            rows = await kernel.store.query("SELECT unit, sum(used) FROM rates GROUP BY unit")
            tokens = sum(embeddings(one.body)["usage"]["prompt_tokens"] for one in server.requests)
            assert dict(rows) == {"requests": 2, "tokens": tokens}

    play(scenario())


def test_without_money_nobody_is_asked_and_the_run_goes_on_when_there_is_some(tmp_path: Path) -> None:
    async def scenario() -> None:
        poor = Tenant("acme", budget_usd="0.000001")
        with OpenAIServer([]) as server, opened(tmp_path) as kernel:
            memory = memory_of(kernel, server)
            with pytest.raises(RunSuspended) as suspended:
                await used(kernel, memory, KEEP, tenant=poor)
            assert suspended.value.status == "budget_exhausted"
            assert server.requests == []

            await kernel.tenants.update("acme", budget_usd="1.00")
            [kept] = await used(kernel, memory, KEEP)
            assert not kept.is_error
            assert len(server.requests) == 1
            await assert_conserved(kernel, "acme")

    play(scenario())


def test_a_crash_after_the_vector_was_recorded_pays_for_it_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        deaths = Deaths(tmp_path / "state.db", World())
        with OpenAIServer([]) as server:
            with Kernel.open(
                tmp_path / "state.db", environ={}, policy=EAGER, prices={MODEL: PRICE}, fault=deaths
            ) as kernel:
                await used(kernel, memory_of(kernel, server), KEEP, FIND)
            assert len(deaths.found) > 5
            for death in deaths.found:
                before = len(server.requests)
                later = ManualClock(start_us=4_000_000_000_000_000)  # its lease has ended
                with Kernel.open(
                    death.path, environ={}, policy=EAGER, prices={MODEL: PRICE}, clock=later
                ) as kernel:
                    [(paid,)] = await kernel.store.query(
                        "SELECT count(*) FROM events WHERE kind = 'model.completed'"
                    )
                    kept, found = await used(kernel, memory_of(kernel, server), KEEP, FIND)
                    assert not kept.is_error and len(found.value) == 1
                    await assert_conserved(kernel, "acme")
                assert len(server.requests) - before == 2 - paid, death.point

    play(scenario())


def test_a_provider_that_stumbles_is_asked_again_and_each_attempt_is_an_event(tmp_path: Path) -> None:
    failures = [Fault.status(503), Fault.status(503)]

    def flaky(body: dict[str, Any]) -> dict[str, Any] | Fault:
        return failures.pop() if failures else embeddings(body)

    async def scenario() -> None:
        with OpenAIServer([], embed=flaky) as server, opened(tmp_path) as kernel:
            [kept] = await used(kernel, memory_of(kernel, server), KEEP)
            assert not kept.is_error
            assert len(server.requests) == 3
            rows = await kernel.store.query("SELECT count(*) FROM events WHERE kind = 'model.attempted'")
            assert rows == [(2,)]

    play(scenario())


def test_a_run_that_has_embedded_replays_without_asking_anybody(tmp_path: Path) -> None:
    async def scenario() -> None:
        with OpenAIServer([]) as server, opened(tmp_path) as kernel:
            memory = memory_of(kernel, server)
            await used(kernel, memory, KEEP, FIND)
            asked = len(server.requests)

            again = await used(kernel, memory, KEEP, FIND)

            assert all(one.replayed for one in again)
            assert len(server.requests) == asked

    play(scenario())


def test_what_was_embedded_is_nothing_that_was_said(tmp_path: Path) -> None:
    async def scenario() -> None:
        with OpenAIServer([]) as server, opened(tmp_path) as kernel:
            look = ("history_search", {"query": "locker code"})
            *_, said = await used(kernel, memory_of(kernel, server), KEEP, FIND, look)
            assert said.value == []

    play(scenario())


def test_a_program_of_its_own_asks_on_its_own_account(tmp_path: Path) -> None:
    async def scenario() -> None:
        with OpenAIServer([]) as server, opened(tmp_path) as kernel:
            await memory_of(kernel, server).remember("a note", key="n1")
            assert len(server.requests) == 1
            assert await balances(kernel, "acme") == {}

    play(scenario())


# Outside of runs


def test_what_a_person_searches_is_a_run_of_the_tenant_that_is_paid_for(tmp_path: Path) -> None:
    async def scenario() -> None:
        with OpenAIServer([]) as server, opened(tmp_path) as kernel:
            memory = memory_of(kernel, server)
            await used(kernel, memory, KEEP)
            before = (await balances(kernel, "acme"))["spent"]

            desk = kernel.for_tenant("acme")
            with paid_by_person(desk):
                [hit] = await memory.search("locker code")
            spent = (await balances(kernel, "acme"))["spent"] - before

            assert hit.text == KEEP[1]["text"]
            assert spent == embeddings(server.requests[-1].body)["usage"]["prompt_tokens"]
            [run] = [one for one in (await desk.runs())["items"] if one["id"] != "r"]
            assert (run["id"][:10], run["status"]) == ("embedding:", "completed")

    play(scenario())


def test_a_person_whose_tenant_has_no_money_is_told_and_nothing_stays_open(tmp_path: Path) -> None:
    async def scenario() -> None:
        with OpenAIServer([]) as server, opened(tmp_path) as kernel:
            memory = memory_of(kernel, server)
            await memory.remember("a note", key="n1")
            asked = len(server.requests)
            await kernel.tenants.open(Tenant("acme", budget_usd="0.000001"))
            desk = kernel.for_tenant("acme")

            with pytest.raises(InsufficientFunds, match="cannot be paid"), paid_by_person(desk):
                await memory.search("note")

            assert len(server.requests) == asked
            assert [one["status"] for one in (await desk.runs())["items"]] == ["cancelled"]
            await assert_conserved(kernel, "acme")

    play(scenario())


def test_what_an_agent_of_a_world_embeds_in_a_tick_is_paid_for_by_its_tenant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "openai:text-embedding-3-small"  # whose price is known
    policies = acting(ana=[add(KEEP[1]["text"]), find("locker code")])

    async def scenario() -> None:
        with OpenAIServer([]) as server:
            embedder = ProviderEmbedder(name[7:], base_url=server.base_url, api_key="k")
            monkeypatch.setitem(kind._registered, name, embedder)
            async with settled(tmp_path, "ana", policies=policies) as world:
                await make_store(world, "ana", embedder=name)

                passed = await world.run(ticks=2)

                assert [one.rejected for one in passed] == [0, 0]
                assert len(server.requests) == 2
                [(spent,)] = await world.host.services.store.query(
                    "SELECT balance FROM accounts WHERE space = 'main' AND account = 'spent'"
                )
                assert spent == 2, "a micro-dollar for each, rounded up"

    play(scenario())


@pytest.mark.parametrize("in_a_run", [True, False])
def test_personal_data_does_not_leave_with_a_query(tmp_path: Path, in_a_run: bool) -> None:
    async def scenario() -> None:
        policy = Policy(pii=True, backoff_s=0.0)
        environ = {"ARTELIER_VAULT_KEY": "a vault key for tests only"}
        with (
            OpenAIServer([]) as server,
            Kernel.open(
                tmp_path / "state.db", environ=environ, policy=policy, prices={MODEL: PRICE}
            ) as kernel,
        ):
            memory = memory_of(kernel, server)
            text = "write to kim.lee@example.com about the locker"
            await used(kernel, memory, ("remember", {"text": text}))
            if in_a_run:
                look = ("recall", {"query": "kim.lee@example.com locker"})
                [found] = await used(kernel, memory, look, run_id="r2")
                assert len(found.value) == 1
            else:
                with paid_by_person(kernel.for_tenant("acme")):
                    assert len(await memory.search("kim.lee@example.com locker")) == 1

            assert len(server.requests) == 2
            assert "kim.lee" not in str([one.body for one in server.requests])

    play(scenario())


# Commands, and calls side by side


def test_a_cancel_cuts_off_the_embedder_and_gives_back_what_it_held(tmp_path: Path) -> None:
    asked, over = threading.Event(), threading.Event()

    def hangs(body: dict[str, Any]) -> dict[str, Any]:
        asked.set()
        over.wait(30)
        return embeddings(body)

    async def scenario() -> None:
        with OpenAIServer([], embed=hangs) as server, opened(tmp_path) as kernel:
            try:
                work = asyncio.ensure_future(used(kernel, memory_of(kernel, server), KEEP))
                assert await asyncio.to_thread(asked.wait, 30)
                assert (await balances(kernel, "acme")).get("hold:r", 0) > 0

                await kernel.for_tenant("acme").cancel("r")

                with pytest.raises(RunStopped):
                    await work
                assert (await kernel.for_tenant("acme").show("r"))["status"] == "cancelled"
                await assert_conserved(kernel, "acme")
            finally:
                over.set()

    play(scenario())


def test_tools_that_embed_side_by_side_pay_each_for_itself(tmp_path: Path) -> None:
    async def scenario() -> None:
        with OpenAIServer([]) as server, opened(tmp_path) as kernel:
            memory = memory_of(kernel, server)
            tools = {one.name: one for one in memory.tools()}
            async with kernel.run("r", tenant=ACME, agent="ana", tools=tools) as run:
                kept = await run.gather(
                    *(
                        lambda branch, n=n: branch.step_tool("remember", {"text": f"fact {n}"})
                        for n in range(8)
                    )
                )
                run.finish("done")

            assert not any(one.is_error for one in kept)
            tokens = sum(embeddings(one.body)["usage"]["prompt_tokens"] for one in server.requests)
            assert len(server.requests) == 8
            assert (await balances(kernel, "acme"))["spent"] == tokens
            await assert_conserved(kernel, "acme")

    play(scenario())


def test_the_limits_of_a_run_count_what_it_embeds(tmp_path: Path) -> None:
    async def scenario() -> None:
        with OpenAIServer([]) as server, opened(tmp_path) as kernel:
            memory = memory_of(kernel, server)
            tools = {one.name: one for one in memory.tools()}
            with pytest.raises(RunSuspended) as suspended:
                async with kernel.run(
                    "r", tenant=ACME, tools=tools, limits=Limits(tokens=60), on_wait="suspend"
                ) as run:
                    await run.step_tool(*KEEP)
            assert suspended.value.status == "budget_exhausted"
            assert server.requests == []

    play(scenario())


def test_a_fork_with_another_model_keeps_its_embedder(tmp_path: Path) -> None:
    async def scenario() -> None:
        with OpenAIServer([]) as server, opened(tmp_path) as kernel:
            memory = memory_of(kernel, server)
            await used(kernel, memory, KEEP)
            await kernel.for_tenant("acme").fork("r", new_id="r2", at=1, with_={"model": "offline"})

            await used(kernel, memory, FIND, run_id="r2")

            assert {one.body["model"] for one in server.requests} == {"small"}
            [(models,)] = await kernel.store.query(
                "SELECT group_concat(DISTINCT json_extract(data, '$.model')) FROM events"
                " WHERE kind = 'model.requested'"
            )
            assert models == MODEL

    play(scenario())
