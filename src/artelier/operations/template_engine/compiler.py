"""Templates as functions of a rendering: the tags.

Loaded with the first template, since `liquid` is slow to import.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, Literal, cast

from liquid import Environment
from liquid.ast import BlockNode, Node
from liquid.builtin import content, illegal, output
from liquid.builtin.expressions.loop import LoopExpression
from liquid.builtin.expressions.primitive import StringLiteral
from liquid.builtin.tags import (
    assign_tag,
    capture_tag,
    case_tag,
    cycle_tag,
    decrement_tag,
    echo_tag,
    for_tag,
    if_tag,
    increment_tag,
    unless_tag,
)
from liquid.exceptions import LiquidError
from liquid.parser import get_parser
from liquid.stream import TokenStream

from artelier.operations.template_engine.expressions import (
    Evaluate,
    Lexer,
    TemplatePaths,
    compile_expression,
    equality,
    invalid,
)
from artelier.operations.template_engine.filters import integer
from artelier.operations.template_engine.renderer import (
    ITEM_WORK,
    NODE_WORK,
    TEXT_CHARS_MAX,
    TURNS_MAX,
    InvalidTemplate,
    Rendering,
    TemplateFailed,
)
from artelier.operations.template_engine.values import Loop, Undefined, text, undefined_error

Signal = Literal["break", "continue"] | None
Run = Callable[[Rendering], Signal]
"""Renders one tag; says whether a loop is to be left or continued."""

_TAGS = (
    content.Literal,
    output.Output,
    illegal.Illegal,
    if_tag.IfTag,
    unless_tag.UnlessTag,
    case_tag.CaseTag,
    for_tag.ForTag,
    for_tag.BreakTag,
    for_tag.ContinueTag,
    capture_tag.CaptureTag,
    cycle_tag.CycleTag,
    assign_tag.AssignTag,
    increment_tag.IncrementTag,
    decrement_tag.DecrementTag,
    echo_tag.EchoTag,
)
"""No include, render, tablerow, liquid, ifchanged, doc. `comment`, `raw` and `#` are the lexer's."""
_KNOWN = (
    "if, unless, case, for, break, continue, assign, capture, cycle, increment, decrement, echo, comment, raw"
)


class _Environment(Environment):
    """Parses; nothing is ever loaded or rendered through it."""

    block_nesting_limit = 30

    def setup_tags_and_filters(self, *, extra: bool = False) -> None:
        for tag in _TAGS:
            self.add_tag(tag)


_ENVIRONMENT = _Environment()


class TemplateProgram:
    """A parsed template: `run` renders it, `paths` is what it reads."""

    __slots__ = ("paths", "run")

    def __init__(self, source: str) -> None:
        """Errors: `InvalidTemplate` with the line."""
        names = TemplatePaths()
        compiler = _Compiler(source, names)
        try:
            self.run = compiler.sequence(_parse(source))
        except RecursionError:
            raise InvalidTemplate("the template is nested too deeply") from None
        self.paths = frozenset(names.paths)


def _parse(source: str) -> list[Node]:
    try:
        return get_parser(_ENVIRONMENT).parse(TokenStream(Lexer(source).tokens()))
    except LiquidError as error:
        token = error.token
        at = token.start_index if token is not None and token.start_index >= 0 else len(source)
        message = str(error.message)
        if message.startswith("unexpected tag"):
            message = f"{message}; tags are {_KNOWN}"
        raise invalid(message, source=source, at=at) from None
    # Numbers that Python can't read: too many digits, or digits of another script.
    except (ValueError, OverflowError, AssertionError):
        raise InvalidTemplate("the template holds a number or a mark that can't be read") from None


def _chain(runs: list[Run]) -> Run:
    if len(runs) == 1:
        return runs[0]

    def run(state: Rendering) -> Signal:
        for each in runs:
            signal = each(state)
            if signal is not None:
                return signal
        return None

    return run


