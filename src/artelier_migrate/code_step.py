"""Code steps: each becomes a tool that the workflow runs in the sandbox before the prompt.

A code step of the old format was run by the host itself, with the agent's facts as local variables; what it
assigned could be used by the steps after it. Nothing is executed here.
"""

from __future__ import annotations

import ast
import builtins
import textwrap
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from artelier.artifacts.kinds import check_entry
from artelier.errors import InvalidArtifact
from artelier.sandbox import check_code
from artelier.world.mind_artifacts.prompt import BUILT_IN
from artelier_migrate.document import VARIABLES, Rename

FACTS = frozenset((*BUILT_IN, "last_action", "consecutive_failures", "stuck", "working_memory"))
"""Names that a world has values for."""

_UNSET = "\\x00"
"""In a program: the value of a name that no branch has assigned; it is not given back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslatedCodeStep:
    """The translation of a code step: its program, or the problems that prevent one."""

    assigned: tuple[str, ...] = ()
    """Names that it may give values to."""
    required: frozenset[str] = frozenset()
    """Names without which it fails."""
    program: str | None = None
    """A tool with `run(...)`, its parameters the facts that the code reads."""
    problems: tuple[tuple[int, str], ...] = ()
    """Why there is no program: line of the code, and what is wrong with it."""


def read_code(code: str) -> TranslatedCodeStep:
    """Make a tool of the code of a step. Nothing is executed here."""
    code = textwrap.dedent(code)
    problems = tuple((problem.line, problem.message) for problem in check_code(code))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return TranslatedCodeStep(problems=problems or ((1, "it is not Python"),))
    assigned = tuple(sorted(set(_stored(tree))))
    if problems:
        return TranslatedCodeStep(assigned=assigned, problems=problems)
    program = _TranslatedProgram(tree)
    if (problem := _problem(program.text)) is not None:
        return TranslatedCodeStep(assigned=assigned, problems=((1, problem),))
    return TranslatedCodeStep(assigned=program.results, required=program.required, program=program.text)


def _problem(program: str) -> str | None:
    """Return why a program cannot be stored as a tool. It is compiled, never run."""
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


def names_in(text: str) -> frozenset[str]:
    """The names that a condition which was read looks up."""
    tree = ast.parse(text.strip(), mode="eval")
    return frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))


class _LocalsRewriter(ast.NodeTransformer):
    """Reads of `locals()` as plain names: `_locals.get('balance', 0)` is `balance`, or 0 without one."""

    def __init__(self, aliases: frozenset[str]) -> None:
        self._aliases = aliases
        self.optional: set[str] = set()
        """Names that were looked for without being needed."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        function = node.func
        if not (isinstance(function, ast.Attribute) and function.attr == "get" and not node.keywords):
            return node
        if not _is_locals(function.value, self._aliases) or not 1 <= len(node.args) <= 2:
            return node
        name = _name_of_key(node.args[0])
        if name is None:
            return node
        self.optional.add(name)
        read = ast.Name(name, ast.Load())
        if len(node.args) == 1:
            return read
        is_none = ast.Compare(read, [ast.Is()], [ast.Constant(None)])
        return ast.IfExp(is_none, node.args[1], ast.Name(name, ast.Load()))

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """`'balance' in _locals`."""
        self.generic_visit(node)
        name = _name_of_key(node.left)
        if name is None or len(node.ops) != 1 or not isinstance(node.ops[0], ast.In | ast.NotIn):
            return node
        if not _is_locals(node.comparators[0], self._aliases):
            return node
        self.optional.add(name)
        found = ast.IsNot() if isinstance(node.ops[0], ast.In) else ast.Is()
        return ast.Compare(ast.Name(name, ast.Load()), [found], [ast.Constant(None)])

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
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "locals"


def _aliases_of_locals(tree: ast.Module) -> frozenset[str]:
    return frozenset({"context"}) | {
        statement.targets[0].id
        for statement in tree.body
        if isinstance(statement, ast.Assign)
        and isinstance(statement.targets[0], ast.Name)
        and _is_locals(statement.value, frozenset())
    }


def _stored(node: ast.AST) -> Iterator[str]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
            yield inner.id
        elif isinstance(inner, ast.FunctionDef | ast.ClassDef):
            yield inner.name


class _TranslatedProgram:
    """The code as `run`, which gives back what it assigned."""

    def __init__(self, tree: ast.Module) -> None:
        aliases = _aliases_of_locals(tree)
        facts = _LocalsRewriter(aliases)
        rename = Rename(frozenset(_stored(tree)))
        body: list[ast.stmt] = [
            rename.visit(facts.visit(statement))
            for statement in tree.body
            if not (isinstance(statement, ast.Assign) and _is_locals(statement.value, frozenset()))
        ]
        functions = {
            node.name
            for one in body
            for node in ast.walk(one)
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
        }
        optional = {VARIABLES.get(name, name) for name in facts.optional}
        given = {name for name in _outer_names(body) if not hasattr(builtins, name)}
        stored = {
            name
            for statement in body
            if not isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom)
            for name in _own_stores(statement)
        }
        self.results = tuple(sorted(stored - functions))
        self.required = frozenset(given - optional)
        self.text = _run_text(
            body,
            required=sorted(self.required),
            optional=sorted(given & optional),
            results=self.results,
            sure=_surely_stored(body),
        )


def _run_text(
    body: list[ast.stmt],
    *,
    required: list[str],
    optional: list[str],
    results: tuple[str, ...],
    sure: frozenset[str],
) -> str:
    unset = [name for name in results if name not in (*sure, *required, *optional)]
    lines = [f"{name} = '{_UNSET}'" for name in unset]
    lines += ast.unparse(ast.fix_missing_locations(ast.Module(body, []))).split("\n")
    shown = ", ".join(f"{name!r}: {name}" for name in results)
    lines.append(f"_given = {{{shown}}}")
    # Only JSON data leaves the sandbox.
    kinds = "(bool, int, float, str, list, tuple, dict)"
    lines.append(
        "return {_name: _value for _name, _value in _given.items()"
        f" if (_value is None or isinstance(_value, {kinds})) and _value != '{_UNSET}'}}"
    )
    parameters = ", ".join((*required, *(f"{name}=None" for name in optional)))
    inner = "\n".join(f"    {line}" for line in lines if line)
    return f"def run({parameters}):\n{inner}\n"


def _surely_stored(body: list[ast.stmt]) -> frozenset[str]:
    """Return the names that statements at the top assign, whatever branches do."""
    plain = (ast.Assign, ast.AnnAssign, ast.AugAssign)
    return frozenset(name for one in body if isinstance(one, plain) for name in _own_stores(one))


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
    """Return what a statement assigns outside of comprehensions and functions inside it."""
    hidden = {
        name
        for node in ast.walk(statement)
        if isinstance(node, ast.comprehension)
        for name in _stored(node.target)
    }
    return (name for name in _stored(statement) if name not in hidden)
