"""Personal data at a run's doors: models and the store see placeholders, tools that may see the values.

Hole 10: personal data raw in model output, pause and resume; tools that get a placeholder instead of the
value; two recipients that look like one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, Policy, Run, Tenant, tool, unsure
from artelier.errors import InvalidConfig, InvalidRequest
from artelier.pii.vault import PLACEHOLDER, placeholders_in
from artelier.testing import ManualClock, ScriptedModel, tool_call
from tests.kernel.crashes import Deaths
from tests.kernel.stage import World, drive, play, result_of, user

KEY = {"ARTELIER_VAULT_KEY": "a vault key for tests"}
ANA, BO = "ana.lopez@example.org", "bo@example.net"
PHONE, CARD, IBAN = "+49 151 12345678", "4111 1111 1111 1111", "DE89 3704 0044 0532 0130 00"
VALUES = (ANA, BO, PHONE, CARD, IBAN)
ACME = Tenant("acme", grants={"tools:*", "pii:restore"})


def opened(tmp_path: Path, model: ScriptedModel, *tools: Any, **more: Any) -> Kernel:
    more.setdefault("policy", Policy(pii=True, backoff_s=0))
    return Kernel.open(tmp_path / "s.db", models={"m": model}, tools=tools, environ=KEY, **more)


def assert_nowhere(tmp_path: Path, *values: str) -> None:
    """No byte of the database or of a file beside it holds one of the values."""
    for file in tmp_path.rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            for value in values:
                assert value.encode() not in content, (file.name, value)


class Mail:
    """The outside: letters by address."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []

    def tool(self, grant: str = "pii:restore") -> Any:
        @tool(side_effect=True, grant=grant)
        async def send_mail(to: str, text: str) -> dict[str, str]:
            """Send a letter."""
            self.sent.append((to, text))
            return {"sent_to": to}

        return send_mail


def seen(request: Any) -> str:
    return "\n".join(message.text for message in request.messages)


def call_with(name: str, **arguments: Callable[[list[str]], str]) -> Callable[[Any], Any]:
    """A model's step: a call whose arguments are made of the placeholders it sees."""

    def step(request: Any) -> Any:
        named = placeholders_in(seen(request))
        return tool_call(name, {key: make(named) for key, make in arguments.items()})

    return step


def test_the_model_and_the_file_never_hold_a_value_and_the_tool_gets_it(tmp_path: Path) -> None:
    mail = Mail()
    model = ScriptedModel(
        [
            call_with("send_mail", to=lambda named: named[0], text=lambda named: f"hi {named[1]}"),
            lambda request: f"sent to {placeholders_in(seen(request))[0]}, also {BO}",
        ]
    )

    async def code(run: Run) -> Any:
        talk = run.conversation()
        talk.append(user(f"Write to {ANA} and say hi to {BO}; card {CARD}, {PHONE}, {IBAN}"))
        first = await run.step_model(model="m", messages=talk, tools=["send_mail"])
        talk.append(first)
        (call,) = first.tool_calls
        sent = await run.step_tool(call.name, call.arguments)
        assert ANA not in str(sent.value)
        talk.append(sent)
        return (await run.step_model(model="m", messages=talk)).text

    async def scenario() -> None:
        with opened(tmp_path, model, mail.tool()) as kernel:
            runs = kernel.for_tenant(ACME)
            assert await drive(runs, code) == "completed"
            assert mail.sent == [(ANA, f"hi {BO}")]
            for request in model.requests:
                for value in VALUES:
                    assert value not in seen(request)
            assert (await runs.manifest("r", "1")).pii == {"EMAIL": 2, "CARD": 1, "PHONE": 1, "IBAN": 1}
            text = await result_of(runs)
            assert len({*placeholders_in(text)}) == 2
            assert await runs.restored(text) == f"sent to {ANA}, also {BO}"
            rendered = await runs.render("r", "1")
            assert rendered == model.requests[0]

            assert await drive(runs, code) == "completed"  # all of it from the log, no call
            assert len(model.requests) == 2
            assert len(mail.sent) == 1

    play(scenario())
    assert_nowhere(tmp_path, *VALUES)


