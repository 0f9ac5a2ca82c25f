"""An agent with memory, skills and compaction over real HTTP, killed with `kill -9`, goes on."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from artelier.testing import tool_call
from artelier.testing.openai_server import OpenAIServer
from tests.processes import WarmPython
from tests.verification import is_store

PROGRAM = '''
import asyncio, json, sys
from pydantic import BaseModel
from artelier import AutonomousAgent, CompactionStrategy, ContextBuilder, Kernel, Tenant, tool
from artelier.memory import SQLiteMemoryStore

class ReportSchema(BaseModel):
    title: str
    findings: list[str]

@tool(side_effect=False)
def query_sales(quarter: int) -> dict[str, int]:
    """Query the sales of a quarter."""
    return {"quarter": quarter, "total": 100 * quarter}

async def main():
    kernel = Kernel.open("state.db", tools=[query_sales])
    tenant = Tenant("acme", grants={"tools:*"}, budget_usd="5.00")

    memory_store = SQLiteMemoryStore(db_path="agent_memory.db")
    agent = AutonomousAgent(
        kernel=kernel,
        context_builder=ContextBuilder(identity="You are a senior data analyst.",
                                       memory_store=memory_store, progressive_skills=True),
        compaction=CompactionStrategy(trigger_at_messages=14, summarize_with_model="gpt-4o-mini",
                                      keep_recent_messages=4))
    if sys.argv[1:] == ["replay"]:
        replayed = await kernel.for_tenant("acme").replay("analyst_run_001", agent.drive)
        print(json.dumps({"status": replayed.status, "calls": replayed.model_calls + replayed.tool_calls}))
    else:
        result = await agent.run(run_id="analyst_run_001", tenant=tenant, model="gpt-4o",
                                 prompt="Analyze the Q3 sales data and write a report.",
                                 output_schema=ReportSchema)
        assert result.output is None or isinstance(result.output, ReportSchema)
        blocks = await memory_store.for_agent("acme", agent.agent_id).blocks()
        print(json.dumps({"status": result.status, "reason": result.reason, "text": result.text,
                          "notes": blocks[0].text}))
    memory_store.close()
    await kernel.aclose()

asyncio.run(main())
'''

ACTIONS: list[Any] = [
    tool_call("core_memory_append", {"content": "Q3 matters most."}),
    tool_call("load_skill", {"skill_name": "query_sales"}),
    *[tool_call("use_skill", {"name": "query_sales", "arguments": {"quarter": q}}) for q in (1, 2, 3, 4)],
    tool_call("core_memory_append", {"content": "Total of Q3 is 300."}),
    tool_call("use_skill", {"name": "query_sales", "arguments": {"quarter": 3}}),
]


def answer(body: dict[str, Any]) -> Any:
    """What the model says depends on nothing but the request: on the number of turns it can see."""
    texts = [str(message.get("content")) for message in body["messages"]]
    if "Task: summarise past events." in texts[0]:
        turns = sum(line.startswith("[") and "calls" in line for line in texts[-1].splitlines())
        before = sum(int(text.split("turns=")[1].split()[0]) for text in texts if "turns=" in text)
        return f"turns={turns + before} were taken."
    seen = sum(message["role"] == "assistant" for message in body["messages"])
    seen += sum(int(text.split("turns=")[1].split()[0]) for text in texts if "turns=" in text)
    if seen < len(ACTIONS):
        return ACTIONS[seen]
    return {"title": "Q3", "findings": ["The total of Q3 is 300."]}


def start(cwd: Path, server: OpenAIServer, *arguments: str) -> subprocess.Popen[str]:
    (cwd / "program.py").write_text(PROGRAM)
    environ = {key: value for key, value in os.environ.items() if not key.startswith("ARTELIER_")}
    environ |= {"OPENAI_API_KEY": "test", "OPENAI_BASE_URL": server.base_url}
    return WarmPython(
        [sys.executable, "program.py", *arguments],
        cwd=cwd,
        env=environ,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def finish(cwd: Path, server: OpenAIServer, *arguments: str) -> dict[str, Any]:
    process = start(cwd, server, *arguments)
    out, err = process.communicate(timeout=90)
    assert process.returncode == 0, f"{out}\n{err}"
    return json.loads(out.splitlines()[-1])


def events(database: Path) -> int:
    try:
        with sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True, timeout=5) as db:
            return db.execute("SELECT count(*) FROM events").fetchone()[0]
    except sqlite3.Error:
        return 0


def kill_at(process: subprocess.Popen[str], database: Path, count: int) -> bool:
    """Kill -9 as soon as so many events are durable; False if the process was faster."""
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        if events(database) >= count:
            process.send_signal(signal.SIGKILL)
            break
        time.sleep(0.002)
    process.kill()  # whatever happened, it is waited for no longer
    process.communicate()
    return process.returncode == -signal.SIGKILL


EXPECTED = {"status": "completed", "reason": "", "notes": "Q3 matters most.\nTotal of Q3 is 300."}


@pytest.mark.slow
@pytest.mark.parametrize("stops", [[31], [9, 27, 45]])
def test_a_killed_agent_ends_as_an_undisturbed_one(tmp_path: Path, stops: list[int]) -> None:
    database = tmp_path / "state.db"
    with OpenAIServer(answer) as server:
        kills = sum(kill_at(start(tmp_path, server), database, count) for count in stops)
        result = finish(tmp_path, server)
        asked = len(server.requests)
        replayed = finish(tmp_path, server, "replay")

        assert {name: result[name] for name in EXPECTED} == EXPECTED
        assert json.loads(result["text"])["title"] == "Q3"
        # Eight actions, the report, and a summary; a call in flight at a kill is made again.
        assert 10 <= asked <= 10 + kills + 1
        assert replayed == {"status": "completed", "calls": 0}
        assert len(server.requests) == asked
    assert kills
    for file in ("state.db", "agent_memory.db"):
        assert is_store(tmp_path / file), "it is verified after the test"
