"""`/worlds` and `/market`: ticks that pass in the server, figures, forks, and what stops them."""

from __future__ import annotations

import asyncio
import csv
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from artelier.server.background_tasks import errands_of, long_reads_of
from artelier.server.routes import worlds as world_routes
from artelier.server.wire.worlds import Passing
from artelier.world import World
from artelier.world.figures.odd_description import describe
from artelier.world.figures.tables import FIXED
from tests.server.routes.served import at, good, play, refused, serving

RULES = {
    "world": {"seed": 7, "start_balance": 50},
    "agents": [{"id": "idle_{n}", "count": 3, "policy": "nobody"}],
}
"""A world whose agents do nothing, so that ticks are cheap."""

NAMES_A_FILE = '[[artifacts]]\nid = "a"\nkind = "document"\nowner = "o"\nfile = "/etc/passwd"'


async def _new(client: httpx.AsyncClient, id: str = "w", **more: Any) -> dict[str, Any]:
    body = {"id": id, "world": RULES} if not more else {"id": id, **more}
    return good(await client.post("/worlds", json=body), 201)


async def _until(client: httpx.AsyncClient, path: str, holds: Any) -> dict[str, Any]:
    """Ask until something holds; the scenario's own bound ends it."""
    while not holds(found := good(await client.get(path))):
        await asyncio.sleep(0.02)
    return found


