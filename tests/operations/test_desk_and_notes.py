"""`research-notes` and `support-desk` over ten turns each: what they promise, with the offline model."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from artelier import OperationProfile, Session
from artelier.operations.kinds.transform import TransformParams
from artelier.operations.transforms.transform import apply, parse_steps
from tests.operations.chats import play
from tests.operations.rp import Heard, open_kernel, replayed

NOTED = (
    "My budget is 3000 euros and I live in Graz.",
    "What do you know about my budget?",
    "The shop on Main Street closes at six.",
    "When does it close?",
    "I have two children.",
    "Is Graz far from Vienna?",
    "My train leaves at 9:40.",
    "When does my train leave?",
    "The museum opens at ten.",
    "Where do I live?",
)
STATED = [NOTED[0], NOTED[2], NOTED[4], NOTED[6], NOTED[8]]

ASKED = (
    ("Hello, my order 4711 has not arrived.", "", False),
    ("My mail is ann.b@example.org, please write there.", "[email]", False),
    ("My IBAN is AT61 1904 3002 3457 3201.", "[iban]", False),
    ("Call me at +43 660 1234567.", "[phone]", False),
    ("It was a blue lamp.", "", False),
    ("This is unacceptable, I want a refund.", "", True),
    ("Thanks.", "", False),
    ("My card is 4111 1111 1111 1111.", "[card number]", False),
    ("I want to talk to a manager, ann.b@example.org.", "[email]", True),
    ("It works now, thank you.", "", False),
)
"""What a customer says, what stands for the personal data in it, whether a person should take the case."""
PERSONAL = re.compile(r"ann\.b@|1904 3002|660 1234567|4111 1111")

REDACTED = (
    ("Call (555) 123-4567 now, or 555-123-4567.", "Call [phone] now, or [phone]."),
    ("+1 555-123-4567, 0660 1234567", "[phone], [phone]"),
    ("My SSN is 123-45-6789.", "My SSN is [ssn]."),
    ("at61 1904 3002 3457 3201 is it", "[iban] is it"),
    ("at611904300234573201, fr1420041010050500013m02606", "[iban], [iban]"),
    ("gb82 west 1234 5698 7654 32", "[iban]"),
    ("ann.b (at) host.tld or ann.b[at]host.co.uk", "[email] or [email]"),
    ("ANN.B@EXAMPLE.ORG", "[email]"),
)
UNTOUCHED = (
    "Order 4711 of 2026-11-22, 3 lamps for 1500.50.",
    "We met (at) noon. It was late.",
    "Part 123-456-7890-11 costs 20.",
    "It is version 10.20.3000.",
    "Ann Berg, 12 Main Street, Springfield",  # a name and an address have no form to go by
)


def test_research_notes_log_what_was_stated_and_look_up_what_is_asked(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path / "s.db", model := Heard()) as kernel:
            session = await Session.open(
                kernel, "c", model="m", profile="research-notes", user="Ann", char="Bo"
            )
            stated: list[str] = []
            for number, text in enumerate(NOTED, start=1):
                result = await session.generate(text)
                assert (result.status, result.turn) == ("completed", number)
                assert result.operations["fact_log"] == ("done" if text in STATED else "skipped")
                if text in STATED:
                    stated.append(f"- {text}")
                assert await session.art("fact_log") == stated
                assert [one["value"] for one in await session.history("fact_log")] == stated[::-1]
                shown = await session.show(result.run_id)
                sources = {part["tag"]: part["src"] for part in shown["prompt"]}
                assert ("art.fact_log" in sources) == (number > 1)
                if "art.passages" in sources:  # said to be of this run, whose value they are
                    assert "operation passages, this run" in sources["art.passages"][0]
            assert set(await session.arts(internal=True)) == {"fact_log"}
            asked = {turn.user: turn.text for turn in await session.turns()}
            assert "3000 euros" in asked[NOTED[1]] and "9:40" in asked[NOTED[7]]
            assert "Graz" in asked[NOTED[9]]
            calls = len(model.requests)
            assert (await replayed(kernel, "c/r000008")).status == "completed"
            assert len(model.requests) == calls

    play(scenario())


def test_the_support_desk_keeps_personal_data_from_models_and_hands_hard_cases_over(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path / "s.db", model := Heard()) as kernel:
            session = await Session.open(
                kernel, "c", model="m", profile="support-desk", user="Ann", char="Bo"
            )
            log: list[str] = []
            for number, (text, mark, is_hard) in enumerate(ASKED, start=1):
                result = await session.generate(text)
                assert result.status == "completed"
                assert result.operations["clean_words"] == ("done" if mark else "skipped")
                assert result.operations["handover"] == ("done" if is_hard else "skipped")
                assert ("goes to a person" in result.text) is is_hard
                turn = await session.turn(number)
                assert turn.said == text and (turn.user == text) is not bool(mark)
                assert mark in turn.user and not PERSONAL.search(turn.user)
                log.append(f"Turn {number}: {turn.user}" + " [handed over]" * is_hard)
                assert await session.art("case_log") == log
                state = (await session.arts())["customer_state"]
                assert (state["version"], state["value"]["turn"]) == (number, number)
                assert state["value"]["order"] == "4711" and not PERSONAL.search(str(state))
            said = [message.text for request in model.requests for message in request.messages]
            assert said and not any(PERSONAL.search(text) for text in said)
            shown = await session.show("c/r000006")
            sources = {part["tag"]: part["src"] for part in shown["prompt"]}
            assert sources["art.customer_state"] == (
                "art.customer_state (version 5, operation customer_state, run c/r000005,"
                " profile support-desk@1, system_append)",
            )
            assert "operation:handover" in sources["effect:handover"][0]

            await session.regenerate()  # the other variant has the clean words as well
            assert len(await session.art("case_log")) == len(ASKED)
            await session.rewind(4)
            assert await session.art("case_log") == log[:4]

    play(scenario())


@pytest.mark.parametrize(("text", "clean"), [*REDACTED, *((text, text) for text in UNTOUCHED)])
def test_the_support_desk_takes_out_what_has_a_known_form_and_nothing_else(text: str, clean: str) -> None:
    params = OperationProfile.shipped("support-desk").operation("redaction").params
    assert isinstance(params, TransformParams)

    assert play(apply(parse_steps(list(params.steps)), text)) == clean
