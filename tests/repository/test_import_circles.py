"""No import circle: lazy imports and those for type checking count like any other."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from tests.repository.sources import ROOT, imports, sources


def import_graph(root: Path) -> dict[str, set[str]]:
    """Return the modules below `root`, each with those that it imports, wherever in the file."""
    known = {source.module for source in sources(root)}
    graph: dict[str, set[str]] = {module: set() for module in known}
    for source in sources(root):
        for item in imports(source):
            target = item.dotted if item.dotted in known else item.module
            if target in known and target != source.module:
                graph[source.module].add(target)
    return graph


def check_circles(root: Path) -> list[str]:
    """Return the import circles below `root`: modules each of which reaches every other."""
    graph = import_graph(root)
    order = _ends_first(graph)
    backwards: dict[str, set[str]] = defaultdict(set)
    for module, targets in graph.items():
        for target in targets:
            backwards[target].add(module)
    found: list[str] = []
    seen: set[str] = set()
    for module in reversed(order):
        circle = _reached(module, backwards, seen)
        if len(circle) > 1:
            edges = [f"{one} -> {two}" for one in sorted(circle) for two in sorted(graph[one] & circle)]
            found.append(f"a circle of {len(circle)} modules: {', '.join(edges)}")
    return found


def _ends_first(graph: dict[str, set[str]]) -> list[str]:
    """Return all modules, each after those that are reached from it, circles apart."""
    order: list[str] = []
    seen: set[str] = set()
    for start in sorted(graph):
        stack = [] if start in seen else [(start, iter(sorted(graph[start])))]
        seen.add(start)
        while stack:
            module, targets = stack[-1]
            following = next((one for one in targets if one not in seen), None)
            if following is None:
                order.append(module)
                stack.pop()
            else:
                seen.add(following)
                stack.append((following, iter(sorted(graph[following]))))
    return order


def _reached(start: str, graph: dict[str, set[str]], seen: set[str]) -> set[str]:
    """Return the modules reached from one that nobody has `seen` before; now they are seen."""
    found: set[str] = set()
    left = [start]
    while left:
        module = left.pop()
        if module not in seen:
            seen.add(module)
            found.add(module)
            left += graph[module]
    return found


def test_no_module_imports_itself_by_way_of_others() -> None:
    assert check_circles(ROOT / "src") == []


@pytest.mark.parametrize(
    "back",
    [
        "from artelier.log import a",
        "from artelier.log.a import A",
        "from .a import A",
        "def f():\n    import artelier.log.a",
        "if TYPE_CHECKING:\n    from artelier.log.a import A",
        "x = import_module('artelier.log.a')",
    ],
)
def test_a_circle_is_found(tmp_path: Path, back: str) -> None:
    folder = tmp_path / "artelier" / "log"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "a.py").write_text("from artelier.log.b import B")
    (folder / "b.py").write_text("from artelier.log.c import C")
    (folder / "c.py").write_text("")
    assert check_circles(tmp_path) == []
    sources.cache_clear()

    (folder / "c.py").write_text(back)

    (circle,) = check_circles(tmp_path)
    assert circle.startswith("a circle of 3 modules: artelier.log.a -> artelier.log.b, ")
