"""Expressions of a template as functions of a rendering, from the syntax tree of `liquid`.

Only node types that are named here exist; the library's own evaluation is not used, because it
has no bound on work, asks Python objects for attributes, and reads the clock.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
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
from liquid.token import TOKEN_CONTENT, TOKEN_EXPRESSION, TOKEN_OUTPUT, TOKEN_TAG, Token

from artelier.operations.template_engine.filters import ACCEPTS_UNDEFINED, FILTERS, NAMED_ARGUMENTS, integer
from artelier.operations.template_engine.renderer import (
    NODE_WORK,
    InvalidTemplate,
    Rendering,
    TemplateFailed,
    TemplateLimit,
)
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

# Cuts a template into tokens for the parser of `liquid`, in one pass.

EXPRESSION_CHARS_MAX = 1_000
"""Of what stands between two marks."""
OPERATORS_MAX = 60
"""In one expression: brackets, comparisons, `and`, `or`. They nest, and recursion must stay shallow."""
_OPERATORS = ("[", "(", "=", "<", ">", "!", "and", "or", "contains")
_SPACE = " \t\r\n\f\v"


def invalid(message: str, *, source: str, at: int) -> InvalidTemplate:
    line = source.count("\n", 0, at) + 1
    return InvalidTemplate(f"template, line {line}: {message[:200]}", line=line)


class Lexer:
    """Tokens of one template; comments and `{% # %}` leave none, `{% raw %}` leaves its content."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._at = 0
        self._strip = False
        """True if the mark before ended with `-`, so that spaces after it go."""

    def tokens(self) -> Iterator[Token]:
        """Errors: `InvalidTemplate` for a mark that is not closed, or an expression that is too long."""
        source = self._source
        while self._at < len(source):
            start = self._next_mark()
            yield from self._content(self._at, start)
            if start == len(source):
                return
            self._at = start
            if source[start + 1] == "{":
                yield from self._output()
            else:
                yield from self._tag()

    def _next_mark(self) -> int:
        """Return where the next `{{` or `{%` stands; the end if there is none."""
        at = self._at
        while (at := self._source.find("{", at)) >= 0:
            if self._source[at + 1 : at + 2] in ("{", "%"):
                return at
            at += 1
        return len(self._source)

    def _content(self, start: int, end: int) -> Iterator[Token]:
        text = self._source[start:end]
        if self._strip:
            text = text.lstrip(_SPACE)
        if self._source[end + 2 : end + 3] == "-":
            text = text.rstrip(_SPACE)
        self._strip = False
        if text:
            yield Token(TOKEN_CONTENT, text, start, self._source)

    def _inside(self, closing: str) -> tuple[int, int]:
        """Return where the inside of the mark begins and ends; goes on after it."""
        start = self._at
        end = self._source.find(closing, start + 2)
        if end < 0:
            raise invalid(f"`{self._source[start : start + 2]}` is not closed", source=self._source, at=start)
        self._at = end + 2
        self._strip = self._source[end - 1] == "-" and end - 1 > start + 1
        begin = start + 3 if self._source[start + 2] == "-" else start + 2
        end = max(begin, end - 1 if self._strip else end)
        while begin < end and self._source[begin] in _SPACE:
            begin += 1
        while begin < end and self._source[end - 1] in _SPACE:
            end -= 1
        return begin, end

    def _output(self) -> Iterator[Token]:
        start = self._at
        begin, end = self._inside("}}")
        yield Token(TOKEN_OUTPUT, self._source[start : self._at], start, self._source)
        yield self._expression(begin, end)

    def _expression(self, begin: int, end: int) -> Token:
        text = self._source[begin:end]
        if len(text) > EXPRESSION_CHARS_MAX:
            message = f"an expression is longer than {EXPRESSION_CHARS_MAX} characters"
            raise invalid(message, source=self._source, at=begin)
        if sum(map(text.count, _OPERATORS)) > OPERATORS_MAX:
            raise invalid("an expression is too complicated", source=self._source, at=begin)
        return Token(TOKEN_EXPRESSION, text, begin, self._source)

    def _name(self, begin: int, end: int) -> str:
        at = begin
        while at < end and (self._source[at].isalnum() or self._source[at] == "_"):
            at += 1
        return self._source[begin:at]

    def _tag(self) -> Iterator[Token]:
        start = self._at
        begin, end = self._inside("%}")
        if begin < end and self._source[begin] == "#":
            return
        name = self._name(begin, end)
        if not name:
            raise invalid("a tag without a name", source=self._source, at=start)
        if name == "comment":
            self._skip_comment(start)
            return
        if name == "raw":
            yield from self._raw(start)
            return
        yield Token(TOKEN_TAG, name, begin, self._source)
        begin += len(name)
        while begin < end and self._source[begin] in _SPACE:
            begin += 1
        if begin < end:
            yield self._expression(begin, end)

    def _next_tag(self, opened: int) -> str:
        """The name of the next tag; goes on after it. Errors: `InvalidTemplate` if there is none."""
        found = self._source.find("{%", self._at)
        if found < 0:
            raise invalid("a comment or `raw` is not closed", source=self._source, at=opened)
        self._at = found
        begin, end = self._inside("%}")
        return self._name(begin, end)

    def _skip_comment(self, opened: int) -> None:
        depth = 1
        while depth:
            match self._next_tag(opened):
                case "comment":
                    depth += 1
                case "endcomment":
                    depth -= 1
                case _:
                    pass

    def _raw(self, opened: int) -> Iterator[Token]:
        strip = self._strip
        start = self._at
        while True:
            mark = self._source.find("{%", self._at)
            # A broken tag inside is text; only `endraw` has to be whole.
            end_of_tag = self._source.find("%}", mark) if mark >= 0 else -1
            if mark < 0 or end_of_tag < 0:
                raise invalid("`raw` is not closed", source=self._source, at=opened)
            inside = self._source[mark + 2 : min(end_of_tag, mark + 64)].strip("-" + _SPACE)
            if inside == "endraw":
                break
            self._at = mark + 2
        self._at, self._strip = start, strip
        yield from self._content(start, mark)
        self._at = mark
        self._inside("%}")


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