def test_a_shipped_world_passes_ticks_and_shows_its_figures(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            ada = served.ada
            assert good(await ada.get("/worlds"))["templates"] == ["market"]
            made = await _new(ada, "m", template="market", seed=3)
            assert (made["tick"], made["seed"], made["passing"]) == (0, 3, None)
            done = good(await ada.post("/worlds/m/tick", json={"count": 6}))
            assert (done["asked"], done["passed"], done["tick"]) == (6, 6, 6)
            agents = good(await ada.get("/worlds/m/agents"))["items"]
            assert len(agents) == made["agents"] > 1
            figures = good(await ada.get("/worlds/m/metrics"))
            assert [one["tick"] for one in figures["items"]] == [1, 2, 3, 4, 5, 6]
            last = figures["items"][-1]
            assert last["balances"] == {one["id"]: one["balance"] for one in agents}
            assert 0 <= last["gini"] < 1 and last["circulating"] > 0
            market = good(await ada.get("/market", params={"world": "m"}))
            trades = sum(one["trades"] for one in figures["items"])
            assert sum(one["trades"] for one in market["prices"]) == trades
            offers = good(await ada.get("/worlds/m/market"))["items"]
            assert [one["offer"] for one in offers] == [one["offer"] for one in market["open"]]
            rejected = good(await ada.get("/worlds/m/rejections"))["items"]
            assert len(rejected) == sum(one["rejected"] for one in figures["items"])
            events = good(await ada.get("/worlds/m/events", params={"tick": 2, "limit": 500}))["items"]
            assert {one["tick"] for one in events} == {2}

    play(scenario())


def test_ticks_run_in_the_server_until_the_world_is_paused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            ada = served.ada
            await _new(ada)
            started = good(await ada.post("/worlds/w/run", json={"ticks": 100_000}), 202)
            assert started["asked"] == 100_000
            refused(await ada.post("/worlds/w/tick", json={}), 409, "conflict")
            await _until(ada, "/worlds/w", lambda one: one["tick"] >= 3)
            assert good(await ada.post("/worlds/w/pause", json={}))["paused"]
            stopped = await _until(ada, "/worlds/w", lambda one: one["passing"] is None)
            assert stopped["failed"] is None
            refused(await ada.post("/worlds/w/tick", json={}), 409, "conflict")
            assert good(await ada.get("/worlds/w"))["tick"] == stopped["tick"]
            assert not good(await ada.post("/worlds/w/resume", json={}))["paused"]
            assert good(await ada.post("/worlds/w/tick", json={}))["tick"] == stopped["tick"] + 1

    play(scenario())


def test_ticks_are_asked_for_again_though_the_last_ones_have_not_let_go(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            await _new(served.ada)
            ending = asyncio.Event()
            errands = errands_of(served.app)
            errands.start(("world", "default", "w"), ending.wait(), about=Passing(asked=1, passed=1))
            asyncio.get_running_loop().call_later(0.05, ending.set)
            assert good(await served.ada.post("/worlds/w/tick", json={}))["passed"] == 1

    play(scenario())


def test_a_server_that_ends_leaves_a_world_that_goes_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            await _new(served.ada)
            good(await served.ada.post("/worlds/w/run", json={"ticks": 100_000}), 202)
            await _until(served.ada, "/worlds/w", lambda one: one["tick"] >= 2)
        async with serving(tmp_path) as served:
            at_start = good(await served.ada.get("/worlds/w"))
            assert at_start["passing"] is None and at_start["tick"] >= 2
            done = good(await served.ada.post("/worlds/w/tick", json={}))
            assert done["tick"] == at_start["tick"] + 1

    play(scenario())


def test_a_fork_has_the_history_and_other_settings(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            ada = served.ada
            await _new(ada)
            good(await ada.post("/worlds/w/tick", json={"count": 4}))
            body = {"at": 2, "id": "side", "settings": {"start_balance": 9}}
            made = good(await ada.post("/worlds/w/fork", json=body), 201)
            assert (made["id"], made["parent"], made["forked_at"], made["tick"]) == ("side", "w", 2, 2)
            assert made["settings"]["start_balance"] == 9
            assert [one["id"] for one in good(await ada.get("/worlds"))["items"]] == ["side", "w"]
            refused(await ada.post("/worlds/w/fork", json={"at": 9}), 422)
            refused(await ada.post("/worlds/w/fork", json={"id": "side"}), 409, "conflict")

    play(scenario())


def test_agents_hear_of_what_is_injected_and_the_log_says_who_did_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            await _new(served.ada)
            good(await served.ada.post("/worlds/w/inject", json={"text": "The harvest failed"}))
            params = {"last": True, "limit": 1}
            (event,) = good(await served.ada.get("/worlds/w/events", params=params))["items"]
            assert (event["actor"], event["data"]["text"]) == ("user:ada", "The harvest failed")
            body = {"text": "x", "to": ["nobody"]}
            refused(await served.ada.post("/worlds/w/inject", json=body), 404, "not_found")

    play(scenario())


def test_whole_histories_are_read_as_elsewhere(tmp_path: Path) -> None:
    """Each answer is that of the function behind the command line."""

    async def scenario() -> None:
        async with serving(tmp_path) as served:
            ada, desk = served.ada, served.kernel.for_tenant("default")
            await _new(ada, "m", template="market", seed=3)
            good(await ada.post("/worlds/m/tick", json={"count": 4}))
            good(await ada.post("/worlds/m/fork", json={"at": 2, "id": "side"}), 201)
            good(await ada.post("/worlds/side/inject", json={"text": "The harvest failed"}))
            good(await ada.post("/worlds/side/tick", json={"count": 3}))
            m, side = World.open(desk, "m"), World.open(desk, "side")

            hashed = good(await ada.get("/worlds/m/hash"))
            assert (hashed["tick"], hashed["sha256"]) == (4, await m.hash())
            early = [
                good(await ada.get(f"/worlds/{one}/hash", params={"at": 1}))["sha256"]
                for one in ("m", "side")
            ]
            assert early == [await m.hash(at=1)] * 2 != [hashed["sha256"]] * 2

            found = good(await ada.get("/worlds/m/diff", params={"other": "side", "limit": 500}))
            assert found == {**await m.diff(side), "next": None}
            assert found["first"]["tick"] == 2 and len(found["agents"]) > 1
            first = good(await ada.get("/worlds/m/diff", params={"other": "side", "limit": 1}))
            rest = good(
                await ada.get(
                    "/worlds/m/diff", params={"other": "side", "after": first["next"], "limit": 500}
                )
            )
            assert first["agents"] | rest["agents"] == found["agents"]

            assert good(await ada.get("/worlds/m/describe"))["markdown"] == await describe(m)
            exported = await served.vic.get("/worlds/m/export")
            assert exported.status_code == 200
            (tmp_path / "m.artelier").write_bytes(exported.content)
            there = await World.import_(desk, tmp_path / "m.artelier", id="again")
            assert await there.hash() == hashed["sha256"]

            rows = list(csv.DictReader((await ada.get("/worlds/m/collect")).text.splitlines()))
            assert len(rows) == 4 * len(await m.agents())
            assert set(rows[0]) == {*FIXED, *(await m.config()).collect}
            asked = {"set": ["rich=balance > 100", "half=balance / 2"], "from_tick": 4}
            table = (await ada.get("/worlds/m/collect", params=asked)).text.splitlines()
            richest = {one["agent_id"]: one["rich"] for one in csv.DictReader(table)}
            balances = {one["id"]: one["balance"] for one in good(await ada.get("/worlds/m/agents"))["items"]}
            assert richest == {
                agent: "true" if balance > 100 else "false" for agent, balance in balances.items()
            }
            parquet = await ada.get("/worlds/m/collect", params={"format": "parquet"})
            assert parquet.content[:4] == b"PAR1"

    play(scenario())


def test_whole_histories_are_refused_in_the_one_shape_of_errors(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            ada, eve = served.ada, served.eve
            await _new(ada)
            for path in ("hash", "describe", "export", "collect", "diff?other=w"):
                refused(await ada.get(f"/worlds/none/{path}"), 404, "not_found")
                refused(await eve.get(f"/worlds/w/{path}"), 404, "not_found")
            refused(await ada.get("/worlds/w/diff", params={"other": "none"}), 404, "not_found")
            refused(await ada.get("/worlds/w/diff"), 422)
            refused(await ada.get("/worlds/w/hash", params={"at": 1}), 422, "invalid_request")
            refused(await ada.get("/worlds/w/collect", params={"from_tick": 9}), 422, "invalid_request")
            for wrong in (
                "rich",
                "=1",
                "a=nothing_such",
                "a=balance **",
                f"a={'(' * 400}1{')' * 400}",
                "tick=1",
            ):
                refused(await ada.get("/worlds/w/collect", params={"set": wrong}), 422)
            columns = [f"c{n}=tick" for n in range(201)]
            refused(await ada.get("/worlds/w/collect", params={"set": columns}), 422)
            refused(await ada.get("/worlds/w/collect", params={"format": "xlsx"}), 422)

    play(scenario())


def test_few_whole_histories_are_read_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            await _new(served.ada)
            reads = long_reads_of(served.app)
            with reads.turn("default"), reads.turn("default"):
                refused(await served.ada.get("/worlds/w/hash"), 429, "too_many_at_once")
                refused(await served.eve.get("/worlds/w/hash"), 404, "not_found")  # others have their share
            with ExitStack() as taken:
                for tenant in ("default", *(f"t{number}" for number in range(5))):
                    taken.enter_context(reads.turn(tenant))
                refused(await served.ada.get("/worlds/w/hash"), 503, "queue_full")
                refused(
                    await served.eve.get("/worlds/w/hash"), 404, "not_found"
                )  # who reads none may read one
            good(await served.ada.get("/worlds/w/hash"))

    play(scenario())


def test_a_table_has_a_bound_and_leaves_others_their_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            ada = served.ada
            rules = {"agents": [{"id": "a{n}", "count": 900, "policy": "nobody"}], "settle": False}
            good(await ada.post("/worlds", json={"id": "w", "world": rules}), 201)
            good(await ada.post("/worlds/w/tick", json={"count": 3}))
            heavy = " + ".join(["balance * balance % 7"] * 9)
            columns = {"set": [f"c{n}={heavy}" for n in range(50)]}
            gaps: list[float] = []
            reading = asyncio.create_task(ada.get("/worlds/w/collect", params=columns))
            while not reading.done():
                before = time.perf_counter()
                await asyncio.sleep(0)
                gaps.append(time.perf_counter() - before)
            assert len((await reading).text.splitlines()) == 1 + 3 * 900
            assert len(gaps) > 300 and max(gaps) < sum(gaps) / 5  # many short turns, none is most of it

            monkeypatch.setattr(world_routes, "CELLS_MAX", 1_000)
            error = refused(await ada.get("/worlds/w/collect", params={"set": "a=tick"}), 413)
            assert error["expected"] == "at most 1,000 cells"

    play(scenario())


def test_what_makes_no_world_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            post = served.ada.post
            bodies: list[tuple[dict[str, Any], int]] = [
                ({"id": "../x"}, 422),
                ({"id": ""}, 422),
                ({"id": "w" * 129}, 422),
                ({"id": "w", "template": "none"}, 404),
                ({"id": "w", "template": "market", "world": {}}, 422),
                ({"id": "w", "toml": "[[["}, 422),
                ({"id": "w", "toml": "x = 1"}, 422),
                ({"id": "w", "toml": "a" + ".a" * 490_000 + " = 1"}, 422),  # half an hour for a parser
                ({"id": "w", "toml": NAMES_A_FILE}, 422),
                ({"id": "w", "world": {"world": {"seed": -1}}}, 422),
                ({"id": "w", "world": {"agents": [{"id": "a", "scrip": "many"}]}}, 422),
                ({"id": "w", "seed": True, "unknown": 1}, 422),
            ]
            for body, status in bodies:
                answer = await post("/worlds", json=body)
                refused(answer, status)
                assert "root:" not in answer.text
            for keys in (f"a{'.a' * 21} = 1", "".join(f"k{n}{'.a' * 19} = 1\n" for n in range(2_600))):
                error = refused(await post("/worlds", json={"id": "w", "toml": keys}), 422, "invalid_config")
                assert "too many" in error["message"]
            assert good(await served.ada.get("/worlds"))["items"] == []
            await _new(served.ada)
            refused(await post("/worlds", json={"id": "w"}), 409, "conflict")
            for path in ("", "/agents", "/metrics", "/market", "/rejections", "/events"):
                refused(await served.ada.get(f"/worlds/none{path}"), 404, "not_found")
                refused(await served.eve.get(f"/worlds/w{path}"), 404, "not_found")
            refused(await post("/worlds/none/tick", json={}), 404, "not_found")
            refused(await post("/worlds/w/tick", json={"count": 1_000}), 422, "invalid_request")
            refused(await served.vic.post("/worlds/w/tick", json={}), 403, "access_denied")

    play(scenario())


def test_a_few_words_do_not_make_a_world_of_any_size(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            idle = {"id": "a{n}", "policy": "nobody"}  # has one artifact, its own
            for agents in (
                {"id": "a{n}", "count": 400},
                {**idle, "count": 1_001},
                {**idle, "count": 200_000},
            ):
                rules = {"agents": [agents], "settle": False}
                answer = await served.ada.post("/worlds", json={"id": "w", "world": rules})
                error = refused(answer, 422, "invalid_config")
                assert error["expected"] == "at most 1,000 artifacts"
            assert good(await served.ada.get("/worlds"))["items"] == []

            rules = {"agents": [{**idle, "count": 1_000}], "settle": False}
            made = good(await served.ada.post("/worlds", json={"id": "w", "world": rules}), 201)
            assert made["agents"] == 1_000

    play(scenario())


def test_an_empty_world_and_one_of_a_file_are_made(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            assert (await _new(served.ada, "empty", seed=5))["agents"] == 0
            toml = '[world]\nseed = 2\n[[agents]]\nid = "a_{n}"\ncount = 4\npolicy = "nobody"\n'
            assert (await _new(served.ada, "filed", toml=toml))["agents"] == 4
            page = good(await served.ada.get("/worlds/filed/agents", params={"limit": 3}))
            rest = good(await served.ada.get("/worlds/filed/agents", params={"after": page["next"]}))
            ids = {one["id"] for one in [*page["items"], *rest["items"]]}
            assert ids == {"a_1", "a_2", "a_3", "a_4"} and rest["next"] is None

    play(scenario())


def test_metrics_come_in_pages(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            await _new(served.ada)
            assert good(await served.ada.get("/worlds/w/metrics"))["items"] == []
            good(await served.ada.post("/worlds/w/tick", json={"count": 5}))
            first = good(await served.ada.get("/worlds/w/metrics", params={"from_tick": 1, "limit": 2}))
            rest = good(
                await served.ada.get(
                    "/worlds/w/metrics", params={"from_tick": first["next"], "agent": "idle_1"}
                )
            )
            ticks = [one["tick"] for one in [*first["items"], *rest["items"]]]
            assert ticks == [1, 2, 3, 4, 5] and rest["next"] is None
            assert set(rest["items"][0]["balances"]) == {"idle_1"}
            beyond = await served.ada.get("/worlds/w/metrics", params={"from_tick": 99})
            refused(beyond, 422, "invalid_request")

    play(scenario())


def test_artifacts_of_a_world_are_looked_at_as_those_of_the_main_space(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            await _new(served.ada, "m", template="market")
            params = {"world": "m", "limit": 500}
            there = good(await served.ada.get("/artifacts", params=params))["items"]
            (handbook,) = [one for one in there if "handbook" in one["id"]][:1]
            path = at("artifacts", handbook["id"])
            assert good(await served.ada.get(path, params={"world": "m"}))["content"]
            refused(await served.ada.get(path), 404, "not_found")
            assert good(await served.ada.get("/artifacts"))["items"] == []
            refused(await served.ada.get("/artifacts", params={"world": "none"}), 404, "not_found")
            refused(await served.eve.get("/artifacts", params=params), 404, "not_found")

    play(scenario())
