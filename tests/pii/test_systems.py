"""Whole systems with personal data on: no byte that they leave behind holds a value.

Hole 10, from end to end: agents with memory, children, approvals and pauses; chats; missions; worlds;
exports, spans and log lines.
"""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from artelier import AutonomousAgent, ContextBuilder, Kernel, Policy, Session, SubAgentFactory, Tenant, tool
from artelier.agents.loop_registry import replay_run
from artelier.app import TenantKernel
from artelier.errors import InvalidConfig
from artelier.kernel import Replayed, run_row
from artelier.kernel.queries.content import blob_json
from artelier.memory import SQLiteMemoryStore
from artelier.pii.vault import placeholders_in
from artelier.telemetry import OpenTelemetry
from artelier.testing import ScriptedModel, tool_call
from artelier.world.genesis import found
from tests.cli.conftest import Shell, shell
from tests.telemetry.watch import Watch

__all__ = ["shell"]

KEY = {"ARTELIER_VAULT_KEY": "a vault key for tests"}
ACME = Tenant("acme", grants={"tools:*", "models:*", "memory:*", "agents:*", "pii:restore"})

EMAIL = "ana.lopez@example.org"
PHONE, CARD, IBAN = "+49 151 12345678", "4111 1111 1111 1111", "DE89 3704 0044 0532 0130 00"
ADDRESS, SECRET = "203.0.113.77", "ghp_" + "1A2b3C4d5E6f7G8h9I0j1K2l3M4n5O6p7Q8r"
ALL = f"{EMAIL}, {PHONE}, {CARD}, {IBAN}, {ADDRESS}, {SECRET}"

TRACES = (
    *(
        form
        for value in (EMAIL, PHONE, CARD, IBAN, ADDRESS, SECRET)
        for form in {value, value.lower(), value.replace(" ", ""), value.replace(" ", "-")}
    ),
    "ana.lopez",
    "ana-lopez",
    "ana_lopez",
    "15112345678",
)
"""Every form in which a value, or a name made of one, could be left behind."""


def assert_clean(text: str, where: str) -> None:
    for trace in TRACES:
        assert trace not in text, f"{trace} in {where}: {_around(text, trace)}"


def assert_nowhere(folder: Path, *but: str) -> None:
    """No byte of a file that was left behind tells of a person."""
    for file in folder.rglob("*"):
        if file.is_file() and file.name not in but:
            assert_clean(file.read_bytes().decode("latin-1"), file.name)


def _around(text: str, trace: str) -> str:
    at = text.index(trace)
    return text[max(0, at - 200) : at + 80]


def seen(request: Any) -> str:
    return "\n".join(message.text for message in request.messages)


def opened(folder: Path, model: Any = None, **more: Any) -> Kernel:
    policy = Policy(pii=True, backoff_s=0, approve_risk="high")
    return Kernel.open(folder / "s.db", models=model, environ=KEY, policy=policy, **more)


async def played_again(desk: TenantKernel, run_id: str) -> Replayed:
    row = await run_row(desk.services.store, desk.id, run_id)
    settings: Any = await blob_json(desk.services, desk.id, row.settings)
    return await desk.replay(run_id, lambda run: replay_run(run, settings))


def all_spans(watch: Watch) -> str:
    return "\n".join(span.to_json() for span in watch.spans)


def letters() -> tuple[list[str], Any]:
    sent: list[str] = []

    @tool(side_effect=True, grant="tools:send_mail pii:restore", risk="high")
    async def send_mail(to: str) -> dict[str, str]:
        """Send a letter."""
        sent.append(to)
        return {"sent_to": to, "from": EMAIL}

    return sent, send_mail


