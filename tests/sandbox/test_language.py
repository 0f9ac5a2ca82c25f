"""The checker says what the interpreter will refuse, by line, and nothing else."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from artelier.artifacts.kinds import program_of
from artelier.errors import ArtelierError
from artelier.sandbox import CodeProblem, MontySandbox, SandboxError, check_code
from artelier.sandbox.dialect_check import parse
from artelier.tools.built_in import calculate
from artelier.world.mind_artifacts.condition import read_condition
from artelier.world.mind_artifacts.reflex import check_reflex

SPOKEN = (
    "x = 1\nx",
    "def f(a, /, b=2, *args, c, **kwargs): return a + b + c\nf(1, c=3)",
    "class A:\n    'Doc.'\n    n: int = 1\n    m = n + 1\n    def get(self): return self.m\nA().get()",
    "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\nP(1).x",
    "[x * 2 for x in range(3) if x]",
    "{k: v for k, v in {'a': 1}.items()}",
    "sum(x for x in range(3))",
    "match [1, 2]:\n    case [a, b]: r = a + b\nr",
    "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    r = str(e)\nelse: r = ''\nfinally: pass\nr",
    "class C:\n    def __enter__(self): return 1\n    def __exit__(self, *a): pass\nwith C() as c: r = c\nr",
    "def f():\n    n = 1\n    def g():\n        nonlocal n\n        n += 1\n    g()\n    return n\nf()",
    "async def f(): return 1\nawait f()",
    "import json, math\njson.dumps([math.pi])",
    "from collections import Counter, deque\ndict(Counter('aab'))",
    "from __future__ import annotations\n1",
    "(lambda a: a if a else 0)(1)",
    "if (n := 3) > 2: r = f'{n:>4}'\nr",
    "a, *b = [1, 2, 3]\nb",
    "import re\nre.findall('a+', 'aab')",
)

REFUSED = (
    ("class A(dict): pass", 1),
    ("x = 1\nclass A(metaclass=type): pass", 2),
    ("class A:\n    @property\n    def n(self): return 1", 2),
    ("class A:\n    @staticmethod\n    def n(): return 1", 2),
    ("class A:\n    x = 1\n    if x: y = 2", 3),
    ("class A:\n    class B: pass", 2),
    ("class A:\n    a, b = 1, 2", 2),
    ("def f():\n    yield 1", 2),
    ("def f():\n    x = yield from []", 2),
    ("x = [1]\ndel x[0]", 2),
    ("async def f(x):\n    async with x: pass", 2),
    ("async def f(x):\n    async for y in x: pass", 2),
    ("async def f(x):\n    return [y async for y in x]", 2),
    ("try:\n    pass\nexcept* ValueError:\n    pass", 1),
    ("from math import *", 1),
    ("import socket", 1),
    ("import os, subprocess", 1),
    ("from urllib.request import urlopen", 1),
    ("from . import x", 1),
    ("x = = 1", 1),
    ("x = 1\n  y = 2", 2),
    ("x = '\x00", 1),
)


@pytest.mark.parametrize("code", SPOKEN)
def test_what_the_checker_accepts_runs(sandbox: MontySandbox, code: str):
    assert check_code(code) == ()
    asyncio.run(sandbox.run(code))


@pytest.mark.parametrize(("code", "line"), REFUSED)
def test_what_the_checker_refuses_does_not_run(sandbox: MontySandbox, code: str, line: int):
    problems = check_code(code)

    assert [problem.line for problem in problems] == [line]
    assert problems[0].message
    with pytest.raises(SandboxError) as caught:
        asyncio.run(sandbox.run(code))
    assert caught.value.reason in ("syntax", "unsupported", "error")


@pytest.mark.parametrize(
    "name", ["super", "issubclass", "globals", "vars", "dir", "compile", "input", "delattr"]
)
def test_missing_builtin_is_named_unless_the_code_or_the_host_has_it(sandbox: MontySandbox, name: str):
    code = f"{name}()"

    (problem,) = check_code(code)

    assert problem.message.startswith(f"{name} does not exist here")
    assert check_code(code, names=(name,)) == ()
    assert check_code(f"def {name}(): return 1\n{code}") == ()
    with pytest.raises(SandboxError, match=f"name '{name}' is not defined"):
        asyncio.run(sandbox.run(code))


def test_several_problems_come_in_the_order_of_lines():
    problems = check_code("import socket\ndef f():\n    yield 1\nclass A(f): pass\ndel f")

    assert [problem.line for problem in problems] == [1, 3, 4, 5]
    assert str(problems[1]) == "line 3: yield is not supported; build and return a list"


@pytest.mark.parametrize(
    "code", ["(" * 50_000, "x = " + "-" * 100_000 + "1", "x" + ".a" * 50_000, "#" * 300_000, "\ud800", "\x00"]
)
def test_code_that_no_parser_takes_is_one_problem(code: str):
    problems = check_code(code)

    assert len(problems) == 1
    assert isinstance(problems[0], CodeProblem)
    assert len(problems[0].message) < 300


def test_number_of_problems_is_bounded():
    assert len(check_code("import socket\n" * 1_000)) == 20


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("#" * 32_769, "line 1: the code is longer than 32768 bytes"),
        ("#" + "é" * 16_384, "line 1: the code is longer than 32768 bytes"),
        ("f'" + "{1}" * 2_001 + "'", "line 1: the code has more than 2000 opening braces"),
        ("\nx" + "\u0301" * 31, "line 2: more than 30 combining characters in a row"),
        ("\n\nx" + "\uff9e\u0301" * 16, "line 3: more than 30 combining characters in a row"),
    ],
)
def test_code_that_would_be_slow_to_read_is_not_read(code: str, says: str):
    assert [str(problem) for problem in check_code(code)] == [says]


@pytest.mark.parametrize(
    "code",
    [
        "#" * 32_768,
        "f'" + "{1}" * 2_000 + "'",
        "x = '" + "é" * 10_000 + "'",
        "x = '" + "e\u0301" * 5_000 + "'",
        "x" + "\u0301" * 30 + " = 1",
    ],
)
def test_code_at_its_bounds_is_read(code: str):
    assert check_code(code) == ()


UNREADABLE = {
    "brackets": "(" * 1_900,
    "signs": "-" * 1_900 + "1",
    "attributes": "a" + ".a" * 900,
    "calls": "a" + "()" * 900,
    "powers": "**".join("1" * 900),
    "conditions": "1 if 1 else " * 160 + "1",
    "a zero byte": "1\0",
    "half a character": "'\ud800'",
    "a number": "9" * 1_999 + "e",
}


@pytest.mark.parametrize("door", [check_reflex, program_of, read_condition, calculate])
@pytest.mark.parametrize("code", UNREADABLE.values(), ids=UNREADABLE)
def test_code_that_the_parser_cannot_take_is_refused_in_words(
    code: str, door: Callable[[str], object]
) -> None:
    assert all(isinstance(one, CodeProblem) for one in check_code(code))
    with pytest.raises(ArtelierError):
        door(code)


def test_code_that_others_read_at_the_same_time_is_not_called_too_deep() -> None:
    code = "+".join(f"({'(' * 60}{number}{')' * 60})" for number in range(40))
    interval, thresholds = sys.getswitchinterval(), gc.get_threshold()

    def switch(phase: str, info: dict[str, int]) -> None:
        time.sleep(0)  # lets another thread run, in the middle of the parser

    sys.setswitchinterval(1e-6)
    gc.set_threshold(50)
    gc.callbacks.append(switch)
    try:
        with ThreadPoolExecutor(8) as threads:
            trees = list(threads.map(parse, [code] * 200))
    finally:
        gc.callbacks.remove(switch)
        gc.set_threshold(*thresholds)
        sys.setswitchinterval(interval)
    assert all(len(tree.body) == 1 for tree in trees)