class _Compiler:
    def __init__(self, source: str, names: TemplatePaths) -> None:
        self._source = source
        self._names = names
        self._loops = 0

    def sequence(self, nodes: list[Node], *, blank: bool = False) -> Run:
        """A blank block, which holds only spaces and tags that show nothing, writes no spaces."""
        shown = [node for node in nodes if not (blank and isinstance(node, content.ContentNode))]
        return _chain([self._node(node) for node in shown])

    def _block(self, block: BlockNode, *own: str) -> tuple[Run, set[str]]:
        with self._names.block(*own) as names:
            return self.sequence(block.nodes, blank=block.blank), names

    def _node(self, node: Node) -> Run:
        match node:
            case content.ContentNode():
                return _writing(node.text)
            case output.OutputNode() | echo_tag.EchoNode():
                return _printing(compile_expression(node.expression, self._names))
            case assign_tag.AssignNode():
                value = compile_expression(node.expression, self._names)
                return _assigning(self._own(node, str(node.name)), value)
            case capture_tag.CaptureNode():
                run, _ = self._block(node.block)
                return _capturing(self._own(node, str(node.name)), run)
            case if_tag.IfNode() | unless_tag.UnlessNode():
                return self._choice(node, negated=isinstance(node, unless_tag.UnlessNode))
            case case_tag.CaseNode():
                return self._case(node)
            case for_tag.ForNode():
                return self._for(node)
            case for_tag.BreakNode() | for_tag.ContinueNode():
                return self._leaving(node)
            case cycle_tag.CycleNode():
                return self._cycle(node)
            case increment_tag.IncrementNode():
                return _counting(self._public(node, str(node.name)), before=0, step=1)
            case decrement_tag.DecrementNode():
                return _counting(self._public(node, str(node.name)), before=-1, step=-1)
            case _:
                raise self._wrong(node, "a tag of this kind does not exist here")

    def _wrong(self, node: Node, message: str) -> InvalidTemplate:
        return invalid(message, source=self._source, at=max(0, node.token.start_index))

    def _public(self, node: Node, name: str) -> str:
        if name.startswith("_"):
            raise self._wrong(node, "names that begin with `_` have no value")
        return name

    def _own(self, node: Node, name: str) -> str:
        self._names.own(self._public(node, name))
        return name

    def _choice(self, node: if_tag.IfNode | unless_tag.UnlessNode, *, negated: bool) -> Run:
        condition = compile_expression(node.condition, self._names)
        run, surely = self._block(node.consequence)
        choices: list[tuple[Evaluate, Run]] = [
            ((lambda state: not condition(state)) if negated else condition, run)
        ]
        for other in node.alternatives:
            test = compile_expression(other.expression, self._names)
            run, set_here = self._block(other.block)
            surely &= set_here
            choices.append((test, run))
        return self._otherwise(choices, node.default, surely)

    def _otherwise(
        self, choices: list[tuple[Evaluate, Run]], default: BlockNode | None, surely: set[str]
    ) -> Run:
        """A name that every branch sets, with an `else` among them, is set afterwards."""
        if default is None:
            return _choosing(choices, None)
        run, set_here = self._block(default)
        for name in surely & set_here:
            self._names.own(name)
        return _choosing(choices, run)

    def _case(self, node: case_tag.CaseNode) -> Run:
        choices: list[tuple[Evaluate, Run]] = []
        default: BlockNode | None = None
        surely: set[str] | None = None
        for block in node.blocks:
            if isinstance(block, BlockNode):
                default = block
                continue
            tests = [equality(node.expression, right, self._names) for right in block.expression.expressions]
            run, set_here = self._block(block.block)
            surely = set_here if surely is None else surely & set_here
            choices.append((_any_of(tests), run))
        return self._otherwise(choices, default, surely or set())

    def _for(self, node: for_tag.ForNode) -> Run:
        expression = node.expression
        name = self._public(node, str(expression.identifier))
        iterable = compile_expression(expression.iterable, self._names)
        limit = expression.limit and compile_expression(expression.limit, self._names)
        resumes = isinstance(expression.offset, StringLiteral) and (expression.offset.value == "continue")
        offset = None
        if expression.offset is not None and not resumes:
            offset = compile_expression(expression.offset, self._names)
        self._loops += 1
        body, _ = self._block(node.block, name, "forloop")
        self._loops -= 1
        default = self._block(node.default)[0] if node.default else None
        return loop(
            name=name,
            key=_loop_key(expression),
            iterable=iterable,
            limit=limit,
            offset=offset,
            resumes=resumes,
            reverse=expression.reversed,
            body=body,
            default=default,
        )

    def _leaving(self, node: Node) -> Run:
        signal: Signal = "break" if isinstance(node, for_tag.BreakNode) else "continue"
        if not self._loops:
            raise self._wrong(node, f"`{signal}` outside of a loop")
        return lambda state: signal

    def _cycle(self, node: cycle_tag.CycleNode) -> Run:
        group = node.group and compile_expression(node.group, self._names)
        values = [compile_expression(each, self._names) for each in node.args]
        own_key = ", ".join(str(each) for each in node.args)[:1_000]

        def run(state: Rendering) -> Signal:
            key = f"group {text(group(state), state)}" if group else own_key
            state.spend(len(key))
            at = state.cycles.get(key, 0) % len(values)
            state.cycles[key] = at + 1
            state.write(text(values[at](state), state))
            return None

        return run


