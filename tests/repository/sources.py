"""Python sources as the tests about the repository see them: files, module names, resolved imports.

Every checker takes a root path and gives back sentences, one per violation, so that it can be shown
to fail on a planted tree. Nothing is imported; only syntax trees are read.
"""

from __future__ import annotations

import ast
import gc
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Source:
    """One Python file below a root."""

    path: Path
    """Relative to the root."""
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return _parse(self.text)

    @property
    def module(self) -> str:
        """The dotted name, for a file whose root is a directory of `sys.path`."""
        parts = self.path.with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def where(self, node: ast.AST) -> str:
        return f"{self.path}:{getattr(node, 'lineno', 1)}"


@cache
def _parse(text: str) -> ast.Module:
    """The tree of a text, parsed once however many roots it is below; nobody changes it."""
    # A tree has no cycles. Looking for some again and again would take twice as long as all parsing.
    gc.disable()
    try:
        return ast.parse(text)
    finally:
        gc.enable()


@dataclass(frozen=True)
class Import:
    """One name that a file brings in."""

    node: ast.AST
    module: str
    """Absolute, relative imports resolved."""
    name: str | None
    """The name after `from module import`, or None."""
    lazy: bool
    """Whether it stands inside a function."""

    @property
    def dotted(self) -> str:
        return f"{self.module}.{self.name}" if self.name else self.module


@cache
def sources(root: Path) -> tuple[Source, ...]:
    """Every Python file below `root`, by path."""
    return tuple(
        Source(path.relative_to(root), path.read_text(encoding="utf-8"))
        for path in sorted(root.rglob("*.py"))
        if "node_modules" not in path.parts
    )


def imports(source: Source) -> Iterator[Import]:
    """Every import of a file: in functions, under `TYPE_CHECKING` and by `import_module("...")` too."""
    yield from _imports(source, source.tree, lazy=False)


def _imports(source: Source, node: ast.AST, *, lazy: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Import(names=names):
                for alias in names:
                    yield Import(child, alias.name, None, lazy)
            case ast.ImportFrom(names=names):
                module = _absolute(source, child)
                for alias in names:
                    yield Import(child, module, alias.name, lazy)
            case ast.Call(args=[ast.Constant(value=str(module)), *_]) if _loads_module(child.func):
                yield Import(child, module, None, lazy)
            case _:
                pass
        function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield from _imports(source, child, lazy=lazy or function)


def _absolute(source: Source, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    package = source.path.parent.parts
    base = package[: len(package) - (node.level - 1)]
    return ".".join((*base, node.module) if node.module else base)


def _loads_module(function: ast.expr) -> bool:
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in {"import_module", "__import__"}


def origins(source: Source) -> dict[str, str]:
    """What each imported local name stands for: `import datetime as d` gives `{"d": "datetime"}`."""
    names: dict[str, str] = {}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                local = alias.asname or alias.name.partition(".")[0]
                names[local] = alias.name if alias.asname else local
        elif isinstance(node, ast.ImportFrom):
            module = _absolute(source, node)
            names |= {alias.asname or alias.name: f"{module}.{alias.name}" for alias in node.names}
    return names


def dotted(node: ast.AST, names: Mapping[str, str]) -> str | None:
    """The full name that `a.b.c` stands for if `a` was imported, else None."""
    match node:
        case ast.Name(id=name):
            return names.get(name)
        case ast.Attribute(value=value, attr=attribute):
            owner = dotted(value, names)
            return f"{owner}.{attribute}" if owner else None
        case _:
            return None


def committed(root: Path) -> list[Path]:
    """The files git keeps, relative to `root`; without git, all that are no cache."""
    listing = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z", "--cached"], capture_output=True, text=True, check=False
    )
    if listing.returncode == 0:
        names = (Path(name) for name in listing.stdout.split("\0") if name)
        return [name for name in names if (root / name).is_file()]
    caches = {".git", ".venv", ".tools", ".artelier", "artelier-out", "node_modules", "__pycache__"}
    caches |= {".pytest_cache", ".ruff_cache", ".hypothesis"}
    files = [path.relative_to(root) for path in sorted(root.rglob("*")) if path.is_file()]
    return [path for path in files if not caches & set(path.parts)]
