"""The Python of the sandbox: explains, when code is stored, what would fail when it runs.

This is advice, not the wall: the interpreter refuses the same things by itself, and code that
passes here can do no more than code that was never checked.
"""

from __future__ import annotations

import ast
import unicodedata
import warnings
from collections.abc import Iterator, Mapping
from threading import Lock
from typing import NamedTuple

CODE_BYTES_MAX = 32 * 1024
BRACES_MAX = 2_000
"""Opening braces in code that is not short. Reading an f-string takes its length times its pieces."""
BRACES_FREE_BYTES = 4 * 1024
MARKS_MAX = 30
"""Combining characters in a row: putting them in order takes the square of their number."""
PROBLEMS_MAX = 20

MODULES: frozenset[str] = frozenset(
    "__future__ asyncio base64 binascii bisect collections copy csv dataclasses datetime decimal "
    "functools hashlib itertools json math os os.path pathlib posixpath random re sys time tomllib "
    "typing unicodedata".split()
)
"""What `import` finds; measured against pydantic-monty 1.4.0."""

_ABSENT: Mapping[str, str] = {
    "super": "there is no inheritance",
    "issubclass": "there is no inheritance",
    "globals": "there is no module object",
    "vars": "there is no object dictionary",
    "dir": "there is no object dictionary",
    "compile": "call the function itself",
    "__import__": "use import",
    "input": "pass inputs instead",
    "breakpoint": "there is no debugger",
    "exit": "let the code end",
    "quit": "let the code end",
    "help": "there is no console",
    "delattr": "nothing can be deleted",
    "callable": "call it and catch TypeError",
    "memoryview": "use bytes",
}
"""Builtins that the sandbox lacks, with what to do instead."""


class CodeProblem(NamedTuple):
    """Something the sandbox will refuse: `line` counts from 1."""

    line: int
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.message}"


def check_code(code: str, *, names: tuple[str, ...] = ()) -> tuple[CodeProblem, ...]:
    """Return what the sandbox would refuse about this code, by line; empty if nothing is known to fail.

    Shapes: `names` are functions and inputs that the host will supply. At most `PROBLEMS_MAX` come
    back.
    """
    problem = costly(code)
    if problem is not None:
        return (problem,)
    try:
        tree = parse(code)
    except SyntaxError as error:
        return (CodeProblem(error.lineno or 1, f"not Python: {error.msg}"),)
    bound = _bound_names(tree) | set(names)
    found = {problem for node in ast.walk(tree) for problem in _problems(node, bound)}
    return tuple(sorted(found)[:PROBLEMS_MAX])


_PARSING = Lock()
"""CPython counts the depth of a tree for all threads together (gh-106905): two that parse at the same time
make each other fail. So one does, and what fails then is the code's own fault."""


def parse(code: str) -> ast.Module:
    """Return the syntax tree of code that is not `costly`.

    Errors: `SyntaxError`, also for code that nests too deeply or cannot be text of a program.
    """
    tree = _parse(code, "exec")
    assert isinstance(tree, ast.Module)
    return tree


def parse_expression(text: str) -> ast.Expression:
    """Return the syntax tree of a short expression. Errors: as of `parse`."""
    tree = _parse(text, "eval")
    assert isinstance(tree, ast.Expression)
    return tree


def _parse(code: str, mode: str) -> ast.AST:
    with _PARSING, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(code, mode=mode)
        except ValueError as error:  # half a character, a zero byte, a number of 5,000 digits
            raise SyntaxError(str(error)) from None
        except (SystemError, RecursionError, MemoryError):  # of the parser's own stack, no more
            raise SyntaxError("nested too deeply") from None