def _loop_key(expression: LoopExpression) -> str:
    return f"{expression.identifier}-{str(expression.iterable)[:1_000]}"


def _any_of(tests: list[Evaluate]) -> Evaluate:
    return lambda state: any(test(state) for test in tests)


def _writing(shown: str) -> Run:
    return lambda state: state.write(shown)


def _printing(value: Evaluate) -> Run:
    return lambda state: state.write(text(value(state), state))


def _assigning(name: str, value: Evaluate) -> Run:
    def run(state: Rendering) -> Signal:
        state.spend(NODE_WORK)
        state.local[name] = value(state)
        return None

    return run


def _capturing(name: str, body: Run) -> Run:
    def run(state: Rendering) -> Signal:
        pieces, room = state.pieces, state.room
        state.pieces, state.room = [], TEXT_CHARS_MAX
        try:
            signal = body(state)
            captured = "".join(state.pieces)
        finally:
            state.pieces, state.room = pieces, room
        state.local[name] = captured
        return signal

    return run


def _choosing(choices: list[tuple[Evaluate, Run]], default: Run | None) -> Run:
    def run(state: Rendering) -> Signal:
        for test, chosen in choices:
            state.spend(NODE_WORK)
            if test(state):
                return chosen(state)
        return default(state) if default else None

    return run


def _counting(name: str, *, before: int, step: int) -> Run:
    """`increment` shows the number before, `decrement` the number after."""

    def run(state: Rendering) -> Signal:
        count = state.counters.get(name, 0)
        state.counters[name] = count + step
        state.write(str(count + (step if before else 0)))
        return None

    return run


def loop(
    *,
    name: str,
    key: str,
    iterable: Evaluate,
    limit: Evaluate | None,
    offset: Evaluate | None,
    resumes: bool,
    reverse: bool,
    body: Callable[[Rendering], Signal],
    default: Callable[[Rendering], Signal] | None,
) -> Callable[[Rendering], Signal]:
    """A loop over `iterable`. `key` names it for `offset: continue`, which `resumes` says."""

    def run(state: Rendering) -> Signal:
        state.spend(NODE_WORK)
        whole = _sequence(iterable(state), state)
        start = state.stops.get(key, 0) if resumes else _whole(offset, state)
        start = min(start or 0, len(whole))
        size = _whole(limit, state)
        stop = len(whole) if size is None else min(len(whole), start + size)
        state.stops[key] = stop
        if start >= stop:
            return default(state) if default else None
        _turns(whole[start:stop], state, name=name, body=body, reverse=reverse)
        return None

    return run


def _turns(
    chosen: Any, state: Rendering, *, name: str, body: Callable[[Rendering], Signal], reverse: bool
) -> None:
    around = next((block["forloop"] for block in reversed(state.blocks)), None)
    counter = Loop(length=len(chosen), parent=around)
    block: dict[str, Any] = {"forloop": counter, name: None}
    state.blocks.append(block)
    try:
        for each in reversed(chosen) if reverse else chosen:
            state.turn()
            state.spend(NODE_WORK)
            counter.index0 += 1
            block[name] = each
            if body(state) == "break":
                return
    finally:
        state.blocks.pop()


def _whole(value: Evaluate | None, state: Rendering) -> int | None:
    if value is None:
        return None
    found = value(state)
    if found is None or isinstance(found, Undefined):
        return None
    return max(0, integer(found))


def _sequence(value: object, state: Rendering) -> Any:
    """A list, tuple or range, which can be cut without walking it."""
    if isinstance(value, Undefined):
        if state.strict:
            raise undefined_error(value)
        return ()
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,) if value else ()
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, Any]", value).items()
        found = [[key, each] for key, each in islice(pairs, TURNS_MAX + 1)]
        state.spend(ITEM_WORK * len(found))
        return found
    if isinstance(value, range):
        return value
    if isinstance(value, list | tuple):
        state.spend(len(cast("list[Any]", value)))
        return cast("list[Any]", value)
    raise TemplateFailed("not a list", got=type(value).__name__[:80])
