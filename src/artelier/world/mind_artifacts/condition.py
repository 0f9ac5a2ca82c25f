"""Conditions of workflows: small expressions over facts that look up, compare and calculate, and no more.

An expression is parsed as Python's syntax and walked by this file alone; nothing is ever handed to `eval`.
`last_action.success` is a key of a mapping, never an attribute of an object. Text that could do more (calls,
comprehensions, assignments, formats) is refused when the workflow is saved.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple, cast

from artelier.artifacts.ref import safe_repr
from artelier.errors import InvalidArtifact
from artelier.sandbox.dialect_check import parse_expression

CONDITION_CHARS_MAX = 500
NODES_MAX = 120
DEPTH_MAX = 20
KEY_CHARS_MAX = 100
"""Of one name or key: unknown ones stand in events, which hold no texts."""
NUMBER_MAX = 2**63
"""Beyond it a result is an error: numbers must not grow until they fill the memory."""

_CONSTANTS = {"true": True, "false": False, "null": None, "none": None}
"""As JSON and YAML write them; facts of these names cannot be reached."""

_ORDER: dict[type[ast.AST], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_ARITHMETIC: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda a, b: a / b,
    ast.Mod: operator.mod,
}
_SIGNS: dict[type[ast.AST], Callable[[Any], Any]] = {ast.USub: operator.neg, ast.UAdd: operator.pos}

_PLAIN = (
    ast.Expression,
    ast.BoolOp,
    ast.And,
    ast.Or,
    ast.UnaryOp,
    ast.Not,
    ast.BinOp,
    ast.Compare,
    ast.Eq,
    ast.NotEq,
    ast.In,
    ast.NotIn,
    ast.Name,
    ast.Load,
    ast.Attribute,
    ast.Subscript,
    ast.List,
    ast.Tuple,
    *_ORDER,
    *_ARITHMETIC,
    *_SIGNS,
)
_WORDS = {
    "Call": "a call",
    "Lambda": "a function",
    "JoinedStr": "a format",
    "NamedExpr": "an assignment",
    "IfExp": "an if",
    "Is": "`is`; use ==",
    "IsNot": "`is not`; use !=",
    "Pow": "`**`",
    "FloorDiv": "`//`",
    "Slice": "a slice",
    "Dict": "a mapping",
    "Set": "a set",
    "Await": "await",
    "LShift": "`<<`",
    "RShift": "`>>`",
    "BitOr": "`|`; use or",
    "BitAnd": "`&`; use and",
}


class ConditionVerdict(NamedTuple):
    """The verdict on a condition, with the names and errors that it met."""

    holds: bool
    unknown: tuple[str, ...] = ()
    """Names that no fact has; each counted as false."""
    error: str = ""
    """Why it could not be decided; then it does not hold."""


class Worth(NamedTuple):
    """The value of an expression: a number, text, true, false or None, and the reason if it has no value."""

    value: int | float | str | bool | None
    error: str = ""
    """Why it has none; then the value is None."""


class _Unknown:
    """The value of a name that no fact has: false, and no number."""

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "unknown"


_UNKNOWN = _Unknown()


class _UndecidedCondition(Exception):
    """The operands do not fit the operation."""


class _StrictFacts(dict[str, Any]):
    """Facts of which an unknown name ends the evaluation."""


@dataclass(frozen=True, slots=True)
class Condition:
    """An expression that has been checked."""

    text: str
    _tree: ast.expr
    _paths: tuple[tuple[str, ...], ...]

    @property
    def tree(self) -> ast.expr:
        """The expression tree that this file has checked as harmless."""
        return self._tree

    @property
    def names(self) -> tuple[str, ...]:
        """The names that the expression looks up, with dots between the keys."""
        return tuple(".".join(path) for path in self._paths)

    def check(self, facts: Mapping[str, Any], *, strict: bool = False) -> ConditionVerdict:
        """Return whether it holds of some facts, which are JSON data. Never raises; cost: O(nodes) lookups.

        `strict`: one that stumbles over an unknown name does not hold; else such a name counts as false.
        """
        # Also names in a branch that is not reached: a misspelt one is reported at once.
        found = ((".".join(path), _find(path, facts)) for path in self._paths)
        unknown = tuple(name for name, value in found if value is _UNKNOWN)
        try:
            known = _StrictFacts(facts) if strict else facts
            return ConditionVerdict(bool(_value(self._tree, known)), unknown)
        except _UndecidedCondition as error:
            return ConditionVerdict(False, unknown, str(error)[:200])
        except RecursionError:
            return ConditionVerdict(False, unknown, "the facts are nested too deeply")


@dataclass(frozen=True, slots=True)
class Valued:
    """An expression that has been checked, and is asked for its value instead of its truth."""

    text: str
    names: tuple[str, ...]
    """What it looks up, with dots between the keys."""
    _tree: ast.expr

    def value(self, facts: Mapping[str, Any]) -> Worth:
        """Its value over some facts, which are JSON data. Never raises; cost: O(nodes) lookups.

        None is also what null is worth, and a name that no fact has.
        """
        try:
            value = _value(self._tree, facts)
        except _UndecidedCondition as error:
            return Worth(None, str(error)[:200])
        except RecursionError:
            return Worth(None, "the facts are nested too deeply")
        if value is None or isinstance(value, bool | int | float | str):
            return Worth(value)
        return Worth(None, "" if value is _UNKNOWN else f"no single value: {safe_repr(value)}"[:200])


@lru_cache(maxsize=2048)
def read_valued(text: str) -> Valued:
    """An expression for its value, such as `balance / 2`. Errors: those of `read_condition`."""
    condition = read_condition(text)
    return Valued(text, condition.names, condition.tree)


@lru_cache(maxsize=2048)
def read_condition(text: str) -> Condition:
    """A condition from its text. Errors: `InvalidArtifact` that says what is not allowed."""
    if len(text) > CONDITION_CHARS_MAX:
        raise InvalidArtifact(
            "the condition is too long", expected=f"at most {CONDITION_CHARS_MAX} characters"
        )
    try:
        tree = parse_expression(text.strip())
    except SyntaxError as error:
        raise InvalidArtifact(
            f"not a condition: {error.msg}"[:200], expected=_EXPECTED, got=safe_repr(text)
        ) from None
    return Condition(text, tree.body, tuple(dict.fromkeys(_checked_paths(tree, text))))


_EXPECTED = "comparisons of facts with and, or, not, in, + - * / %"


def _checked_paths(tree: ast.Expression, text: str) -> list[tuple[str, ...]]:
    """The names it looks up. Errors: `InvalidArtifact` for what a condition cannot hold."""
    stack: list[tuple[ast.AST, int]] = [(tree.body, 0)]
    paths: list[tuple[str, ...]] = []
    count = 0
    while stack:
        node, depth = stack.pop()
        count += 1
        if count > NODES_MAX or depth > DEPTH_MAX:
            raise InvalidArtifact(
                "the condition is too large", expected=f"{NODES_MAX} parts, nested {DEPTH_MAX} deep, at most"
            )
        if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
            path = _path(node)
            _check_keys(path)
            if not (len(path) == 1 and path[0].lower() in _CONSTANTS):
                paths.append(path)
            continue
        if isinstance(node, ast.Constant):
            _check_constant(node.value)
        elif not isinstance(node, _PLAIN):
            name = type(node).__name__
            raise InvalidArtifact(
                f"a condition cannot hold {_WORDS.get(name, name)}", expected=_EXPECTED, got=safe_repr(text)
            )
        stack.extend((child, depth + 1) for child in ast.iter_child_nodes(node))
    return paths


def _path(node: ast.expr) -> tuple[str, ...]:
    """The keys that a name, `a.b` or `a["b"]` looks up. Errors: `InvalidArtifact`."""
    keys: list[str] = []
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Attribute):
            keys.append(node.attr)
        elif (
            isinstance(node, ast.Subscript)
            and isinstance(node.slice, ast.Constant)
            and isinstance(node.slice.value, str)
        ):
            keys.append(node.slice.value)
        elif isinstance(node, ast.Call):
            raise InvalidArtifact("a condition cannot hold a call", expected=_EXPECTED)
        else:
            raise InvalidArtifact(
                "a condition looks up keys of facts only", expected='`fact.key` or `fact["key"]`'
            )
        node = node.value
    if len(keys) >= DEPTH_MAX:
        raise InvalidArtifact("a name in the condition has too many keys")
    return (node.id, *reversed(keys))


def _check_keys(path: tuple[str, ...]) -> None:
    """Errors: `InvalidArtifact` for what could not stand in the event of an unknown name."""
    if strange := [key for key in path if len(key) > KEY_CHARS_MAX or not key.isprintable()]:
        raise InvalidArtifact(
            "a key in the condition is no name",
            expected=f"at most {KEY_CHARS_MAX} printable characters",
            got=safe_repr(strange[0]),
        )


def _find(path: tuple[str, ...], facts: Mapping[str, Any]) -> object:
    value: Any = facts
    for key in path:
        if not isinstance(value, Mapping) or key not in value:
            if isinstance(facts, _StrictFacts):
                raise _UndecidedCondition(f"nothing is known of {'.'.join(path)[:100]}")
            return _UNKNOWN
        value = cast("Mapping[str, Any]", value)[key]
    return value


def _check_constant(value: object) -> None:
    if isinstance(value, bytes | complex) or value is ...:
        raise InvalidArtifact("a condition holds numbers, text, true, false and null only")
    if isinstance(value, int | float) and not abs(value) <= NUMBER_MAX:
        raise InvalidArtifact("a number in the condition is too large", expected="64 bits")


def _value(node: ast.expr, facts: Mapping[str, Any]) -> object:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
        path = _path(node)
        constant = len(path) == 1 and path[0].lower() in _CONSTANTS
        return _CONSTANTS[path[0].lower()] if constant else _find(path, facts)
    if isinstance(node, ast.BoolOp):
        values = (bool(_value(item, facts)) for item in node.values)
        return all(values) if isinstance(node.op, ast.And) else any(values)
    if isinstance(node, ast.UnaryOp):
        return _apply_sign(node.op, _value(node.operand, facts))
    if isinstance(node, ast.BinOp):
        return _calculate(node.op, _value(node.left, facts), _value(node.right, facts))
    if isinstance(node, ast.Compare):
        values = [_value(item, facts) for item in (node.left, *node.comparators)]
        return all(_holds(op, a, b) for op, (a, b) in zip(node.ops, pairwise(values), strict=True))
    # A list or tuple: nothing else passed the check of its shape.
    return [_value(item, facts) for item in cast("ast.List | ast.Tuple", node).elts]


def _apply_sign(op: ast.unaryop, value: object) -> object:
    if isinstance(op, ast.Not):
        return not value
    return value if value is _UNKNOWN else _SIGNS[type(op)](_number(value))


def _calculate(op: ast.operator, left: object, right: object) -> object:
    if left is _UNKNOWN or right is _UNKNOWN:
        return _UNKNOWN
    try:
        return _check_range(_ARITHMETIC[type(op)](_number(left), _number(right)))
    except ZeroDivisionError:
        raise _UndecidedCondition("division by zero") from None


def _holds(op: ast.cmpop, left: object, right: object) -> bool:
    order = _ORDER.get(type(op))
    if order is not None:
        if left is _UNKNOWN or right is _UNKNOWN:
            return False
        if isinstance(left, str) and isinstance(right, str):
            return order(left, right)
        return order(_number(left), _number(right))
    left, right = _known_or_false(left), _known_or_false(right)
    if isinstance(op, ast.Eq):
        return _same(left, right)
    if isinstance(op, ast.NotEq):
        return not _same(left, right)
    return _contains(right, left) is isinstance(op, ast.In)


def _contains(holder: object, item: object) -> bool:
    if holder is False:
        return False  # an unknown name holds nothing
    if isinstance(holder, str):
        if not isinstance(item, str):
            raise _UndecidedCondition("only text can be in a text")
        return item in holder
    if isinstance(holder, list | tuple):
        return any(_same(item, member) for member in cast("list[Any]", holder))
    if isinstance(holder, Mapping):
        return isinstance(item, str) and item in holder
    raise _UndecidedCondition(f"nothing can be in a value of type {type(holder).__name__}")


def _same(left: object, right: object) -> bool:
    # In Python true equals 1; a fact that is true must not pass for a balance of 1.
    if isinstance(left, bool) is not isinstance(right, bool):
        return False
    return bool(left == right)


def _known_or_false(value: object) -> object:
    return False if value is _UNKNOWN else value


def _number(value: object) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _UndecidedCondition(f"expected a number, got {safe_repr(value)}")
    return _check_range(value)


def _check_range(value: int | float) -> int | float:
    if not abs(value) <= NUMBER_MAX:  # so, because NaN is not larger either
        raise _UndecidedCondition("a number is too large")
    return value
