"""Vectors from a provider are model steps: allowed, timed, paid for and recorded like any other call.

A tool that asks an embedder does it below its own step, under `<key>/embed/<digest of the texts>`: one that
is entered again after a crash gets the vectors that were paid for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from hashlib import sha256

import msgspec

from artelier.kernel.prompt.assembly import FixedPart, Prompt
from artelier.kernel.prompt.manifest import canonical, decode_messages
from artelier.kernel.run.context import RunCore
from artelier.kernel.steps.model_call import ModelCall
from artelier.kernel.steps.model_step import exact_model_step
from artelier.ports.embedder import Ask
from artelier.ports.model import ChatMessage, ModelReply, ModelRequest, Usage

DIGITS = 7
"""Significant digits of a recorded number: as many as 32 bits have."""


class RunPayer:
    """Pays for the embedders that are asked in one step of a run. `aside()` holds while one answers."""

    def __init__(self, core: RunCore, key: str, aside: Callable[[], AbstractContextManager[None]]) -> None:
        self._core = core
        self._key = key
        self._aside = aside

    async def vectors(self, model: str, texts: Sequence[str], ask: Ask) -> list[list[float]]:
        """See `Payer.vectors`."""
        # A task of its own: a command or the run's time then cuts off this call, not the tool around it.
        step = asyncio.ensure_future(embed_step(self._core, self._key, model, texts, ask))
        with self._aside(), self._core.calls.handed_over():
            return await step


async def embed_step(
    core: RunCore, key: str, model: str, texts: Sequence[str], ask: Ask
) -> list[list[float]]:
    """Vectors of texts as a step of a run. Errors: those of `Run.step_model`; the embedder's own."""
    content = msgspec.json.encode(list(texts)).decode()
    said = canonical((ChatMessage(role="user", content=content),))
    if core.pii is not None:
        said = core.clean(said, foreign=True)
    # Part of no conversation: what is looked for is nothing that was said.
    prompt = Prompt(parts=(FixedPart(tag="texts", messages=decode_messages(said)),))
    call = ModelCall(model=model, messages=prompt, params={"max_output_tokens": 1}, port=_Port(ask))
    ref, _ = core.keep(said)  # a keyed name: nobody who guesses a text finds it by its step
    mark = sha256(f"{model}\n{ref}".encode()).hexdigest()[:16]
    result = await exact_model_step(core, call, key=f"{key}/embed/{mark}")
    if core.actor is not None:
        core.actor.flush()  # durable no later than what its caller stores next
    return result.output


class _Port:
    """An embedder as the kernel calls a model: a JSON list of texts in, their vectors as the output."""

    price = None

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    async def complete(self, request: ModelRequest, /) -> ModelReply:
        said = request.messages[-1].text
        vectors, tokens = await self._ask(msgspec.json.decode(said, type=list[str]))
        output = [[float(f"{number:.{DIGITS}g}") for number in one] for one in vectors]
        return ModelReply(output=output, usage=Usage(input_tokens=tokens))
