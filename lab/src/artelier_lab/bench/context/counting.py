"""The error of a prompt's token estimate against the provider's bill, once one reply has been seen.

The provider here counts with a byte-pair tokenizer that is trained in this process on this package's own
sources and on texts made here, and adds what chat templates add to each message and tool. No tokenizer's
table is downloaded; the estimate never sees this one either.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from artelier import Kernel, ModelReply, ModelRequest, ToolCall, Usage, tool
from artelier.agents import AutonomousAgent
from artelier.context import ContextBuilder, Estimator
from artelier.kernel.prompt.manifest import canonical
from artelier.ports.model import FREE, Price
from artelier.tokens import Window, estimate_tokens
from artelier_lab.bench.kernel.turns import turn_keys

VOCABULARY = 16_000
TRAINING_CHARS_MAX = 3_000_000

MESSAGE_TOKENS, CALL_TOKENS, TOOL_TOKENS, PROMPT_TOKENS = 4, 8, 12, 3
"""What a chat template adds: near what is known of those of OpenAI's and Llama's models."""

KINDS = ("code", "table", "prose", "mixed")
"""What the agent reads: Python, JSON rows, sentences, and sentences in four scripts with numbers."""

RESULT_CHARS = (200, 3_000)

_WORDS: dict[str, tuple[str, ...]] = {
    "prose": tuple(
        "the a of and to in was with customer order shipment late three returned because warehouse moved"
        " question about price remained open until Monday when manager decided not refund anybody who had"
        " asked before summer although report showed otherwise sales fell by percent in region".split()
    ),
    "german": tuple(
        "der die das und nicht mit Bestellung Lieferung Kunde wurde zurückgeschickt weil Größe fehlte"
        " Rechnung über hundert Euro blieb offen bis März obwohl Prüfung längst abgeschlossen war".split()
    ),
    "russian": tuple(
        "заказ был отправлен клиенту в понедельник но склад не подтвердил получение поэтому отчёт остался"
        " без ответа до марта хотя менеджер обещал проверить все цены ещё раз".split()
    ),
    "chinese": tuple("订单 已 发货 客户 没有 收到 仓库 报告 显示 价格 下降 经理 决定 不 退款".split()),
}


class _Encoding(Protocol):
    @property
    def ids(self) -> list[int]: ...


class _Tokenizer(Protocol):
    def encode(self, text: str, /) -> _Encoding: ...


def is_possible() -> bool:
    """Return True if the package `tokenizers` (the extra `minilm`) is installed."""
    return find_spec("tokenizers") is not None


@cache
def _train_tokenizer() -> _Tokenizer:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(_training(), trainer)
    return tokenizer


class Counter:
    """Counts a request as a provider would."""

    def __init__(self) -> None:
        self._tokenizer = _train_tokenizer()
        self._counted: dict[str, int] = {}
        """Most of a prompt is that of the turn before."""

    def text(self, text: str) -> int:
        if (tokens := self._counted.get(text)) is None:
            tokens = self._counted[text] = len(self._tokenizer.encode(text).ids)
        return tokens

    def request(self, request: ModelRequest) -> int:
        tokens = PROMPT_TOKENS
        for message in request.messages:
            tokens += MESSAGE_TOKENS + self.text(message.text)
            for call in message.tool_calls:
                arguments = canonical(call.arguments).decode()
                tokens += CALL_TOKENS + self.text(call.name) + self.text(arguments)
        for schema in request.tools:
            parameters = canonical(schema.parameters).decode()
            tokens += TOOL_TOKENS + self.text(f"{schema.name} {schema.description} {parameters}")
        return tokens


def _training() -> Iterator[str]:
    left = TRAINING_CHARS_MAX
    for text in [*_sources(), *(reading(kind, n) for kind in KINDS for n in range(1_000, 1_100))]:
        if left > 0:
            yield text
        left -= len(text)


def _sources() -> list[str]:
    """Text of this package's own modules."""
    root = Path(str(files("artelier")))
    return [path.read_text("utf-8") for path in sorted(root.rglob("*.py"))]


