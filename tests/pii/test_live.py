"""A reply while it is written: no piece of it, and no two together, hold what the finished one does not."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any

import pytest

from artelier import ModelReply, ModelRequest, Run
from artelier.pii.vault import PLACEHOLDER
from artelier.ports.model import Delta, Price
from artelier.testing import ScriptedModel
from tests.kernel.stage import drive, play, result_of, user
from tests.pii.test_door import ACME, ANA, CARD, IBAN, PHONE, assert_nowhere, opened

KEY = "-----BEGIN PRIVATE KEY-----\n" + "\n".join(["MIIEvQIBADANBgkqhkiG9w0BAQEFAASC" * 2] * 9)
KEY += "\n-----END PRIVATE KEY-----"
TEXT = (
    f"I wrote to {ANA} and called {PHONE} twice, on 2026-11-22 and a day later.\n\n"
    f"| who | what |\n| Ana | {CARD} |\n| Bo | {IBAN} |\n\n{KEY}\n"
    "Nothing else was found in the tables of the north, of which there are twelve, and in those of the"
    f" south, of which there are none. Mail me: {ANA}"
)
TRACES = ("ana.lopez", "lopez@", "1234567", "4111", "0532 0130", "MIIE", "BEGIN")


class Pieces:
    """A model that streams its reply in the pieces that it was given."""

    price = Price()

    def __init__(self, pieces: list[str], thinks: bool = False) -> None:
        self.pieces = pieces
        self.thinks = thinks

    async def complete(self, request: ModelRequest, /) -> ModelReply:
        return ModelReply(text="".join(self.pieces))

    async def stream(self, request: ModelRequest, /) -> Any:
        for piece in self.pieces if self.thinks else ():
            yield Delta(reasoning=piece)
        for piece in self.pieces:
            yield Delta(text=piece)
        yield ModelReply(text="".join(self.pieces))


def pieces_of(text: str, seed: int) -> list[str]:
    random, pieces = Random(seed), list[str]()
    while text:
        size = random.choice((1, 2, 3, 5, 9, 17, 200))
        pieces.append(text[:size])
        text = text[size:]
    return pieces


@pytest.mark.parametrize("seed", range(8))
def test_pieces_hold_no_value_however_they_are_cut(tmp_path: Path, seed: int) -> None:
    model, seen = Pieces(pieces_of(TEXT, seed)), list[str]()

    async def code(run: Run) -> Any:
        async for item in run.stream_model(model="m", messages=[user("go")]):
            if isinstance(item, Delta):
                seen.append(item.text)
            else:
                return item.text

    async def scenario() -> None:
        with opened(tmp_path, model) as kernel:  # type: ignore[arg-type]
            runs = kernel.for_tenant(ACME)
            assert await drive(runs, code) == "completed"
            whole = await result_of(runs)
            assert "".join(seen) == whole
            assert await runs.restored(whole) == TEXT
            assert all(trace not in sofar for sofar in accumulate(seen) for trace in TRACES)
            assert all(piece.count("<") == len(PLACEHOLDER.findall(piece)) for piece in seen)
            assert len(seen) > 1

    play(scenario())
    assert_nowhere(tmp_path, ANA, CARD)


@pytest.mark.parametrize("seed", range(3))
def test_reasoning_holds_no_value_however_it_is_cut(tmp_path: Path, seed: int) -> None:
    model, seen = Pieces(pieces_of(TEXT, seed), thinks=True), list[str]()

    async def think(piece: str) -> None:
        seen.append(piece)

    async def code(run: Run) -> Any:
        async for item in run.stream_model(model="m", messages=[user("go")], on_reasoning=think):
            if not isinstance(item, Delta):
                return item.text

    async def scenario() -> None:
        with opened(tmp_path, model) as kernel:  # type: ignore[arg-type]
            runs = kernel.for_tenant(ACME)
            assert await drive(runs, code) == "completed"
            assert await runs.restored("".join(seen)) == TEXT
            assert all(trace not in sofar for sofar in accumulate(seen) for trace in TRACES)
            assert len(seen) > 1

    play(scenario())
    assert_nowhere(tmp_path, ANA, CARD)


def test_a_typed_placeholder_is_text_while_it_is_written(tmp_path: Path) -> None:
    named: list[str] = []
    first = ScriptedModel([lambda request: request.messages[-1].text])

    async def learn(run: Run) -> Any:
        return (await run.step_model(model="m", messages=[user(f"I am {ANA}")])).text

    async def repeat(run: Run) -> Any:
        items = [item async for item in run.stream_model(model="m", messages=[user("go")])]
        return [item.text for item in items if isinstance(item, Delta)]

    async def scenario() -> None:
        with opened(tmp_path, first) as kernel:
            assert await drive(kernel.for_tenant(ACME), learn, "a") == "completed"
            named.extend(PLACEHOLDER.findall(await result_of(kernel.for_tenant(ACME), "a")))
            named[0] = (await result_of(kernel.for_tenant(ACME), "a")).split()[-1]
        model: Any = Pieces(pieces_of(f"so it is {named[0]}, " + "a word " * 40, 3))
        with opened(tmp_path, model) as kernel:
            runs = kernel.for_tenant(ACME)
            assert await drive(runs, repeat, "b") == "completed"
            told = "".join(await result_of(runs, "b"))
            assert ANA not in await runs.restored(told)

    play(scenario())


@pytest.mark.parametrize("before", (19_985, 19_992, 20_000))
def test_text_without_a_space_is_not_parted_within_a_value(tmp_path: Path, before: int) -> None:
    text = ('"a",' * 5_000)[:before] + f';"{ANA}",' + '"b",' * 100
    model: Any = Pieces([text[at : at + 7] for at in range(0, len(text), 7)])
    seen = list[str]()

    async def code(run: Run) -> None:
        async for item in run.stream_model(model="m", messages=[user("go")], max_output_tokens=50_000):
            if isinstance(item, Delta):
                seen.append(item.text)

    async def scenario() -> None:
        with opened(tmp_path, model) as kernel:
            assert await drive(kernel.for_tenant(ACME), code) == "completed"

    play(scenario())
    shown = "".join(seen)
    assert ANA not in shown and len(PLACEHOLDER.findall(shown)) == 1
    assert len(seen) > 1  # a part of it was shown before the end
