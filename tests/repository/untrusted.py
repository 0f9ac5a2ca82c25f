"""Where a program meets text of others: patterns that are not written in the source, and parsers.

Read from syntax trees alone, so that the reader can be shown to find what is planted. Names are
followed through imports (`from re import compile as c`) and `import_module`; a package or a function that
is passed on (`search = re.search`, `getattr(re, name)`) is a use as well.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tests.repository.sources import Source, dotted, origins

ENGINES = ("re", "regex", "re2", "fnmatch", "glob", "re._parser", "re._compiler", "sre_compile")
"""Packages whose functions take a pattern."""

HARMLESS = {"escape", "purge", "error", "Pattern", "Match", "RegexFlag", "Options", "NOFLAG"}
FLAGS = re.compile(r"[A-Z]+")

PARSERS = re.compile(
    r"json\.(loads?|JSONDecoder)|msgspec\.(json|msgpack|yaml|toml)\.(decode|Decoder)"
    r"|tomllib\.loads?|base64\.\w*decode|binascii\.(unhexlify|a2b_\w+)"
    r"|(zlib|gzip|bz2|lzma)\.(decompress\w*|open|GzipFile|BZ2File|LZMAFile|\w*Decompressor)"
    r"|(zipfile|tarfile)\.\w+|csv\.(reader|DictReader|Sniffer)"
    r"|yaml\.\w*(load|parse|compose|scan|Loader)\w*|html\.(unescape|parser\.\w+)|lxml\.\w+"
    r"|xml\.(?!sax\.saxutils\.escape)[\w.]+|defusedxml\.[\w.]+|PIL\.[\w.]+"
    r"|(markdown|markdown_it|mistune|bs4|jinja2)\.\w+"
    r"|liquid\.(Environment|parse|Template|parser\.\w+)|jsonpath_rfc9535\.(JSONPathEnvironment|compile|find\w*|query)"
    r"|ast\.(parse|literal_eval)|email\.(message_from\w+|parser\.\w+|utils\.parse\w+)"
    r"|jsonschema(_rs)?(\.\w+)*|pickle\.\w+|marshal\.\w+|plistlib\.\w+"
    r"|difflib\.\w+|http\.cookies\.\w*Cookie"
)
"""What reads text or bytes that somebody else may have made."""

MODULES = {
    *ENGINES,
    "json",
    "msgspec.json",
    "tomllib",
    "base64",
    "binascii",
    "zlib",
    "gzip",
    "bz2",
    "lzma",
    "csv",
    "zipfile",
    "tarfile",
    "yaml",
    "html",
    "jsonpath_rfc9535",
    "liquid",
    "markdown",
    "pickle",
    "marshal",
    "plistlib",
    "jsonschema",
    "ast",
    "difflib",
    "http.cookies",
}

_CONSTANT = re.compile(r"_{0,2}[A-Z][A-Z0-9_]*")
_SQL = re.compile(r"\b(REGEXP|regexp_\w+|SIMILAR TO|create_function)\b")
_PATTERN_ARGUMENTS = ("Field", "StringConstraints", "Meta", "Path", "Query", "Body", "constr")
_PLAIN_CALLS = {"sorted", "map", "tuple", "list", "set", "len", "min", "max", "str"}


@dataclass(frozen=True, order=True)
class Use:
    """One use of an engine or of a parser."""

    place: str
    """The file and the function or class around it: `log/event.py:Event.read`."""
    name: str
    """The full name of what is used, such as `re.compile`."""
    line: int

    @property
    def entry(self) -> str:
        return f"{self.place} {self.name}"


def uses(source: Source, *, below: str = "artelier") -> Iterator[Use]:
    """Every use in a file, in the order of its lines."""
    names = origins(source)
    path = str(source.path).removeprefix(f"{below}/")
    reader = _Reader(names)
    reader.visit(source.tree)
    for scope, name, line in sorted(reader.found, key=lambda one: one[2]):
        yield Use(f"{path}:{scope or '<module>'}", name, line)


class _Reader(ast.NodeVisitor):
    def __init__(self, names: dict[str, str]) -> None:
        self.found: list[tuple[str, str, int]] = []
        self._names = names
        self._scope: list[str] = []
        self._literal: list[set[str]] = [set()]
        """Names that loops and comprehensions around bind to literals."""
        self._called: set[int] = set()
        """Functions whose call was judged, arguments included."""

    def _find(self, name: str, node: ast.AST) -> None:
        self.found.append((".".join(self._scope), name, getattr(node, "lineno", 1)))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.module in MODULES and any(alias.name == "*" for alias in node.names):
            self._find(f"{node.module} passed on", node)

    # Where a use stands

    def _scoped(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        for part in node.decorator_list:
            self.visit(part)
        self._scope.append(node.name)
        self.generic_visit(node)
        self._scope.pop()

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _scoped

    def visit_For(self, node: ast.For) -> None:
        self._looped(node, [(node.target, node.iter)])

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> None:
        self._looped(node, [(one.target, one.iter) for one in node.generators])

    visit_ListComp = visit_SetComp = visit_GeneratorExp = visit_DictComp = _comprehension

    def _looped(self, node: ast.AST, loops: list[tuple[ast.expr, ast.expr]]) -> None:
        bound = {
            name.id
            for target, over in loops
            if self._is_literal(over)
            for name in ast.walk(target)
            if isinstance(name, ast.Name)
        }
        self._literal.append(self._literal[-1] | bound)
        self.generic_visit(node)
        self._literal.pop()

    # What is used

    def visit_Call(self, node: ast.Call) -> None:
        name = dotted(node.func, self._names)
        if name is not None and _is_engine(name):
            self._called.add(id(node.func))
            if not node.args or not self._is_literal(node.args[0]):
                self._find(name, node)
        loaded = _last(node.func)
        if loaded in ("import_module", "__import__") and node.args:
            given = node.args[0]
            module = given.value if isinstance(given, ast.Constant) else None
            if isinstance(module, str) and (
                module in ENGINES
                or PARSERS.fullmatch(f"{module}.loads")
                or PARSERS.fullmatch(module)
                or _is_parsing(module)
            ):
                self._find(f"import_module({module})", node)
        if loaded in _PATTERN_ARGUMENTS:
            for keyword in node.keywords:
                if keyword.arg in ("pattern", "regex") and not self._is_literal(keyword.value):
                    self._find(f"{loaded}(pattern=)", node)
        if loaded == "create_function":
            self._find("create_function", node)
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self._referred(node)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._referred(node)

    def _referred(self, node: ast.Name | ast.Attribute) -> None:
        name = dotted(node, self._names)
        if name is not None and PARSERS.fullmatch(name) and not name.endswith(("Error", "error")):
            self._find(name, node)
        elif name is not None and _is_engine(name) and id(node) not in self._called:
            self._find(f"{name} passed on", node)
        elif isinstance(node, ast.Name) and name in MODULES:
            self._find(f"{name} passed on", node)
        elif isinstance(node, ast.Attribute) and not isinstance(node.value, ast.Name):
            self.visit(node.value)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and "SELECT" in node.value and _SQL.search(node.value):
            self._find("REGEXP in SQL", node)

    # Annotations name types, and use nothing.

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit(node.target)
        if node.value is not None:
            self.visit(node.value)
        for part in ast.walk(node.annotation):  # but `Field(pattern=...)` may stand in one
            if isinstance(part, ast.Call):
                self.visit(part)

    def visit_arg(self, node: ast.arg) -> None:
        for part in ast.walk(node.annotation) if node.annotation is not None else ():
            if isinstance(part, ast.Call):
                self.visit(part)

    def _is_literal(self, node: ast.expr) -> bool:
        """Whether an expression is made of the source's own text: literals and constants in capitals."""
        bound = self._literal[-1]
        for part in ast.walk(node):
            if isinstance(part, ast.comprehension) and self._is_literal(part.iter):
                bound = bound | {one.id for one in ast.walk(part.target) if isinstance(one, ast.Name)}
        for part in ast.walk(node):
            match part:
                case ast.Name(id=name):
                    known = name in bound or _CONSTANT.fullmatch(name) or name in _PLAIN_CALLS
                    if not known and self._names.get(name) not in ENGINES:
                        return False
                case ast.Call(func=ast.Name(id=name)) if name not in _PLAIN_CALLS:
                    return False
                case ast.Lambda() | ast.Await() | ast.Subscript(value=ast.Call()):
                    return False
                case _:
                    pass
        return True


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _is_parsing(module: str) -> bool:
    return module.partition(".")[0] in {
        "jsonschema",
        "yaml",
        "liquid",
        "jsonpath_rfc9535",
        "lxml",
        "PIL",
        "pickle",
    }


def _is_engine(name: str) -> bool:
    package, _, function = name.rpartition(".")
    if package not in ENGINES:
        return False
    return function not in HARMLESS and not FLAGS.fullmatch(function)
