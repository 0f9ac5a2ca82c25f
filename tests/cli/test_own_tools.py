"""Tools that a person brings: `--tools FILE` and `--skills DIR` on the commands that work."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from artelier import ModelReply, ToolCall
from tests.cli.conftest import Provider, Ran, Shell
from tests.cli.test_do import PLAN, TEXT, WRITE, decides, passes, says
from tests.cli.test_do_solo import calls

FILE = '''
"""Where things are."""


def shop_hours(city: str) -> str:
    """Say when the shop of a city is open."""
    return f"{city}: nine to five"


def _helper():
    return 1
'''


@pytest.fixture
def provider(provider: Provider, shell: Shell) -> Provider:
    """A model that takes sampling parameters; those that reason warn that they ignore them."""
    shell.set("ARTELIER_MODEL", "openai:gpt-4o-mini")
    return provider


@pytest.fixture
def tool_file(shell: Shell) -> str:
    shell.write("my_tools.py", FILE)
    return "my_tools.py"


def asked_for(provider: Provider, call: int) -> str:
    return json.dumps(provider.server.requests[call].body)


def prompts(provider: Provider) -> list[str]:
    return [asked_for(provider, index) for index in range(provider.calls)]


def do(shell: Shell, *more: str, goal: str = "Write when the shop is open.") -> Ran:
    return shell("do", goal, "--workspace", "sales", "--run-id", "d1", *more)


USE = decides("use_tool", tool="shop_hours", input={"city": "Graz"})


def test_do_plans_with_plain_functions_of_a_file_and_calls_them(
    shell: Shell, sales: str, provider: Provider, tool_file: str
) -> None:
    plan = {**PLAN, "agents": [{"slug": "analyst", "name": "Analyst", "tools": ["shop_hours"]}]}
    provider.says(says(plan), USE, WRITE, TEXT, passes())

    ran = do(shell, "--tools", tool_file)

    assert (ran.code, ran.out) == (0, f"{TEXT}\n"), ran.err
    assert "shop_hours: Say when the shop of a city is open." in asked_for(provider, 0), "planned with it"
    assert "Graz: nine to five" in asked_for(provider, 2), "the agent saw what the function returned"
    assert "shop_hours" in ran.err
    assert "_helper" not in asked_for(provider, 0)
    assert "list_dir" in asked_for(provider, 0), "beside the tools of the workspace"


def test_the_plan_of_a_plain_question_names_the_tools_that_were_brought(
    shell: Shell, sales: str, provider: Provider, tool_file: str
) -> None:
    provider.says(USE, WRITE, TEXT, passes())

    do(shell, "--tools", tool_file, goal="When is the shop open?")

    assert "### shop_hours" in asked_for(provider, 0), "listed first, although it may have side effects"
    assert "Graz: nine to five" in asked_for(provider, 1)


def test_one_agent_alone_has_the_tools_too(
    shell: Shell, sales: str, provider: Provider, tool_file: str
) -> None:
    provider.says(calls("shop_hours", city="Graz"), "Nine to five.")

    ran = do(shell, "--solo", "--tools", tool_file)

    assert (ran.code, ran.out) == (0, "Nine to five.\n"), ran.err
    assert "Graz: nine to five" in asked_for(provider, 1)


@pytest.mark.parametrize("solo", [True, False])
def test_a_run_that_waits_needs_its_tool_file_again_and_says_so(
    shell: Shell, sales: str, provider: Provider, tool_file: str, solo: bool
) -> None:
    question = {"question": "Which city?"}
    if solo:
        provider.says(calls("ask_person", **question))
    else:
        provider.says(says(PLAN), decides("use_tool", tool="ask_person", input=question))
    waits = do(shell, "--tools", tool_file, *(["--solo"] if solo else []))
    assert waits.code == 3, waits.err
    run = "d1" if solo else "d1/answer"
    assert shell("approve", run, "--note", "Graz").code == 0

    without = shell("resume", "d1")
    shown = shell("runs", "show", "d1")

    assert without.code != 0
    assert "shop_hours" in without.err
    assert "--tools FILE" in without.err
    if solo:  # a mission waits for its task, which is the one that can go on
        assert "artelier resume d1 --tools FILE" in shown.out + shown.err
    provider.says(*((calls("shop_hours", city="Graz"), TEXT) if solo else (USE, WRITE, TEXT, passes())))
    ran = shell("resume", "d1", "--tools", tool_file)
    assert (ran.code, ran.out) == (0, f"{TEXT}\n"), ran.err


def test_a_run_of_before_keeps_its_tools_when_a_file_is_given_later(
    shell: Shell, sales: str, provider: Provider, tool_file: str
) -> None:
    provider.says(calls("ask_person", question="Which city?"))
    assert do(shell, "--solo").code == 3
    assert shell("approve", "d1", "--note", "Graz").code == 0
    provider.says("Closed.")

    ran = shell("resume", "d1", "--tools", tool_file)

    assert ran.code == 0, ran.err
    assert all("shop_hours" not in prompt for prompt in prompts(provider))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import nowhere_at_all\n", "my_tools.py:1"),
        ("x = 1\ny = [][3]\n", "my_tools.py:2"),
        ("def broken(:\n", "my_tools.py:1"),
        ("import sys\nsys.exit(3)\n", "sys.exit"),
        ("def a(x: int) -> int:\n    return x\n", "my_tools.py:1: a has no docstring"),
        ('def a(x) -> int:\n    """Do."""\n    return x\n', "a has parameters without a type"),
        ("x = 1\n", "holds no tool"),
        ('def read_file(path: str) -> str:\n    """Read."""\n    return path\n', "my_tools.py:1: a tool of"),
    ],
)
def test_a_tool_file_that_cannot_be_used_is_refused_with_its_line(
    shell: Shell, sales: str, text: str, said: str
) -> None:
    shell.write("my_tools.py", text)

    ran = do(shell, "--tools", "my_tools.py", "--json")

    assert ran.code == 2
    error = ran.error
    told = f"{error['message']} {error['got']}"
    assert said in told, told
    assert not (shell.folder / ".artelier").exists(), "nothing was begun"


def test_a_tool_file_that_is_not_there_is_named(shell: Shell, sales: str) -> None:
    ran = do(shell, "--tools", "nowhere.py", "--json")

    assert (ran.code, ran.error["got"]) == (6, "nowhere.py")


LIBRARIES: dict[str, str] = {
    "pydantic_ai tool": '''
from pydantic_ai import RunContext, Tool

def shop_hours(ctx: RunContext[None], city: str) -> str:
    """Say when the shop of a city is open.

    Args:
        city: Where the shop is.
    """
    return f"{city}: nine to five"

hours = Tool(shop_hours)
''',
    "pydantic_ai toolset": '''
from pydantic_ai import FunctionToolset

toolset = FunctionToolset()

@toolset.tool_plain
async def shop_hours(city: str) -> str:
    """Say when the shop of a city is open."""
    return f"{city}: nine to five"
''',
    "langchain": '''
from langchain_core.tools import tool

@tool
def shop_hours(city: str) -> str:
    """Say when the shop of a city is open."""
    return f"{city}: nine to five"
''',
    "artelier": '''
from artelier import tool

def helper(x):
    return x

@tool(side_effect=False)
def shop_hours(city: str) -> str:
    """Say when the shop of a city is open."""
    return helper(f"{city}: nine to five")
''',
}


@pytest.mark.parametrize("library", LIBRARIES)
def test_tools_of_other_libraries_work_as_they_are(
    shell: Shell, sales: str, provider: Provider, library: str
) -> None:
    shell.write("my_tools.py", LIBRARIES[library])
    wrong = ModelReply(tool_calls=calls("shop_hours", town="Graz").tool_calls)
    provider.says(wrong, calls("shop_hours", city="Graz"), "Nine to five.")

    ran = do(shell, "--solo", "--tools", "my_tools.py")

    assert ran.code == 0, ran.err
    sent: dict[str, Any] = next(
        one["function"]
        for one in provider.server.requests[0].body["tools"]
        if one["function"]["name"] == "shop_hours"
    )
    assert sent["description"].startswith("Say when the shop of a city is open.")
    assert list(sent["parameters"]["properties"]) == ["city"]
    assert "do not fit" in asked_for(provider, 1), "arguments are checked before the tool is entered"
    assert "Graz: nine to five" in asked_for(provider, 2)


def test_a_tool_that_pydantic_ai_wants_approved_asks_a_person(
    shell: Shell, sales: str, provider: Provider
) -> None:
    shell.write(
        "my_tools.py",
        """
