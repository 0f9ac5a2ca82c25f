"""The tools that ship: `calculator`, `ask_person` and `python`, and those of a folder with them.

The calculator is exact: every number is a fraction until it is printed; nothing is evaluated as Python.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from decimal import Context, Decimal, InvalidOperation
from fractions import Fraction
from functools import cache
from math import isqrt
from pathlib import Path
from typing import Any

from artelier.clock import Clock, SystemClock
from artelier.errors import ToolFailed
from artelier.ports.sandbox import Sandbox, SandboxLimits
from artelier.ports.tool import ToolContext
from artelier.sandbox import MontySandbox
from artelier.sandbox.dialect_check import parse_expression
from artelier.tools.function import Tool, tool
from artelier.tools.workspace.files import WorkspaceFolder, file_tools, list_tool
from artelier.tools.workspace.search import search_tool
from artelier.tools.workspace.tables import table_tools

EXPRESSION_CHARS_MAX = 2_000
DEPTH_MAX = 50
BITS_MAX = 20_000
"""Size of a numerator or denominator: about 6,000 decimal digits."""
EXPONENT_MAX = 5_000
DIGITS_MAX = 1_000
"""Of an exact result; longer ones are refused."""
DIGITS_ROUNDED = 34
"""Significant digits of a result that has no exact decimal form, as in IEEE 754 decimal128."""

_OPERATORS: Mapping[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: Fraction(a // b),
    ast.Mod: lambda a, b: a % b,
}
_SPEAKS = "numbers, + - * / // % **, parentheses, min, max, abs, round, sqrt, sum"


def calculate(expression: str) -> str:
    """The value of an arithmetic expression as decimal text.

    The text is exact where a decimal exists, otherwise rounded to 34 significant digits. `round`
    rounds halves to the even neighbour, as Python does.
    Errors: `ToolFailed` for anything that is not arithmetic, divides by zero or grows too large.
    """
    if len(expression) > EXPRESSION_CHARS_MAX:
        raise ToolFailed("the expression is too long", expected=f"at most {EXPRESSION_CHARS_MAX} characters")
    try:
        tree = parse_expression(expression.strip())
    except SyntaxError:
        raise ToolFailed("not an arithmetic expression", expected=_SPEAKS) from None
    evaluation = _Evaluation(expression.strip())
    value = evaluation.value(tree.body, depth=0)
    return _round_text(value) if evaluation.inexact else _text(value)


class _Evaluation:
    def __init__(self, source: str) -> None:
        self.source = source
        self.inexact = False
        """Whether a square root without an exact value was taken."""

    def value(self, node: ast.AST, *, depth: int) -> Fraction:
        if depth > DEPTH_MAX:
            raise ToolFailed("the expression is nested too deeply", expected=f"{DEPTH_MAX} levels")
        return _check_bits(self._compute(node, depth=depth + 1))

    def _compute(self, node: ast.AST, *, depth: int) -> Fraction:
        if isinstance(node, ast.Constant):
            return self._number(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd | ast.USub):
            value = self.value(node.operand, depth=depth)
            return value if isinstance(node.op, ast.UAdd) else -value
        if isinstance(node, ast.BinOp):
            return self._chain(node, depth=depth)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            return self._call(node.func.id, self._arguments(node, depth=depth))
        raise ToolFailed(f"{_name(node)} is not arithmetic", expected=_SPEAKS)

    def _chain(self, node: ast.BinOp, *, depth: int) -> Fraction:
        """`a + b - c ...` leans to the left: walked down and computed up, so that its length is free."""
        first: ast.expr = node
        chain: list[ast.BinOp] = []
        while isinstance(first, ast.BinOp):
            chain.append(first)
            first = first.left
        total = self.value(first, depth=depth)
        for link in reversed(chain):
            right = self.value(link.right, depth=depth)
            total = _check_bits(self._binary(link.op, total, right))
        return total

    def _binary(self, kind: ast.operator, left: Fraction, right: Fraction) -> Fraction:
        if isinstance(kind, ast.Pow):
            return self._sqrt(left) if right == Fraction(1, 2) else _power(left, right)
        function = _OPERATORS.get(type(kind))
        if function is None:
            problem = f"the operator {type(kind).__name__} is not arithmetic"
            raise ToolFailed(problem, expected=_SPEAKS)
        try:
            return function(left, right)
        except ZeroDivisionError:
            raise ToolFailed("division by zero") from None

    def _call(self, name: str, values: list[Fraction]) -> Fraction:
        if name in ("min", "max") and values:
            return min(values) if name == "min" else max(values)
        if name == "sum" and values:
            return sum(values, Fraction(0))
        if name == "abs" and len(values) == 1:
            return abs(values[0])
        if name == "sqrt" and len(values) == 1:
            return self._sqrt(values[0])
        if name == "round" and len(values) in (1, 2):
            return _round(values[0], values[1] if len(values) == 2 else Fraction(0))
        problem = f"{name[:40]}() with {len(values)} arguments is not known"
        raise ToolFailed(problem, expected=_SPEAKS)

    def _sqrt(self, value: Fraction) -> Fraction:
        if value < 0:
            raise ToolFailed("the square root of a negative number is not a number")
        top, bottom = isqrt(value.numerator), isqrt(value.denominator)
        if top * top == value.numerator and bottom * bottom == value.denominator:
            return Fraction(top, bottom)
        self.inexact = True
        context = Context(prec=DIGITS_ROUNDED + 16)
        quotient = context.divide(Decimal(value.numerator), Decimal(value.denominator))
        return Fraction(context.sqrt(quotient))

    def _arguments(self, node: ast.Call, *, depth: int) -> list[Fraction]:
        """The arguments of a call; a list in brackets counts as its items."""
        items = node.args
        if len(items) == 1 and isinstance(items[0], ast.List | ast.Tuple):
            items = items[0].elts
        return [self.value(item, depth=depth) for item in items]

    def _number(self, node: ast.Constant) -> Fraction:
        if isinstance(node.value, bool) or not isinstance(node.value, int | float):
            raise ToolFailed(f"{_name(node)} is not a number", expected=_SPEAKS)
        if isinstance(node.value, int):
            return Fraction(node.value)
        # The text is read again, because the parsed float has already lost what it says exactly.
        text = ast.get_source_segment(self.source, node) or ""
        try:
            number = Decimal(text.replace("_", ""))
        except InvalidOperation:
            raise ToolFailed(f"{text[:40]!r} is not a number", expected=_SPEAKS) from None
        if not number.is_finite() or abs(number.adjusted()) > EXPONENT_MAX:
            raise _too_large()
        return Fraction(number)


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1:
        raise ToolFailed("only whole exponents and 0.5 are supported", got=str(exponent)[:40])
    power = int(exponent)
    # Before it is computed: the size of a power is known from the size of its base.
    if abs(power) > EXPONENT_MAX or _bits(base) * abs(power) > BITS_MAX:
        raise _too_large()
    try:
        return Fraction(base**power)
    except ZeroDivisionError:
        raise ToolFailed("division by zero") from None


def _round(value: Fraction, digits: Fraction) -> Fraction:
    if digits.denominator != 1 or abs(digits) > DIGITS_MAX:
        raise ToolFailed("the digits of round() are a small whole number", got=str(digits)[:40])
    return Fraction(round(value, int(digits)))


def _bits(value: Fraction) -> int:
    return max(value.numerator.bit_length(), value.denominator.bit_length())


def _check_bits(value: Fraction) -> Fraction:
    if _bits(value) > BITS_MAX:
        raise _too_large()
    return value


def _too_large() -> ToolFailed:
    return ToolFailed("a number grows too large", expected=f"at most about {BITS_MAX * 3 // 10} digits")


def _text(value: Fraction) -> str:
    if value.denominator == 1:
        return _check_length(str(Decimal(value.numerator)))
    twos, fives, rest = 0, 0, value.denominator
    while rest % 2 == 0:
        twos, rest = twos + 1, rest // 2
    while rest % 5 == 0:
        fives, rest = fives + 1, rest // 5
    if rest == 1:
        places = max(twos, fives)
        scaled = value.numerator * 10**places // value.denominator
        return _check_length(format(Decimal(scaled).scaleb(-places, Context(prec=BITS_MAX)), "f"))
    return _round_text(value)


def _round_text(value: Fraction) -> str:
    context = Context(prec=DIGITS_ROUNDED)
    quotient = context.divide(Decimal(value.numerator), Decimal(value.denominator))
    # Zeros at the end would claim a precision that rounding has just removed.
    return _check_length(format(quotient.normalize(context), "f"))


def _check_length(text: str) -> str:
    if len(text) > DIGITS_MAX:
        raise ToolFailed("the result is too long", expected=f"at most {DIGITS_MAX} digits")
    return text


def _name(node: ast.AST) -> str:
    return f"{node.id[:40]!r}" if isinstance(node, ast.Name) else type(node).__name__


def calculator_tool() -> Tool[[str], dict[str, str]]:
    @tool(side_effect=False, trust="trusted", timeout_s=10)
    def calculator(expression: str) -> dict[str, str]:
        """Compute an arithmetic expression exactly: + - * / // % ** ( ) min max abs round sqrt sum."""
        return {"value": calculate(expression)}

    return calculator


