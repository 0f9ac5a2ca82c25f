"""Values that hide: found in whatever way they are encoded, spaced or parted, without more false alarms."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path

import pytest

from artelier.app import Kernel
from artelier.errors import RunSuspended
from artelier.kernel import Policy
from artelier.pii.detectors import builtin_detectors
from artelier.pii.detectors.text_view import ValuePlace
from artelier.pii.hidden_values import places
from artelier.pii.vault import placeholders_in
from artelier.testing import ScriptedModel
from artelier_lab.pii.corpus import Sample
from artelier_lab.pii.hidden import HIDINGS, MADE, benign, hidden_values
from tests.pii.test_laws import scrubber
from tests.repository.sources import ROOT
from tests.server.test_personal import KEY

RECALL_LEAST = {"parted groups": 0.7, "base64 twice": 0.98}
"""Where less than all is found. Groups that a line's end parts count only beside words."""


def found_in(sample: Sample, *, rules: int) -> bool:
    found: Sequence[ValuePlace] = places(builtin_detectors(), sample.text, rules=rules)
    return any(one.start < sample.end and one.end > sample.start for one in found)


@pytest.mark.parametrize("hiding", [*HIDINGS, *MADE])
def test_hidden_values_are_found(hiding: str) -> None:
    samples = hidden_values(hiding, count=100)

    recall = sum(found_in(one, rules=2) for one in samples) / len(samples)

    assert recall >= RECALL_LEAST.get(hiding, 1.0)
    assert recall >= sum(found_in(one, rules=1) for one in samples) / len(samples)


def test_what_only_looks_like_hidden_values_is_left_alone() -> None:
    for kind, text in benign(count=100):
        assert places(builtin_detectors(), text, rules=2) == places(builtin_detectors(), text, rules=1), (
            kind,
            text,
        )


def test_the_sources_of_this_repository_hold_no_more_than_before() -> None:
    files = [*(ROOT / "src/artelier/kernel").rglob("*.py"), *(ROOT / "docs/decisions").rglob("*.md")]
    for file in files:
        text = file.read_text()
        assert places(builtin_detectors(), text, rules=2) == places(builtin_detectors(), text, rules=1), file


@pytest.mark.parametrize(
    "text",
    [
        "header " + b64encode(b"ana:ana@example.org").decode() + " end",
        "bytes " + b"ana@example.org".hex(" ") + " end",
        "see https://example.org/?u=%61%6E%61%40%65xample.org now",
        "write to ana @ example . org today",
        "write to ana@\nexample.org today",
        "to ana@exam\U000e0101ple.org",
    ],
)
def test_a_hidden_value_becomes_one_placeholder_that_leads_back(text: str) -> None:
    of_acme = scrubber()

    done = of_acme.text(text)

    assert len(placeholders_in(done)) == 1
    assert of_acme.text(done) == done
    value = "ana@example.org"
    assert of_acme.restore(done) in (text, text[: text.find("ana")] + value + text[text.rfind("org") + 3 :])


def test_an_encoded_token_comes_back_byte_for_byte_and_is_told_from_the_value() -> None:
    of_acme, token = scrubber(), b64encode(b"ana@example.org").decode()

    plain, encoded = of_acme.text("to ana@example.org"), of_acme.text(f"X-To: {token}")

    assert plain.split()[1] != encoded.split()[1]
    assert of_acme.restore(encoded) == f"X-To: {token}"
    assert of_acme.restore(plain) == "to ana@example.org"


def test_a_spaced_address_has_the_placeholder_of_the_address() -> None:
    of_acme = scrubber()

    assert of_acme.text("ana@example.org") == of_acme.text("ana @ example . org")


SIGNS = (
    "aGVsbG8gd29ybGQ= ",
    "68656c6c6f20776f726c64 ",
    "68 65 6c 6c 6f 20 77 6f ",
    "a @ ",
    "a@\n",
    "4111 1111\n",
    "%41",
    "\\\\\\",
    "\U000e0101",
    "= \n",
)


@pytest.mark.parametrize("sign", SIGNS)
def test_texts_full_of_signs_of_hiding_are_searched_to_their_end(sign: str) -> None:
    places(builtin_detectors(), sign * (30_000 // len(sign)), rules=2)


@pytest.mark.parametrize("began_under", [1, 2])
def test_a_run_keeps_the_rules_that_it_was_started_under(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, began_under: int
) -> None:
    token = b64encode(b"ana@example.org").decode()
    model = ScriptedModel(["ok"])

    async def drive() -> str:
        kernel = Kernel.open(tmp_path / "state.db", policy=Policy(pii=True), environ=KEY, models=model)
        said = ""
        try:
            async with kernel.run("r", tenant="acme", on_wait="suspend") as run:
                asked = [{"role": "user", "content": f"what is {token}?"}]
                said = (await run.step_model(model="scripted", messages=asked)).text
                await run.approve("Go on?", key="ask", details={"token": token})
        except RunSuspended:
            pass
        finally:
            await kernel.aclose()
        return said

    monkeypatch.setattr("artelier.kernel.run.lifecycle.RULES", began_under)  # as an older version
    assert asyncio.run(drive()) == "ok"
    monkeypatch.undo()
    assert asyncio.run(drive()) == "ok"  # the same request, which the log has

    assert len(model.requests) == 1
    assert (token in model.requests[0].messages[0].text) == (began_under == 1)