def test_a_typed_placeholder_gains_nothing(tmp_path: Path) -> None:
    mail = Mail()
    stolen: list[str] = []

    def repeat(request: Any) -> Any:
        # A model that does as it is told, backslash taken away.
        return tool_call("send_mail", {"to": stolen[0], "text": "mine now"})

    model = ScriptedModel(["noted", repeat])

    async def first(run: Run) -> Any:
        return (await run.step_model(model="m", messages=[user(f"I am {ANA}")])).text

    async def second(run: Run) -> Any:
        talk = run.conversation()
        talk.append(user(f"Send my letter to {stolen[0]}"))
        reply = await run.step_model(model="m", messages=talk, tools=["send_mail"])
        talk.append(reply)
        return (await run.step_tool(reply.tool_calls[0].name, reply.tool_calls[0].arguments)).value

    async def scenario() -> None:
        with opened(tmp_path, model, mail.tool()) as kernel:
            runs = kernel.for_tenant(ACME)
            assert await drive(runs, first, "a") == "completed"
            stolen.extend(placeholders_in(seen(model.requests[0])))
            assert await drive(runs, second, "b") == "completed"

            assert placeholders_in(seen(model.requests[1])) == []
            assert mail.sent == [(stolen[0], "mine now")]  # what was typed, and no value

    play(scenario())


def test_a_tool_without_the_grant_gets_the_placeholder(tmp_path: Path) -> None:
    mail = Mail()
    model = ScriptedModel([call_with("send_mail", to=lambda named: named[0], text=lambda _: "hi")])

    async def code(run: Run) -> Any:
        reply = await run.step_model(model="m", messages=[user(f"mail {ANA}")], tools=["send_mail"])
        return (await run.step_tool("send_mail", reply.tool_calls[0].arguments)).value

    async def scenario() -> None:
        with opened(tmp_path, model, mail.tool("tools:send_mail")) as kernel:
            assert await drive(kernel.for_tenant(ACME), code) == "completed"
            assert PLACEHOLDER.fullmatch(mail.sent[0][0])

    play(scenario())


def test_what_code_passes_is_what_a_tool_gets_again_after_a_crash(tmp_path: Path) -> None:
    got: dict[str, list[str]] = {"pay": [], "mail": []}
    asked: dict[str, list[str]] = {"pay": [], "mail": []}

    async def paid(key: str, arguments: dict[str, Any]) -> str:
        asked["pay"].append(arguments["to"])
        return "done"

    async def mailed(key: str, arguments: dict[str, Any]) -> str:
        asked["mail"].append(arguments["to"])
        return "done"

    @tool(side_effect=True, probe=paid)
    async def pay(to: str) -> str:
        """Pay somebody."""
        got["pay"].append(to)
        return "done"

    @tool(side_effect=True, probe=mailed, grant="pii:restore")
    async def mail(to: str) -> str:
        """Write to somebody."""
        got["mail"].append(to)
        return "done"

    async def code(run: Run) -> None:
        await run.step_tool("pay", {"to": ANA}, key="pay")
        await run.step_tool("mail", {"to": BO}, key="mail")

    async def scenario() -> None:
        with opened(tmp_path, ScriptedModel([])) as kernel:
            await kernel.for_tenant(ACME).state()  # its key, and so its placeholders
        deaths = Deaths(tmp_path / "s.db", World())
        more: dict[str, Any] = {"fault": deaths, "clock": ManualClock()}
        with opened(tmp_path, ScriptedModel([]), pay, mail, **more) as kernel:
            assert await drive(kernel.for_tenant(ACME), code) == "completed"
        for death in deaths.found:
            later = ManualClock()
            later.advance(3600)  # the dead process's lease has expired
            with Kernel.open(
                death.path, tools=(pay, mail), environ=KEY, policy=Policy(pii=True), clock=later
            ) as kernel:
                assert await drive(kernel.for_tenant(ACME), code) == "completed"

    play(scenario())
    assert asked["pay"] and set(got["pay"]) == set(asked["pay"])
    assert PLACEHOLDER.fullmatch(got["pay"][0])  # it may not see values, whoever passes them
    assert asked["mail"] and set(got["mail"]) == set(asked["mail"]) == {BO}
    assert_nowhere(tmp_path, ANA, BO)