def costly(code: str, *, bytes_max: int = CODE_BYTES_MAX) -> CodeProblem | None:
    """Return why only reading this code would take long; None if it may be read. Cost: O(length).

    Within these bounds the slowest code known takes a tenth of a second.
    """
    if len(code) > bytes_max or len(code.encode(errors="replace")) > bytes_max:
        return CodeProblem(1, f"the code is longer than {bytes_max} bytes")
    if len(code) > BRACES_FREE_BYTES and code.count("{") > BRACES_MAX:
        return CodeProblem(1, f"the code has more than {BRACES_MAX} opening braces")
    if code.isascii():
        return None
    marks = frozenset(char for char in set(code) if not char.isascii() and _is_mark(char))
    row, line = 0, 1
    for char in code if marks else "":
        row = row + 1 if char in marks else 0
        line += char == "\n"
        if row > MARKS_MAX:
            return CodeProblem(line, f"more than {MARKS_MAX} combining characters in a row")
    return None


def _is_mark(char: str) -> bool:
    return any(map(unicodedata.combining, unicodedata.normalize("NFKD", char)[:1]))


def _bound_names(tree: ast.AST) -> set[str]:
    bound: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.alias):
            bound.add((node.asname or node.name).split(".")[0])
    return bound


_STATEMENTS: Mapping[type[ast.AST], str] = {
    ast.Yield: "yield is not supported; build and return a list",
    ast.YieldFrom: "yield from is not supported; build and return a list",
    ast.Delete: "del is not supported; use pop() or assign None",
    ast.AsyncWith: "async with is not supported",
    ast.AsyncFor: "async for is not supported",
    ast.TryStar: "except* is not supported; use except",
}


def _problems(node: ast.AST, bound: set[str]) -> Iterator[CodeProblem]:
    line = getattr(node, "lineno", 1)
    fixed = _STATEMENTS.get(type(node))
    if fixed is not None:
        yield CodeProblem(line, fixed)
    elif isinstance(node, ast.ClassDef):
        yield from _class_problems(node)
    elif isinstance(node, ast.Import):
        for alias in node.names:
            yield from _module_problem(line, alias.name)
    elif isinstance(node, ast.ImportFrom):
        yield from _from_problems(node)
    elif isinstance(node, ast.comprehension) and node.is_async:
        yield CodeProblem(node.target.lineno, "async comprehensions are not supported")
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        if node.id in _ABSENT and node.id not in bound:
            yield CodeProblem(line, f"{node.id} does not exist here; {_ABSENT[node.id]}")


def _class_problems(node: ast.ClassDef) -> Iterator[CodeProblem]:
    if node.bases or node.keywords:
        yield CodeProblem(node.lineno, "class inheritance and metaclasses are not supported")
    for item in node.body:
        if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef):
            if item.decorator_list:
                yield CodeProblem(
                    item.decorator_list[0].lineno,
                    "decorators on methods are not supported (property, staticmethod, ...)",
                )
        elif not _is_class_variable(item):
            yield CodeProblem(item.lineno, "a class holds only methods and `name = value`")


def _is_class_variable(item: ast.stmt) -> bool:
    if isinstance(item, ast.Pass):
        return True
    if isinstance(item, ast.Expr):
        return isinstance(item.value, ast.Constant) and isinstance(item.value.value, str)
    if isinstance(item, ast.AnnAssign):
        return isinstance(item.target, ast.Name)
    if isinstance(item, ast.Assign):
        return len(item.targets) == 1 and isinstance(item.targets[0], ast.Name)
    return False


def _from_problems(node: ast.ImportFrom) -> Iterator[CodeProblem]:
    if node.level:
        yield CodeProblem(node.lineno, "relative imports are not supported")
        return
    if any(alias.name == "*" for alias in node.names):
        yield CodeProblem(node.lineno, "import * is not supported; name what you need")
    yield from _module_problem(node.lineno, node.module or "")


def _module_problem(line: int, name: str) -> Iterator[CodeProblem]:
    if name not in MODULES:
        yield CodeProblem(line, f"no module {name[:80]!r}; there are {', '.join(sorted(MODULES))}")