def reading(kind: str, number: int) -> str:
    """Text number `number` of a kind; the same each time."""
    draw = random.Random(f"{kind}{number}")
    size = draw.randrange(*RESULT_CHARS)
    if kind == "code":
        source = _joined_sources()
        start = draw.randrange(max(1, len(source) - size))
        return source[start : start + size]
    if kind == "table":
        return _table(draw, size)
    if kind == "prose":
        return _sentences(draw, _WORDS["prose"], size)
    languages = ("prose", "german", "russian", "chinese")
    parts = [_sentences(draw, _WORDS[draw.choice(languages)], size // 4) for _ in range(3)]
    return "\n".join([*parts, _table(draw, size // 4)])


def _joined_sources() -> str:
    if not _joined:
        _joined.append("\n".join(_sources()))
    return _joined[0]


_joined: list[str] = []


def _table(draw: random.Random, size: int) -> str:
    rows: list[dict[str, Any]] = []
    while sum(map(len, map(str, rows))) < size:
        rows.append(
            {
                "id": f"ORD-{draw.randrange(10**6):06d}",
                "amount": draw.randrange(10**6) / 100,
                "sku": "".join(draw.choices("ABCDEFGHJKLMNPQRSTUVWXYZ23456789", k=8)),
                "paid": draw.random() < 0.5,
                "region": draw.choice(("north", "south", "east")),
            }
        )
    return canonical(rows).decode()


def _sentences(draw: random.Random, words: tuple[str, ...], size: int) -> str:
    found: list[str] = []
    while sum(map(len, found)) + len(found) < size:
        chosen = [draw.choice(words) for _ in range(draw.randrange(5, 18))]
        if draw.random() < 0.3:
            chosen.insert(draw.randrange(len(chosen)), str(draw.randrange(10_000)))
        found.append(" ".join(chosen).capitalize() + ".")
    return " ".join(found)


@tool(side_effect=False)
async def read(kind: str, n: int) -> str:
    """Read text number n of a kind."""
    return reading(kind, n)


class CountingModel:
    """Reads text after text, and bills what its tokenizer counts."""

    price: Price | None = FREE

    def __init__(self, counter: Counter, *, kind: str, turns: int) -> None:
        self._counter = counter
        self._kind = kind
        self._turns = turns
        self._turn = 0

    def count(self, request: ModelRequest) -> int:
        return self._counter.request(request)

    async def complete(self, request: ModelRequest, /) -> ModelReply:
        usage = Usage(input_tokens=self.count(request), output_tokens=60)
        if not request.tools:
            said = reading(self._kind, 2_000 + self._turn)[:600]
            return ModelReply(text=said, usage=usage)
        self._turn += 1
        if self._turn > self._turns:
            return ModelReply(text="All was read.", usage=usage)
        arguments = {"kind": self._kind, "n": self._turn}
        call = ToolCall(id=f"call_{self._turn:06d}", name="read", arguments=arguments)
        return ModelReply(text="Reading on.", tool_calls=(call,), usage=usage)


def bench_counting(folder: Path, *, turns: int, progress: Callable[[str], None]) -> dict[str, float]:
    """Mean and largest error over agents that read texts of each kind."""
    progress("context: a tokenizer to count with")
    counter = Counter()
    found: dict[str, list[float]] = {}
    for kind in KINDS:
        progress(f"context: estimates of {kind}")
        model = CountingModel(counter, kind=kind, turns=turns)
        found[kind] = asyncio.run(_errors(folder / f"{kind}.db", model, turns=turns))
    every = [error for errors in found.values() for error in errors]
    return {
        "token_estimate_error": sum(every) / len(every),
        "token_estimate_error_max": max(every),
        **{f"token_estimate_error_{k}": sum(e) / len(e) for k, e in found.items()},
    }


async def _errors(path: Path, model: CountingModel, *, turns: int) -> list[float]:
    """Return for each prompt after the first the error of the estimate, as a share of the bill."""
    windows = {"bench": Window(context_tokens=32_000, max_output_tokens=1_000)}
    builder = ContextBuilder(identity="You read texts.", rules="Read all of them, in order.")
    with Kernel.open(path, models={"bench": model}, tools=[read], windows=windows) as kernel:
        agent = AutonomousAgent(kernel=kernel, context_builder=builder, max_iterations=turns + 10)
        result = await agent.run(run_id="run", model="bench", prompt="Read the texts.")
        assert result.status == "completed", (result.status, result.reason)
        desk, estimate, errors = kernel.for_tenant(), Estimator(), list[float]()
        for key in await turn_keys(kernel, "run"):
            # As the agent's own loop does it: parts by estimate, tools by their canonical form.
            manifest, request = await desk.manifest("run", key), await desk.render("run", key)
            raw = sum(part.tokens for part in manifest.parts)
            raw += sum(estimate_tokens(schema.canonical()) for schema in request.tools)
            billed = model.count(request)
            if estimate.raw:
                errors.append(abs(estimate.tokens(raw) - billed) / billed)
            estimate = estimate.learn_from_bill(raw=raw, billed=billed)
    return errors
