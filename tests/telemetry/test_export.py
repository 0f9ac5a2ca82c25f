"""The command line sends what its runs did when it is told to, and data on stdout stays data."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import run_warm

pytestmark = pytest.mark.slow

CONSOLE = {"OTEL_TRACES_EXPORTER": "console", "OTEL_METRICS_EXPORTER": "console"}

HOSTED = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
import sys

class Mine(SpanExporter):
    def export(self, spans):
        for span in spans:
            print("mine:", span.name, file=sys.stderr)
        return SpanExportResult.SUCCESS

provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(Mine()))
trace.set_tracer_provider(provider)

async def work(run):
    run.finish("done")
"""


def artelier(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("ARTELIER_", "OTEL_"))}
    return run_warm(
        [sys.executable, "-m", "artelier", *words],
        cwd=folder,
        env={**kept, **variables},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws" / "sales.csv").write_text("region,amount\nnorth,2\nsouth,3\n")
    return tmp_path


def do(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    words = ("do", "What is the sum of amount?", "--solo", "--workspace", "ws", "--json", "--run-id", "r")
    return artelier(folder, *words, **variables)


def test_the_command_line_sends_spans_and_metrics_of_a_run(folder: Path) -> None:
    done = do(folder, ARTELIER_OTEL="1", **CONSOLE)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"] == "completed"
    assert '"name": "invoke_agent ' in done.stderr
    assert '"name": "chat offline"' in done.stderr
    assert '"gen_ai.client.token.usage"' in done.stderr
    assert '"service.name": "artelier"' in done.stderr
    assert "sum of amount?" not in done.stderr.partition('"name":')[2]


def test_content_and_the_name_of_the_service_are_the_callers_choice(folder: Path) -> None:
    (folder / "artelier.toml").write_text("[telemetry]\nenabled = true\ncontent = true\n")

    done = do(folder, OTEL_SERVICE_NAME="shop", **CONSOLE)

    assert done.returncode == 0, done.stderr
    assert "gen_ai.input.messages" in done.stderr
    assert "sum of amount?" in done.stderr.partition('"name":')[2]
    assert '"service.name": "shop"' in done.stderr


@pytest.mark.parametrize("variables", [{}, {"ARTELIER_OTEL": "0"}])
def test_it_is_off_unless_it_is_turned_on(folder: Path, variables: dict[str, str]) -> None:
    done = do(folder, **variables, **CONSOLE)

    assert done.returncode == 0
    assert "invoke_agent" not in done.stderr


def test_what_is_not_installed_is_said_before_anything_begins(folder: Path) -> None:
    done = do(folder, ARTELIER_OTEL="1", OTEL_TRACES_EXPORTER="nowhere")

    error = json.loads(done.stdout)["error"]
    assert done.returncode == 2
    assert (error["code"], "nowhere" in error["message"]) == ("invalid_config", True)
    assert "artelier[otel]" in error["hint"]
    assert not (folder / ".artelier").exists()


def test_an_exporter_may_be_none(folder: Path) -> None:
    done = do(folder, ARTELIER_OTEL="1", OTEL_TRACES_EXPORTER="none", OTEL_METRICS_EXPORTER="none")

    assert done.returncode == 0, done.stderr
    assert "invoke_agent" not in done.stderr


def test_providers_of_the_host_are_kept(folder: Path) -> None:
    (folder / "mine.py").write_text(HOSTED)

    done = artelier(folder, "run", "mine.py:work", "--run-id", "r", ARTELIER_OTEL="1")

    assert done.returncode == 0, done.stderr
    assert done.stderr.count("mine: invoke_agent") == 1