def test_an_agent_with_memory_a_child_an_approval_and_a_pause(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    sent, send_mail = letters()
    watch = Watch()

    def mail(request: Any) -> Any:
        named = [one for one in placeholders_in(seen(request)) if one.startswith("<EMAIL")]
        return tool_call("send_mail", {"to": named[0]})

    boss = ScriptedModel(
        [
            tool_call("core_memory_append", {"content": f"reach {EMAIL} at {PHONE}"}),
            tool_call("helper", {"prompt": f"look up {CARD} and {IBAN}"}),
            mail,
            lambda request: f"done for {EMAIL}",
        ]
    )
    child = ScriptedModel(lambda request: f"found {ADDRESS}, {SECRET}")

    def agent_of(kernel: Kernel, store: SQLiteMemoryStore | None) -> AutonomousAgent:
        helper = SubAgentFactory(kernel=kernel).create(
            name="helper", description="Looks up.", system_prompt="You look up.", model="child"
        )
        builder = ContextBuilder(identity="You write letters.", memory_store=store or kernel.memory)
        return AutonomousAgent(kernel=kernel, context_builder=builder, tools=[helper, send_mail])

    async def scenario() -> None:
        models = {"boss": boss, "child": child}
        more = {
            "telemetry": OpenTelemetry(
                tracer_provider=watch.tracers, meter_provider=watch.meters, content=True
            ),
            "tools": [send_mail],
        }
        with opened(tmp_path, models, **more) as kernel:
            result = await agent_of(kernel, None).run(
                run_id="r", tenant=ACME, model="boss", prompt=f"Write to {ALL}", on_wait="return"
            )
            assert result.status == "waiting_approval", (result.status, result.reason, result.text)
            assert sent == []
        with opened(tmp_path, models, **more) as kernel:
            desk = kernel.for_tenant(ACME)
            (question,) = await desk.approvals("r")
            assert_clean(json.dumps(question), "the approval")
            await desk.approve("r", note=f"yes, for {EMAIL}", by="operator")
            result = await agent_of(kernel, None).run(
                run_id="r", tenant=ACME, model="boss", prompt=f"Write to {ALL}"
            )
            assert result.status == "completed", result.reason
            assert sent == [EMAIL]
            assert_clean(str(result.text), "the result")
            assert await desk.restored(result.text) == f"done for {EMAIL}"
            await desk.export("r", tmp_path / "r.artelier")
            calls = len(boss.requests) + len(child.requests)
            replayed = await played_again(desk, "r")
            assert replayed.result["text"] == result.text
            assert len(boss.requests) + len(child.requests) == calls
            for request in (*boss.requests, *child.requests):
                assert_clean(seen(request), "a prompt")
            assert kernel.verify().ok

    asyncio.run(scenario())
    assert_nowhere(tmp_path)
    assert watch.spans
    assert_clean(all_spans(watch), "spans")
    assert_clean(caplog.text, "log lines")


def test_a_chat_with_variants_and_branches(tmp_path: Path) -> None:
    model = ScriptedModel(lambda request: f"I shall write to {EMAIL} and call {PHONE}.")

    async def scenario() -> None:
        with opened(tmp_path, {"m": model}) as kernel:
            chat = await Session.open(
                kernel, "talk", model="m", profile="rp-basic", user="Kim", tenant=ACME, principal="user:kim"
            )
            first = await chat.generate(f"My data: {ALL}")
            assert_clean(str(first.text), "the reply")
            again = await chat.regenerate()
            branch = await chat.branch("calm", at_turn=0)
            await branch.generate(f"I sit down, {EMAIL}")
            desk = kernel.for_tenant(ACME)
            assert EMAIL in str(await desk.restored(again.text))
            await desk.export_chat("talk", tmp_path / "talk.artelier")
            calls = len(model.requests)
            assert (await played_again(desk, first.run_id)).status == "completed"
            assert len(model.requests) == calls
            for request in model.requests:
                assert_clean(seen(request), "a prompt")

    asyncio.run(scenario())
    assert_nowhere(tmp_path)


def test_a_mission_over_a_table_of_people(shell: Shell) -> None:
    shell.set("ARTELIER_VAULT_KEY", KEY["ARTELIER_VAULT_KEY"])
    shell.set("ARTELIER_PII", "1")
    rows = [f"{name},{EMAIL},{PHONE},{CARD},{IBAN},{ADDRESS},{SECRET},{n}" for n, name in enumerate("abc")]
    shell.write("people/people.csv", "name,email,phone,card,iban,ip,token,orders\n" + "\n".join(rows))

    shell("tenants", "update", "--grant", "*")
    words = ("do", f"How many orders has {EMAIL}?", "--workspace", "people", "--run-id", "d1")

    ran = shell(*words, "--yes", "--json")

    assert ran.code in (0, 1), ran.err
    assert_nowhere(shell.folder, "people.csv", "report-d1.md")
    again = shell(*words, "--yes", "--json")  # the same goal: its result, and nothing is done anew
    assert (again.code, again.json["run_id"]) == (ran.code, "d1"), again.err
    assert EMAIL in shell("runs", "show", "d1").out  # a person who may see values
    assert EMAIL in shell("runs", "tail", "d1", "--after", "0").out
    shell("tenants", "update", "--grant", "tools:*")
    assert_clean(shell("runs", "show", "d1").out, "what others see")
    assert shell("verify").code == 0
    listed = shell("runs", "list").out
    assert_clean(listed, "the list of runs")


def test_a_world_with_messages_and_memories(tmp_path: Path) -> None:
    def writes(facts: Any) -> dict[str, Any]:
        return {
            "action": "write",
            "artifact_id": f"letter-{facts['agent_id']}",
            "kind": "document",
            "content": {"to": EMAIL, "text": f"{ALL}"},
        }

    replies = [
        {"action": "write", "artifact_id": "memo", "kind": "document", "content": f"call {PHONE}"},
        {"action": "noop", "reason": f"thinking of {EMAIL}"},
    ]
    model = ScriptedModel([json.dumps(one) for one in replies], repeat_last=True)
    setup = {
        "agents": [
            {"id": "ann", "policy": "writes"},
            {"id": "bob", "model": "m", "system_prompt": f"You know {EMAIL} and {CARD}."},
        ]
    }

    async def scenario() -> None:
        with opened(tmp_path, {"m": model}) as kernel:
            async with await found(
                kernel.for_tenant(ACME), "w", setup, seed=3, policies={"writes": writes}
            ) as world:
                await world.run(ticks=3)
            for request in model.requests:
                assert_clean(seen(request), "a prompt")
            assert model.requests
            assert kernel.verify().ok

    asyncio.run(scenario())
    assert_nowhere(tmp_path)


def test_memories_in_a_file_of_their_own(tmp_path: Path) -> None:
    model = ScriptedModel(
        [tool_call("core_memory_append", {"content": f"reach {EMAIL} at {PHONE}"}), "noted", "known"]
    )

    async def scenario() -> None:
        with opened(tmp_path, {"m": model}) as kernel, SQLiteMemoryStore(tmp_path / "m.db") as store:
            builder = ContextBuilder(identity="You help.", memory_store=store)
            agent = AutonomousAgent(kernel=kernel, context_builder=builder)
            for name in ("a", "b"):
                done = await agent.run(run_id=name, tenant=ACME, model="m", prompt=f"I am {EMAIL}, {CARD}")
                assert done.status == "completed", done.reason
            (block, *_) = [one for one in await store.for_agent("acme", agent.agent_id).blocks() if one.text]
            assert placeholders_in(block.text)

    asyncio.run(scenario())
    assert_nowhere(tmp_path)


def test_what_a_program_writes_into_a_file_of_memories_is_sealed_and_replaced(tmp_path: Path) -> None:
    """And the kernel's vault knows it, for a tool of a later run and for people, in another process, too."""
    sent, send_mail = letters()

    def mail(request: Any) -> Any:
        (named,) = {one for one in placeholders_in(seen(request)) if one.startswith("<EMAIL")}
        return tool_call("send_mail", {"to": named})

    model = ScriptedModel([tool_call("recall", {"query": "who likes quinces"}), mail, "sent"])

    async def told() -> None:
        with opened(tmp_path) as kernel, SQLiteMemoryStore(tmp_path / "m.db") as store:
            AutonomousAgent(
                kernel=kernel,
                agent_id="clerk",
                context_builder=ContextBuilder(identity="Clerk.", memory_store=store),
            )
            memory = store.for_agent("acme", "clerk")
            await memory.remember(f"who likes quinces: {EMAIL}, {CARD}", key="a")
            await memory.append(f"call {PHONE}, pay {IBAN}", key="b")
            await memory.remember("a tag", tags=[EMAIL], speaker=PHONE, key="c")

    async def recalled() -> None:
        with (
            Kernel.open(
                tmp_path / "s.db",
                models={"m": model},
                tools=[send_mail],
                environ=KEY,
                policy=Policy(pii=True, backoff_s=0),
            ) as kernel,
            SQLiteMemoryStore(tmp_path / "m.db") as store,
        ):
            agent = AutonomousAgent(
                kernel=kernel,
                agent_id="clerk",
                context_builder=ContextBuilder(identity="Clerk.", memory_store=store),
            )
            done = await agent.run(run_id="r", tenant=ACME, model="m", prompt="Write to who it is")
            assert done.status == "completed", done.reason
            assert sent == [EMAIL]
            (block, *_) = [one for one in await store.for_agent("acme", "clerk").blocks() if one.text]
            desk = kernel.for_tenant(ACME)
            assert await desk.restored(block.text) == f"call {PHONE}, pay {IBAN}"

    asyncio.run(told())
    asyncio.run(recalled())
    assert_nowhere(tmp_path)
    assert "quinces" not in (tmp_path / "m.db").read_bytes().decode("latin-1")  # sealed


def test_memories_in_use_are_not_given_to_a_kernel_that_replaces_personal_data(tmp_path: Path) -> None:
    async def scenario() -> None:
        with opened(tmp_path) as kernel, SQLiteMemoryStore(tmp_path / "m.db") as store:
            await store.for_agent("acme", "clerk").remember("a fig", key="fig")
            with pytest.raises(InvalidConfig, match="in use"):
                AutonomousAgent(
                    kernel=kernel, context_builder=ContextBuilder(identity="C.", memory_store=store)
                )

    asyncio.run(scenario())


def test_a_chat_at_the_terminal_shows_values_and_keeps_none(shell: Shell) -> None:
    shell.set("ARTELIER_VAULT_KEY", KEY["ARTELIER_VAULT_KEY"])
    shell.set("ARTELIER_PII", "1")
    shell("tenants", "update", "--grant", "*")

    ran = shell("chat", "c1", "--message", f"My address is {EMAIL}, and I like tea.")

    assert ran.code == 0, ran.err
    assert EMAIL in ran.out
    for line in ("/turns", "/variants", "/state"):
        looked = shell("chat", "c1", "--message", line)
        assert looked.code == 0, looked.err
        assert "<EMAIL" not in looked.out
        assert (EMAIL in looked.out) == (line != "/state")
    assert "<EMAIL" in shell("chat", "c1", "--message", "/prompt").out  # as the model was sent it
    assert EMAIL in shell("chat", "c1", "--message", "/turns", "--json").out
    shell("tenants", "update", "--grant", "tools:*")
    assert_clean(shell("chat", "c1", "--message", "/turns").out, "what others see")
    assert_nowhere(shell.folder)


def test_a_typed_placeholder_in_a_prompt_gains_nothing(tmp_path: Path) -> None:
    sent, send_mail = letters()
    stolen: list[str] = []

    def mail_both(request: Any) -> Any:
        (mine,) = {one for one in placeholders_in(seen(request)) if one.startswith("<EMAIL")}
        return [tool_call("send_mail", {"to": mine}), tool_call("send_mail", {"to": stolen[0]})]

    model = ScriptedModel(["noted", mail_both, "done"])

    async def scenario() -> None:
        policy = Policy(pii=True, backoff_s=0)
        with Kernel.open(
            tmp_path / "s.db", models={"m": model}, tools=[send_mail], environ=KEY, policy=policy
        ) as kernel:
            agent = AutonomousAgent(kernel=kernel, agent_id="clerk")
            for name, prompt in (("a", f"I am {EMAIL}"), ("b", "")):
                if name == "b":
                    stolen.extend(placeholders_in(seen(model.requests[0])))
                    prompt = f"I am bo@example.net; write to me and to {stolen[0]}"
                done = await agent.run(run_id=name, tenant=ACME, model="m", prompt=prompt)
                assert done.status == "completed", done.reason
            assert sent == ["bo@example.net", stolen[0]]

    asyncio.run(scenario())
    assert_nowhere(tmp_path)


def test_a_placeholder_typed_at_the_command_line_is_text(shell: Shell) -> None:
    shell.set("ARTELIER_VAULT_KEY", KEY["ARTELIER_VAULT_KEY"])
    shell.set("ARTELIER_PII", "1")
    shell("tenants", "update", "--grant", "*")
    shell("chat", "c1", "--message", f"My address is {EMAIL}.")
    with Kernel.open(shell.folder / ".artelier/state.db", environ=KEY) as kernel:
        (stolen,) = {one for (one,) in kernel.store.look("SELECT placeholder FROM vault", ())}

    ran = shell("chat", "c2", "--message", f"My address is {stolen}.")

    assert ran.code == 0, ran.err
    assert EMAIL not in ran.out
    assert stolen[1:] in ran.out


def test_memories_at_the_terminal_show_values_to_who_may_see_them(shell: Shell) -> None:
    shell.set("ARTELIER_VAULT_KEY", KEY["ARTELIER_VAULT_KEY"])
    shell.set("ARTELIER_PII", "1")

    async def remember() -> None:
        with Kernel.open(shell.folder / ".artelier/state.db", environ=KEY, policy=Policy(pii=True)) as kernel:
            await kernel.tenants.open("default")
            memory = kernel.memory.for_agent("default", "ana")
            await memory.remember(f"Ana is at {EMAIL}", key="a")
            await memory.append(f"call {PHONE}", key="b")

    asyncio.run(remember())
    for words in (("list",), ("search", EMAIL), ("blocks",)):
        told = shell("memory", *words, "--agent", "ana")
        assert told.code == 0, told.err
        assert_clean(told.out, "what others see")
    shell("tenants", "update", "--grant", "*")
    assert EMAIL in shell("memory", "list", "--agent", "ana").out
    assert EMAIL in shell("memory", "search", EMAIL, "--agent", "ana").out
    assert PHONE in shell("memory", "blocks", "--agent", "ana", "--json").out
    assert_nowhere(shell.folder)
