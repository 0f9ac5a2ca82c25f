"""The reply of a chat by the next model of its list, when the first one fails."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, Policy, Session
from artelier.errors import InvalidRequest, ProviderUnavailable, UnknownModel
from artelier.ports.model import FREE, Delta, ModelReply, ModelRequest
from artelier.testing import ScriptedModel
from tests.operations.chats import kernel_of, play

DOWN = ProviderUnavailable("down")


class BreaksOff:
    """A model whose provider ends in the middle of a reply."""

    price = FREE

    async def complete(self, request: ModelRequest, /) -> ModelReply:
        raise DOWN

    async def stream(self, request: ModelRequest, /) -> AsyncIterator[Delta | ModelReply]:
        yield Delta(text="We ri")
        raise DOWN


def with_models(folder: Path, **models: Any) -> Kernel:
    policy = Policy(backoff_s=0, attempts_max=1)
    return Kernel.open(folder / "s.db", models=models, environ={}, policy=policy)


def test_the_next_model_replies_and_the_turn_shows_its_prompt(tmp_path: Path) -> None:
    first, second = ScriptedModel([DOWN] * 3), ScriptedModel(["By b.", "Again.", "Mine."])

    async def scenario() -> None:
        with with_models(tmp_path, a=first, b=second) as kernel:
            chat = await Session.open(kernel, "c", model="a", fallbacks=["b"])
            turn = await chat.generate("hi")
            assert (turn.text, turn.finish_reason) == ("By b.", "completed")
            runs = kernel_of(chat)
            assert (await runs.manifest(turn.run_id, "main/model")).model == "openai:a"
            assert (await runs.manifest(turn.run_id, "main/model/fallback-1")).model == "openai:b"
            shown = await chat.show(turn.run_id)
            assert [one["tag"] for one in shown["prompt"]]
            told = [one async for one in chat.watch(turn.run_id)]
            begun = [one.data["model"] for one in told if one.type == "main_llm.started"]
            assert begun == ["openai:a", "openai:b"]
            assert (await chat.regenerate()).text == "Again."
            assert (await chat.impersonate()).text == "Mine."

        with with_models(tmp_path, a=first, b=second) as kernel:
            chat = await Session.open(kernel, "c")
            assert (await chat.settings()).fallbacks == ("b",)
            assert (await chat.turns())[-1].text == "Again."

    play(scenario())
    assert (len(first.requests), len(second.requests)) == (3, 3)


def test_a_reply_that_has_begun_is_asked_of_no_other_model(tmp_path: Path) -> None:
    second = ScriptedModel(["By b."])

    async def scenario() -> None:
        with with_models(tmp_path, a=BreaksOff(), b=second) as kernel:
            chat = await Session.open(kernel, "c", model="a", fallbacks=["b"])
            turn = await chat.generate("hi")
            assert (turn.status, turn.finish_reason) == ("failed", "provider_error")

    play(scenario())
    assert not second.requests


def test_models_to_fall_back_on_are_checked_when_they_are_named(tmp_path: Path) -> None:
    async def scenario() -> None:
        with with_models(tmp_path, a=ScriptedModel([]), b=ScriptedModel([])) as kernel:
            for wrong in (["a"], ["b", "b"], "b", [1], ["b"] * 8):
                with pytest.raises(InvalidRequest):
                    await Session.open(kernel, "c", model="a", fallbacks=wrong)
            with pytest.raises(UnknownModel):
                await Session.open(kernel, "c", model="a", fallbacks=["nobody:x"])
            chat = await Session.open(kernel, "c", model="a", fallbacks=["b"])
            with pytest.raises(InvalidRequest):
                await chat.change(model="b")
            await chat.change(model="b", fallbacks=None)
            assert (await chat.settings()).fallbacks == ()

    play(scenario())