@pytest.mark.parametrize(("grant", "is_given"), [("pii:restore", True), ("tools:mail", False)])
def test_a_probe_that_a_person_asks_is_given_what_the_tool_was_given(
    tmp_path: Path, grant: str, is_given: bool
) -> None:
    got: list[str] = []
    asked: list[str] = []

    async def mailed(key: str, arguments: dict[str, Any]) -> Any:
        asked.append(arguments["to"])
        return unsure if len(asked) == 1 else {"sent_to": arguments["to"]}

    @tool(side_effect=True, probe=mailed, grant=grant, timeout_s=0.05)
    async def mail(to: str) -> str:
        """Write to somebody."""
        got.append(to)
        await asyncio.Event().wait()
        return "never"

    async def code(run: Run) -> Any:
        return (await run.step_tool("mail", {"to": ANA}, key="mail")).value

    async def scenario() -> None:
        with opened(tmp_path, ScriptedModel([]), mail) as kernel:
            runs = kernel.for_tenant(ACME)
            assert await drive(runs, code) == "unknown_outcome"
            await runs.reconcile("r", "mail", probe=True)
            assert await drive(runs, code) == "completed"
            (found,) = placeholders_in(str(await result_of(runs)))
            assert got == asked[:1] and set(asked) == {ANA if is_given else found}

    play(scenario())
    assert_nowhere(tmp_path, ANA)


def test_a_run_without_the_grant_may_not_use_such_a_tool(tmp_path: Path) -> None:
    mail = Mail()

    async def code(run: Run) -> Any:
        return (await run.step_tool("send_mail", {"to": "x", "text": "y"})).is_error

    async def scenario() -> None:
        plain = Tenant("plain", grants={"tools:*"})
        with opened(tmp_path, ScriptedModel([]), mail.tool("tools:send_mail pii:restore")) as kernel:
            assert await drive(kernel.for_tenant(plain), code) == "completed"
            assert await result_of(kernel.for_tenant(plain)) is True
            assert mail.sent == []

    play(scenario())


def test_one_value_has_one_placeholder_and_tenants_have_their_own(tmp_path: Path) -> None:
    model = ScriptedModel(lambda request: seen(request))

    async def code(run: Run) -> Any:
        return (await run.step_model(model="m", messages=[user(f"{ANA} {ANA.upper()} {BO}")])).text

    async def scenario() -> None:
        with opened(tmp_path, model) as kernel:
            texts = []
            for tenant in ("acme", "other"):
                assert await drive(kernel.for_tenant(tenant), code) == "completed"
                texts.append(placeholders_in(await result_of(kernel.for_tenant(tenant))))
            assert texts[0][0] == texts[0][1] != texts[0][2]
            assert not {*texts[0]} & {*texts[1]}

    play(scenario())
    assert_nowhere(tmp_path, ANA, BO)


def test_pause_approval_signal_and_note_keep_no_value(tmp_path: Path) -> None:
    model = ScriptedModel(lambda request: "ok")

    async def code(run: Run) -> Any:
        given = await run.approve(f"write to {ANA}?", {"to": ANA}, key="ask")
        said = await run.wait_for("word", key="said")
        noted = await run.notes(key="notes")
        await run.step("compute", lambda: {"back": BO})
        return [given.note, given.arguments, said, noted]

    async def scenario() -> None:
        with opened(tmp_path, model) as kernel:
            runs = kernel.for_tenant(ACME)
            assert await drive(runs, code, on_wait="suspend") == "waiting_approval"
            await runs.approve("r", note=f"yes, {PHONE}", arguments={"to": BO})
            await runs.inject("r", f"card {CARD}")
            assert await drive(runs, code, on_wait="suspend") == "waiting"
            await runs.signal("r", "word", {"iban": IBAN})
        with opened(tmp_path, model) as kernel:
            runs = kernel.for_tenant(ACME)
            assert await drive(runs, code) == "completed"
            back = await runs.restored(await result_of(runs))
            assert back == [f"yes, {PHONE}", {"to": BO}, {"iban": IBAN}, [f"card {CARD}"]]

    play(scenario())
    assert_nowhere(tmp_path, *VALUES)