from pathlib import Path
from pydantic_ai import Tool

def burn(what: str) -> str:
    \"\"\"Burn something.\"\"\"
    Path("burnt.txt").write_text(what)
    return "burnt"

tool = Tool(burn, requires_approval=True)
""",
    )
    provider.says(calls("burn", what="letters"))

    waits = do(shell, "--solo", "--tools", "my_tools.py")

    assert waits.code == 3, waits.err
    assert not (shell.folder / "burnt.txt").exists()
    assert shell("approve", "d1").code == 0
    provider.says("Done.")
    assert shell("resume", "d1", "--tools", "my_tools.py").code == 0
    assert (shell.folder / "burnt.txt").read_text() == "letters"


def skill(folder: Path, text: str = "Totals first. See LAYOUT.md.") -> None:
    (folder / "report-style").mkdir(parents=True)
    (folder / "report-style" / "SKILL.md").write_text(
        f"---\nname: report-style\ndescription: How our reports look.\n---\n{text}\n"
    )
    (folder / "report-style" / "LAYOUT.md").write_text("One column.\n")


def test_do_reads_the_skills_of_a_folder(shell: Shell, sales: str, provider: Provider) -> None:
    skill(shell.folder / "skills")
    read = decides("use_tool", tool="skill", input={"name": "report-style"})
    file = decides("use_tool", tool="skill", input={"name": "report-style", "file": "LAYOUT.md"})
    provider.says(says(PLAN), read, file, WRITE, TEXT, passes())

    ran = do(shell, "--skills", "skills")

    assert ran.code == 0, ran.err
    assert "report-style: How our reports look" in asked_for(provider, 0)
    assert "Totals first." in asked_for(provider, 2)
    assert "One column." in asked_for(provider, 3)


def test_a_skill_that_has_changed_is_parked_and_named(shell: Shell, sales: str, provider: Provider) -> None:
    skill(shell.folder / "skills")
    provider.says("Nothing.")
    assert do(shell, "--solo", "--skills", "skills").code == 0
    (shell.folder / "skills/report-style/LAYOUT.md").write_text("Two columns.\n")
    arguments = {"name": "report-style"}
    asks = ModelReply(tool_calls=(ToolCall(id="1", name="skill", arguments=arguments),))
    provider.says(asks, "Nothing.")

    ran = shell("do", "Again", "--workspace", "sales", "--run-id", "d2", "--solo", "--skills", "skills")

    assert "skills that wait for an approval: report-style" in ran.err
    assert "How our reports look" not in asked_for(provider, 1)
    assert "a person must approve it" in asked_for(provider, 2)


def test_a_worker_drives_runs_with_the_tools_of_its_file_and_says_which_it_cannot(
    shell: Shell, sales: str, provider: Provider, tool_file: str
) -> None:
    provider.says(calls("ask_person", question="Which city?"), calls("shop_hours", city="Graz"), "At nine.")
    assert do(shell, "--solo", "--tools", tool_file).code == 3
    assert shell("approve", "d1").code == 0

    without = shell("worker", "--once", "--json")
    elsewhere = shell("worker", "--once", "--tools", tool_file, "--labels", "model=another")
    worked = shell("worker", "--once", "--tools", tool_file, "--labels", "loop=agent", "--slots", "1")
    refused = shell("worker", "--once", "--labels", "gpu")

    assert "shop_hours" in json.loads(without.out)["error"]["message"] + str(json.loads(without.out)["error"])
    assert (elsewhere.code, elsewhere.out) == (0, "")
    assert worked.out.startswith("default  d1  completed")
    assert refused.code == 2 and "loop=NAME, model=NAME or agent=ID" in refused.err


def test_a_worker_says_where_supervisors_ask(shell: Shell) -> None:
    ran = shell("worker", "--once", "--health", "0")
    refused = shell("worker", "--once", "--health", "here")

    assert ran.code == 0 and "health on http://127.0.0.1:" in ran.err
    assert refused.code == 2 and "PORT or HOST:PORT" in refused.err