# --------------------------------------------------------------------------- ask person
# Questions to people: `ask_person`.


def ask_tool() -> Tool[..., object]:
    @tool(side_effect=False, idempotent=True, trust="trusted")
    async def ask_person(question: str, ctx: ToolContext) -> dict[str, str]:
        """Ask a person and wait for the answer, which may take days: a decision (approve, deny or edit)
        and a note in their own words."""
        answer = await ctx.ask(question)
        return {"decision": answer.decision, "note": answer.note}

    return ask_person


# --------------------------------------------------------------------------- python code
# Code that a model writes, run in the sandbox: `python`.


LIMITS = SandboxLimits(time_ms=5_000, memory_bytes=128 * 1024 * 1024)


@cache
def _shared_sandbox() -> Sandbox:
    """One pool for all tools that bring none, so that many runs do not start many workers."""
    return MontySandbox()


def python_tool(sandbox: Sandbox | None = None, *, clock: Clock | None = None) -> Tool[..., object]:
    """Shapes: without `sandbox` a pool of this process is used, started with the first call.

    Errors of the tool: `SandboxError` with a reason and a line.
    """
    machine = clock or SystemClock()
    pool = sandbox or _shared_sandbox()

    @tool(side_effect=False, timeout_s=30)
    async def python(code: str) -> dict[str, Any]:
        """Run Python in an isolated interpreter: no files, no network, no packages, no class inheritance.
        Returns the value of the last expression (JSON data) and what was printed."""
        if isinstance(pool, MontySandbox):
            result = await pool.run(code, limits=LIMITS, at_us=machine.now_us())
        else:
            result = await pool.run(code, limits=LIMITS)
        return {"value": result.value, "printed": result.printed}

    return python


def workspace_tools(
    root: str | Path, *, sandbox: Sandbox | None = None, writable: bool = True, is_confined: bool = False
) -> list[Tool[..., object]]:
    """Every shipped tool that works on a folder, ordered by name.

    Shapes: without `sandbox` the tool `python` uses one that all such tools of the process share, started
    on first use; without `writable` there is no `write_file`. With `is_confined` a file with a second
    name (a hard link) is not opened, since it may be another tenant's.
    Errors: `InvalidRequest` if the root is no folder.
    """
    folder = WorkspaceFolder(root, is_confined=is_confined)
    tools = [
        ask_tool(),
        calculator_tool(),
        list_tool(folder),
        python_tool(sandbox),
        search_tool(folder),
        *file_tools(folder, writable=writable),
        *table_tools(folder),
    ]
    return sorted(tools, key=lambda item: item.name)