def test_an_export_holds_no_value_and_plays_elsewhere(tmp_path: Path) -> None:
    model = ScriptedModel(lambda request: f"told {ANA}")

    async def code(run: Run) -> Any:
        return (await run.step_model(model="m", messages=[user(f"hello {BO}")])).text

    async def scenario() -> None:
        with opened(tmp_path, model) as kernel:
            runs = kernel.for_tenant(ACME)
            assert await drive(runs, code) == "completed"
            await runs.export("r", tmp_path / "r.artelier")
            text = await result_of(runs)
        with Kernel.open(tmp_path / "other" / "o.db", environ={}) as other:
            await other.for_tenant("acme").import_(tmp_path / "r.artelier")
            assert await result_of(other.for_tenant("acme")) == text

    play(scenario())
    assert_nowhere(tmp_path, ANA, BO)


def test_an_id_that_tells_of_a_person_is_refused_and_not_kept(tmp_path: Path) -> None:
    account = IBAN.replace(" ", "")

    async def scenario() -> None:
        with opened(tmp_path, ScriptedModel([])) as kernel:
            with pytest.raises(InvalidRequest, match="personal data") as raised:
                async with kernel.for_tenant(ACME).run(f"pay-{account}"):
                    pass
            assert account not in str(raised.value)

    play(scenario())
    assert_nowhere(tmp_path, account)


def test_without_a_vault_key_nothing_is_opened(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="ARTELIER_VAULT_KEY"):
        Kernel.open(tmp_path / "s.db", policy=Policy.enforced(), environ={})

    assert list(tmp_path.iterdir()) == []


def test_what_is_received_survives_a_restart_and_reaches_children(tmp_path: Path) -> None:
    mail = Mail()
    model = ScriptedModel(["noted"])
    got: list[str] = []

    async def code(run: Run) -> Any:
        await run.step_model(model="m", messages=[user(f"I am {ANA}")])
        got.extend(placeholders_in(seen(model.requests[0])))
        await run.approve("go on?", key="ask")
        async with kernels[-1].for_tenant(ACME).run("child", parent=run) as child:
            await child.step_tool("send_mail", {"to": got[0], "text": "hi"})
            child.finish(None)
        return "done"

    kernels: list[Kernel] = []

    async def scenario() -> None:
        with opened(tmp_path, model, mail.tool()) as kernel:
            kernels.append(kernel)
            assert await drive(kernel.for_tenant(ACME), code, on_wait="suspend") == "waiting_approval"
        with opened(tmp_path, model, mail.tool()) as kernel:
            kernels.append(kernel)
            await kernel.for_tenant(ACME).approve("r")
            assert await drive(kernel.for_tenant(ACME), code) == "completed"
            assert mail.sent == [(ANA, "hi")]

    play(scenario())


def test_figures_of_tables_stay_figures(tmp_path: Path) -> None:
    rows = [{"order": 4111111111111112, "sum": 1234567.89, "at": 1763816263000000, "sku": "49151-12345678"}]

    @tool(side_effect=False)
    async def sales() -> list[dict[str, Any]]:
        """Sales."""
        return rows

    async def code(run: Run) -> Any:
        return (await run.step_tool("sales", {})).value

    async def scenario() -> None:
        with opened(tmp_path, ScriptedModel([]), sales) as kernel:
            assert await drive(kernel.for_tenant(ACME), code) == "completed"
            assert await result_of(kernel.for_tenant(ACME)) == rows

    play(scenario())


