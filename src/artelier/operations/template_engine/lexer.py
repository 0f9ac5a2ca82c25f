"""Cuts a template into tokens for the parser of `liquid`, in one pass.

The library's own lexer is one regular expression, whose cost is quadratic in unclosed marks; 64 KiB
of `{% raw %}` would take it minutes. Expressions still go to its tokenizer, so they are short here.
"""

from __future__ import annotations

from collections.abc import Iterator

from liquid.token import TOKEN_CONTENT, TOKEN_EXPRESSION, TOKEN_OUTPUT, TOKEN_TAG, Token

from artelier.operations.template_engine.renderer import InvalidTemplate

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
        """Whether the mark before ended with `-`, so that spaces after it go."""

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
