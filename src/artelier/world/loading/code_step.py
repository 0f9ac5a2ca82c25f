"""Code steps: what they compute becomes part of the conditions, and the code a tool for the sandbox.

A code step of the old format was run by the host itself, with the agent's facts as local variables; what it
assigned could be used by the conditions after it. Nothing is executed here.
"""

from __future__ import annotations

import ast
import builtins
import textwrap
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from artelier.agents.minds.condition import CONDITION_CHARS_MAX, read_condition
from artelier.agents.minds.prompt import BUILT_IN
from artelier.artifacts.program import check_entry
from artelier.errors import InvalidArtifact
from artelier.sandbox import check_code

_NO_NAMES: Mapping[str, ast.expr] = {}

FACTS = frozenset((*BUILT_IN, "last_action", "consecutive_failures", "stuck"))
"""Names that a world has values for, whatever a code step made of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeStep:
    """What a code step is worth here."""

    values: Mapping[str, ast.expr] = field(default_factory=dict[str, ast.expr])
    """Names that it assigns by an expression which a condition can hold."""
    other: tuple[str, ...] = ()
    """Names that it assigns in another way."""
    program: str | None = None
    """A tool with `run(...)`, its parameters the facts that the code reads."""
    problems: tuple[tuple[int, str], ...] = ()
    """Why there is no program: line of the code, and what is wrong with it."""


def read_code(code: str, *, known: Mapping[str, ast.expr] = _NO_NAMES) -> CodeStep:
    """Look at the code of a step. `known` are values of the code steps before it."""
    code = textwrap.dedent(code)
    problems = tuple((problem.line, problem.message) for problem in check_code(code))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return CodeStep(values=known, problems=problems)
    if problems:
        return CodeStep(values=known, other=tuple(dict.fromkeys(_stored(tree))), problems=problems)
    aliases = _aliases_of_locals(tree)
    values, other = _assigned(tree, aliases, known)
    program = _program(tree, aliases)
    if (problem := _problem(program)) is not None:
        return CodeStep(values=values, other=other, problems=((1, problem),))
    return CodeStep(values=values, other=other, program=program)


def _problem(program: str) -> str | None:
    """Why a program cannot be stored as a tool. It is compiled, never run."""
    try:
        check_entry({"code": program}, entry="run")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(program, "<code>", "exec")
    except InvalidArtifact as error:
        return error.message
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return error.msg if isinstance(error, SyntaxError) else "it cannot be compiled"
    return None


def folded(text: str, values: Mapping[str, ast.expr]) -> str:
    """A condition in which each name of `values` is replaced by its expression.

    Errors: `InvalidArtifact` for what is no condition, or becomes too large for one.
    """
    read_condition(text)
    if not values:
        return text.strip()
    tree = ast.parse(text.strip(), mode="eval")
    if not any(isinstance(node, ast.Name) and node.id in values for node in ast.walk(tree)):
        return text.strip()
    result = ast.unparse(_Put(values).visit(tree))
    if len(result) > CONDITION_CHARS_MAX:
        raise InvalidArtifact("with what the code steps compute, the condition is too long")
    read_condition(result)
    return result


def names_in(text: str) -> frozenset[str]:
    """The names that a condition which was read looks up."""
    tree = ast.parse(text.strip(), mode="eval")
    return frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))


class _Put(ast.NodeTransformer):
    def __init__(self, values: Mapping[str, ast.expr]) -> None:
        self._values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._values.get(node.id, node)


class _Facts(ast.NodeTransformer):
    """Reads of `locals()` as plain names: `_locals.get('balance', 0)` is `balance`, or 0 without one."""

    def __init__(self, aliases: frozenset[str], *, defaults: bool) -> None:
        self._aliases = aliases
        self._defaults = defaults

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        function = node.func
        if not (
            isinstance(function, ast.Attribute) and function.attr == "get" and not node.keywords
        ):
            return node
        if not _is_locals(function.value, self._aliases) or not 1 <= len(node.args) <= 2:
            return node
        name = _name_of_key(node.args[0])
        if name is None:
            return node
        read = ast.Name(name, ast.Load())
        if not self._defaults or len(node.args) == 1:
            return read
        is_none = ast.Compare(read, [ast.Is()], [ast.Constant(None)])
        return ast.IfExp(is_none, node.args[1], ast.Name(name, ast.Load()))

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        name = _name_of_key(node.slice)
        if name is not None and _is_locals(node.value, self._aliases):
            return ast.Name(name, node.ctx)
        return node


def _name_of_key(node: ast.expr) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value if node.value.isidentifier() else None
    return None


def _is_locals(node: ast.expr, aliases: frozenset[str]) -> bool:
    if isinstance(node, ast.Name):
        return node.id in aliases
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "locals"
    )


def _aliases_of_locals(tree: ast.Module) -> frozenset[str]:
    return frozenset({"context"}) | {
        statement.targets[0].id
        for statement in tree.body
        if isinstance(statement, ast.Assign)
        and isinstance(statement.targets[0], ast.Name)
        and _is_locals(statement.value, frozenset())
    }


def _assigned(
    tree: ast.Module, aliases: frozenset[str], known: Mapping[str, ast.expr]
) -> tuple[dict[str, ast.expr], tuple[str, ...]]:
    """What straight assignments give to conditions, and the names that are assigned otherwise."""
    values: dict[str, ast.expr] = dict(known)
    other: dict[str, None] = {}
    for statement in tree.body:
        name, value = _straight(statement)
        if name is None or name in aliases or value is None:
            for gone in _stored(statement):
                if gone not in aliases:
                    values.pop(gone, None)
                    other[gone] = None
            continue
        plain = _Facts(aliases, defaults=False).visit(_copy(value))
        expression = _Put(values).visit(plain)
        names = {node.id for node in ast.walk(expression) if isinstance(node, ast.Name)}
        # `x = x + 1` would be a name that stands for itself.
        if _is_condition(expression) and name not in names and not (names & other.keys()) - FACTS:
            values[name] = expression
            other.pop(name, None)
        else:
            values.pop(name, None)
            other[name] = None
    return values, tuple(other)


def _straight(statement: ast.stmt) -> tuple[str | None, ast.expr | None]:
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        return (target.id, statement.value) if isinstance(target, ast.Name) else (None, None)
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return statement.target.id, statement.value
    return None, None


def _is_condition(expression: ast.expr) -> bool:
    try:
        read_condition(ast.unparse(expression))
    except InvalidArtifact:
        return False
    return True


def _copy(expression: ast.expr) -> ast.expr:
    return ast.parse(ast.unparse(expression), mode="eval").body


def _stored(node: ast.AST) -> Iterator[str]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
            yield inner.id
        elif isinstance(inner, ast.FunctionDef | ast.ClassDef):
            yield inner.name


def _program(tree: ast.Module, aliases: frozenset[str]) -> str:
    """The code as `run`, which gives back what it assigned."""
    body = [
        _Facts(aliases, defaults=True).visit(statement)
        for statement in tree.body
        if not (
            isinstance(statement, ast.Assign) and _is_locals(statement.value, frozenset())
        )
    ]  # fmt: skip
    module = ast.Module(body, [])
    functions = {
        node.name for node in ast.walk(module) if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }
    given = {name for name in _outer_names(body) if not hasattr(builtins, name)}
    results = sorted({
        name for statement in body
        if not isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom)
        for name in _own_stores(statement)
    } - functions)  # fmt: skip
    first = [f"{name} = None" for name in results if name not in given]
    lines = [*first, *ast.unparse(ast.fix_missing_locations(module)).split("\n")]
    shown = ", ".join(f"{name!r}: {name}" for name in results)
    parameters = ", ".join(f"{name}=None" for name in sorted(given))
    inner = "\n".join(f"    {line}" for line in lines if line)
    return f"def run({parameters}):\n{inner}\n    return {{{shown}}}\n"


def _outer_names(body: list[ast.stmt]) -> Iterator[str]:
    """Names that are read before the code itself has assigned them at its top."""
    bound: set[str] = set()
    for statement in body:
        inner = set(_local_names(statement))
        for node in ast.walk(statement):
            if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
                continue
            if node.id not in bound and node.id not in inner:
                yield node.id
        if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
            if statement.target.id not in bound:
                yield statement.target.id
        bound |= set(_stored(statement)) | set(_imported(statement))


def _local_names(statement: ast.stmt) -> Iterator[str]:
    """Names that live inside a statement alone: parameters, and variables of comprehensions and loops."""
    for node in ast.walk(statement):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.comprehension):
            yield from _stored(node.target)
        elif isinstance(node, ast.For):
            yield from _stored(node.target)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            yield node.name
        if isinstance(node, ast.FunctionDef):
            yield node.name
            yield from (name for inner in node.body for name in _stored(inner))


def _imported(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.Import | ast.ImportFrom):
        for alias in statement.names:
            yield (alias.asname or alias.name).split(".")[0]


def _own_stores(statement: ast.stmt) -> Iterator[str]:
    """What a statement assigns outside of comprehensions and functions inside it."""
    hidden = {
        name for node in ast.walk(statement) if isinstance(node, ast.comprehension)
        for name in _stored(node.target)
    }  # fmt: skip
    return (name for name in _stored(statement) if name not in hidden)