def test_a_detector_that_cannot_read_a_text_lets_nothing_pass(tmp_path: Path) -> None:
    class Broken:
        kind = "BROKEN"

        def find(self, text: str, /) -> Any:
            raise InvalidConfig("cannot read this")

    policy = Policy(pii=True, detectors=(Broken(),), backoff_s=0)
    model = ScriptedModel(["never"])

    async def code(run: Run) -> Any:
        return (await run.step_model(model="m", messages=[user("anything")])).text

    async def scenario() -> None:
        with opened(tmp_path, model, policy=policy) as kernel:
            with pytest.raises(InvalidConfig):
                async with kernel.for_tenant(ACME).run("r") as run:
                    await code(run)
            assert model.requests == []

    asyncio.run(scenario())


def test_a_tenant_has_patterns_of_its_own(tmp_path: Path) -> None:
    model = ScriptedModel(lambda request: seen(request))

    async def code(run: Run) -> Any:
        return (await run.step_model(model="m", messages=[user("ask E-123456 about it")])).text

    async def scenario() -> None:
        with opened(tmp_path, model) as kernel:
            mine, theirs = kernel.for_tenant("mine"), kernel.for_tenant("theirs")
            await mine.state()
            shown = await kernel.tenants.update("mine", patterns={"EMPLOYEE": "E-[0-9]{6}"})
            assert shown["patterns"] == {"EMPLOYEE": "E-[0-9]{6}"}
            for runs in (mine, theirs):
                assert await drive(runs, code) == "completed"
            assert [found[:10] for found in placeholders_in(await result_of(mine))] == ["<EMPLOYEE_"]
            assert await result_of(theirs) == "ask E-123456 about it"
            with pytest.raises(InvalidRequest, match="EMPLOYEE"):
                await kernel.tenants.update("mine", patterns={"EMPLOYEE": "("})

    play(scenario())


def test_what_a_person_answers_is_received(tmp_path: Path) -> None:
    mail = Mail()
    got: list[str] = []

    async def code(run: Run) -> Any:
        given = await run.approve("whom?", key="ask")
        got.extend(placeholders_in(given.note))
        await run.step_tool("send_mail", {"to": got[0], "text": given.note})

    async def scenario() -> None:
        with opened(tmp_path, ScriptedModel([]), mail.tool()) as kernel:
            runs = kernel.for_tenant(ACME)
            assert await drive(runs, code, on_wait="suspend") == "waiting_approval"
            await runs.approve("r", note=f"write to {ANA}")
            assert await drive(runs, code) == "completed"
            assert mail.sent == [(ANA, f"write to {ANA}")]

    play(scenario())
    assert_nowhere(tmp_path, ANA)


def test_why_an_edit_does_not_fit_is_said_with_placeholders(tmp_path: Path) -> None:
    @tool(side_effect=True, grant="pii:restore", risk="high")
    async def pay(to: str, amount: int) -> int:
        """Pay."""
        return amount

    async def code(run: Run) -> Any:
        return (await run.step_tool("pay", {"to": ANA, "amount": 4})).value

    async def scenario() -> None:
        policy = Policy(pii=True, approve_risk="high", backoff_s=0)
        with opened(tmp_path, ScriptedModel([]), pay, policy=policy) as kernel:
            runs = kernel.for_tenant(ACME)
            assert await drive(runs, code, on_wait="suspend") == "waiting_approval"
            await runs.approve("r", arguments={"to": BO, "amount": BO})
            assert await drive(runs, code, on_wait="suspend") == "waiting_approval"
            (asked,) = await runs.approvals("r")
            assert "amount: expected a valid integer" in str(asked["details"])
            assert BO not in str(asked["details"])
            await runs.approve("r", arguments={"to": BO, "amount": 3})
            assert await drive(runs, code) == "completed"
            assert await result_of(runs) == 3

    play(scenario())
    assert_nowhere(tmp_path, ANA, BO)
