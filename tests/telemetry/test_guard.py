"""A watcher that breaks hurts no run, wherever it breaks, and is complained of once."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from artelier import Kernel, tool
from artelier.ports.telemetry import (
    ModelFacts,
    ModelSpan,
    SilentSpan,
    SilentTelemetry,
    Telemetry,
    ToolFacts,
    ToolSpan,
)
from artelier.testing import ScriptedModel
from tests.kernel.stage import ask, billed, play

SECRET = "sk-live-77"


@tool(side_effect=False)
async def look(at: str) -> str:
    "Look."
    return at


async def worked(tmp_path: Path, telemetry: Any) -> str:
    """What a run of all sorts comes to while it is watched."""
    with Kernel.open(
        tmp_path / "s.db", models=ScriptedModel([billed("a"), billed("b")]), tools=[look], telemetry=telemetry
    ) as kernel:
        async with kernel.run("r") as run:
            await ask(run, "x", key="a")
            await run.step_tool("look", {"at": "moon"}, key="t")
            raised = await run.step_tool("look", {"no": "moon"}, key="bad")
            assert raised.is_error
            async for _ in run.stream_model(model="m", messages=[{"role": "user", "content": "y"}], key="b"):
                pass
            run.finish("well")
        return (await kernel.for_tenant().show("r"))["status"]


class BrokenProcessor(SpanProcessor):
    def __init__(self, *, at: str) -> None:
        self._at = at

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        if self._at == "start":
            raise RuntimeError(SECRET)

    def on_end(self, span: ReadableSpan) -> None:
        if self._at == "end":
            raise RuntimeError(SECRET)


class BrokenExporter(SpanExporter):
    def export(self, spans: Any) -> SpanExportResult:
        raise ConnectionError(SECRET)


class BrokenSpan(SilentSpan):
    def __enter__(self) -> object:
        raise ValueError(SECRET)

    def __exit__(self, *_: object) -> None:
        raise ValueError(SECRET)

    def failed(self, code: str, **_: Any) -> None:
        raise ValueError(SECRET)

    def completed(self, outcome: Any, /, **_: Any) -> None:
        raise ValueError(SECRET)


class BrokenCalls(SilentTelemetry):
    def model_call(self, run: object, facts: ModelFacts) -> ModelSpan:
        return BrokenSpan()

    def tool_call(self, run: object, facts: ToolFacts) -> ToolSpan:
        return BrokenSpan()


class Broken(SilentTelemetry):
    """Raises wherever it is asked."""

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("_"):
            return super().__getattribute__(name)

        def broken(*_: object, **__: object) -> None:
            raise LookupError(SECRET)

        return broken


def tracers(processor: SpanProcessor) -> TracerProvider:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(processor)
    return provider


@pytest.mark.parametrize(
    "telemetry",
    [
        tracers(BrokenProcessor(at="start")),
        tracers(BrokenProcessor(at="end")),
        tracers(SimpleSpanProcessor(BrokenExporter())),
        BrokenCalls(),
        Broken(),
    ],
    ids=["start", "end", "exporter", "calls", "everything"],
)
def test_a_broken_watcher_hurts_no_run(
    tmp_path: Path, telemetry: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, logger="artelier"):
        status = play(worked(tmp_path, telemetry))

    assert status == "completed"
    ours = [record for record in caplog.records if record.name.startswith("artelier")]
    assert len(ours) <= 1
    assert all(SECRET not in record.getMessage() and not record.exc_info for record in ours)


def test_a_watcher_is_told_of_everything_by_the_port(tmp_path: Path) -> None:
    told: list[str] = []

    class Note(SilentTelemetry):
        def run_opened(self, run: object, facts: Any) -> None:
            told.append(f"opened {facts.run_id}")

        def run_closed(self, run: object, *, status: str, code: str = "") -> None:
            told.append(f"closed {status}")

        def model_call(self, run: object, facts: ModelFacts) -> ModelSpan:
            told.append(f"model {facts.key}")
            return SilentSpan()

        def tool_call(self, run: object, facts: ToolFacts) -> ToolSpan:
            told.append(f"tool {facts.key}")
            return SilentSpan()

    assert isinstance(Note(), Telemetry)

    assert play(worked(tmp_path, Note())) == "completed"

    assert told == ["opened r", "model a", "tool t", "tool bad", "model b", "closed completed"]
