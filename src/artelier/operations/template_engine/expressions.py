"""Expressions of a template as functions of a rendering, from the syntax tree of `liquid`.

Only node types that are named here exist; the library's own evaluation is not used, because it
has no bound on work, asks Python objects for attributes, and reads the clock.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, cast

from liquid.builtin.expressions.arguments import KeywordArgument
from liquid.builtin.expressions.filtered import Filter, FilteredExpression
from liquid.builtin.expressions.logical import (
    BooleanExpression,
    ContainsExpression,
    EqExpression,
    GeExpression,
    GtExpression,
    LeExpression,
    LogicalAndExpression,
    LogicalOrExpression,
    LtExpression,
    NeExpression,
)
from liquid.builtin.expressions.path import Path
from liquid.builtin.expressions.primitive import Blank, Empty, Literal, Nil, RangeLiteral
from liquid.expression import Expression

from artelier.operations.template_engine.lexer import invalid
from artelier.operations.template_engine.list_filters import ACCEPTS_UNDEFINED, FILTERS, NAMED_ARGUMENTS
from artelier.operations.template_engine.renderer import (
    NODE_WORK,
    InvalidTemplate,
    Rendering,
    TemplateFailed,
    TemplateLimit,
)
from artelier.operations.template_engine.text_filters import integer
from artelier.operations.template_engine.values import (
    INTEGER_MAX,
    MISSING,
    Undefined,
    contains,
    is_below,
    is_blank,
    is_empty,
    is_true,
    item,
    same,
    undefined_error,
)

Evaluate = Callable[[Rendering], Any]
Paths = set[tuple[str, ...]]
DYNAMIC = "*"


class TemplatePaths:
    """The paths that a template reads from its scope, and the names that are surely its own at a place."""

    def __init__(self) -> None:
        self.paths: Paths = set()
        self._own: list[set[str]] = [set()]

    def own(self, name: str) -> None:
        self._own[-1].add(name)

    def read(self, path: tuple[str, ...]) -> None:
        if not any(path[0] in names for names in self._own):
            self.paths.add(path)

    @contextmanager
    def block(self, *own: str) -> Generator[set[str]]:
        """Names that are set inside may be unset after it; gives those that are surely set at its end."""
        names = set(own)
        self._own.append(names)
        try:
            yield names
        finally:
            self._own.pop()


def compile_expression(node: Expression | None, names: TemplatePaths) -> Evaluate:
    """Errors: `InvalidTemplate` for a filter, an argument or a form that does not exist here."""
    if isinstance(node, FilteredExpression):
        return _compile_filters(node, names)
    if isinstance(node, Path):
        return _path(node, names)
    if isinstance(node, Literal):
        return _constant(cast("Literal[Any]", node))
    if isinstance(node, BooleanExpression):
        inner = compile_expression(node.expression, names)
        return lambda state: is_true(inner(state))
    if isinstance(node, Nil | Empty | Blank):
        value = None if isinstance(node, Nil) else ""
        return lambda state: value
    if isinstance(node, RangeLiteral):
        return _range(node, names)
    found = _operator(node, names)
    if found is None:
        raise InvalidTemplate("an expression of this kind does not exist here")
    return found


def _constant(node: Literal[Any]) -> Evaluate:
    value = node.value
    if isinstance(value, int) and abs(value) > INTEGER_MAX:
        raise invalid("a number is too large", source=node.token.source, at=max(0, node.token.start_index))
    return lambda state: value


def _range(node: RangeLiteral, names: TemplatePaths) -> Evaluate:
    start, stop = compile_expression(node.start, names), compile_expression(node.stop, names)

    def evaluate(state: Rendering) -> object:
        first, last = integer(start(state)), integer(stop(state))
        if max(abs(first), abs(last)) >= 2**62:
            raise TemplateLimit("a range is too large")
        return range(first, last + 1) if first <= last else range(0)

    return evaluate


# --------------------------------------------------------------------------- paths


def _path(node: Path, names: TemplatePaths) -> Evaluate:
    root, *rest = node.path
    if not isinstance(root, str):
        raise invalid("a name can't be computed", source=node.token.source, at=max(0, node.token.start_index))
    static = (root, *(DYNAMIC if isinstance(part, Path) else str(part) for part in rest))
    names.read(static)
    look = _root(root)
    if not rest:
        return look
    steps: list[Evaluate | str | int] = [
        compile_expression(part, names) if isinstance(part, Path) else part for part in rest
    ]

    def evaluate(state: Rendering) -> object:
        value = look(state)
        for at, step in enumerate(steps):
            key = step(state) if callable(step) else step
            if isinstance(value, Undefined):
                return value
            value = item(value, key)
            if value is MISSING:
                return Undefined(path=".".join(static[: at + 2]))
        return value

    return evaluate


def _root(name: str) -> Evaluate:
    nothing = Undefined(path=name)
    if name.startswith("_"):
        return lambda state: nothing

    def look(state: Rendering) -> object:
        for block in reversed(state.blocks):
            if name in block:
                return block[name]
        if name in state.local:
            return state.local[name]
        found = state.scope.get(name, nothing)
        return state.counters.get(name, nothing) if found is nothing else found

    return look


# --------------------------------------------------------------------------- filters


def _compile_filters(node: FilteredExpression, names: TemplatePaths) -> Evaluate:
    evaluate = compile_expression(node.left, names)
    for each in node.filters or ():
        evaluate = _filter(each, evaluate, names)
    return evaluate


def _filter(node: Filter, left: Evaluate, names: TemplatePaths) -> Evaluate:
    name = node.name
    found = FILTERS.get(name)
    source, at = node.token.source, max(0, node.token.start_index)
    if found is None:
        raise invalid(f"no filter `{name[:40]}`", source=source, at=at)
    function, least, most = found
    named = {
        each.name: compile_expression(each.value, names)
        for each in node.args
        if isinstance(each, KeywordArgument)
    }
    arguments = [
        compile_expression(each.value, names) for each in node.args if not isinstance(each, KeywordArgument)
    ]
    if not least <= len(arguments) <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        raise invalid(f"`{name}` takes {wanted} arguments, not {len(arguments)}", source=source, at=at)
    if not named.keys() <= NAMED_ARGUMENTS.get(name, frozenset[str]()):
        raise invalid(f"`{name}` takes no argument of this name", source=source, at=at)
    if name == "date":
        names.read(("now",))
    lenient = name in ACCEPTS_UNDEFINED

    def evaluate(state: Rendering) -> object:
        state.spend(NODE_WORK)
        value = left(state)
        if not lenient and state.strict and isinstance(value, Undefined):
            raise undefined_error(value)
        given = [_require_defined(argument(state), state) for argument in arguments]
        more = {key: argument(state) for key, argument in named.items()}
        try:
            return function(state, value, *given, **more)
        # The arithmetic of Python, on numbers of the scope: division by zero, infinities, no integer.
        except (ArithmeticError, ValueError) as error:
            raise TemplateFailed(f"`{name}` can't compute this", got=type(error).__name__) from None

    return evaluate


def _require_defined(value: object, state: Rendering) -> object:
    if isinstance(value, Undefined):
        if state.strict:
            raise undefined_error(value)
        return None
    return value


# --------------------------------------------------------------------------- operators


def _operator(node: Expression | None, names: TemplatePaths) -> Evaluate | None:
    match node:
        case LogicalAndExpression():
            left, right = _sides(node, names)
            return lambda state: is_true(left(state)) and is_true(right(state))
        case LogicalOrExpression():
            left, right = _sides(node, names)
            return lambda state: is_true(left(state)) or is_true(right(state))
        case EqExpression():
            return equality(node.left, node.right, names)
        case NeExpression():
            equal = equality(node.left, node.right, names)
            return lambda state: not equal(state)
        case LtExpression():
            left, right = _sides(node, names)
            return lambda state: is_below(left(state), right(state), state)
        case GtExpression():
            left, right = _sides(node, names)
            return lambda state: is_below(right(state), left(state), state)
        case LeExpression():
            left, right = _sides(node, names)
            return lambda state: is_below(left(state), right(state), state, or_same=True)
        case GeExpression():
            left, right = _sides(node, names)
            return lambda state: is_below(right(state), left(state), state, or_same=True)
        case ContainsExpression():
            left, right = _sides(node, names)
            return lambda state: contains(left(state), right(state), state)
        case _:
            return None


def _sides(node: Any, names: TemplatePaths) -> tuple[Evaluate, Evaluate]:
    return compile_expression(node.left, names), compile_expression(node.right, names)


def equality(left: Expression, right: Expression, names: TemplatePaths) -> Evaluate:
    """`==`, where `empty` and `blank` are questions, not values."""
    for special, other in ((right, left), (left, right)):
        if isinstance(special, Empty | Blank):
            question = is_empty if isinstance(special, Empty) else is_blank
            value = compile_expression(other, names)
            return lambda state: question(value(state))
    one, two = compile_expression(left, names), compile_expression(right, names)
    return lambda state: same(one(state), two(state), state=state)
