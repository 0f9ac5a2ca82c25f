"""Stored data is only data: nothing in the package unpickles, evaluates or loads classes by name."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.repository.sources import ROOT, dotted, imports, origins, sources

FORBIDDEN_MODULES = {
    "pickle",
    "_pickle",
    "pickletools",
    "marshal",
    "shelve",
    "copyreg",
    "dill",
    "cloudpickle",
    "jsonpickle",
    "joblib",
}
FORBIDDEN_NAMES = {
    "yaml.load",
    "yaml.load_all",
    "yaml.unsafe_load",
    "yaml.full_load",
    "builtins.eval",
    "builtins.exec",
    "builtins.__import__",
}
FORBIDDEN_BUILTINS = {"eval", "exec", "__import__"}


def check_data_stays_data(root: Path) -> list[str]:
    found: list[str] = []
    for source in sources(root):
        found += [
            f"{source.where(item.node)} imports {item.module}"
            for item in imports(source)
            if item.module.partition(".")[0] in FORBIDDEN_MODULES
        ]
        names = origins(source)
        for node in ast.walk(source.tree):
            name = dotted(node, names)
            if name is None and isinstance(node, ast.Name) and node.id in FORBIDDEN_BUILTINS:
                name = f"builtins.{node.id}"
            if name in FORBIDDEN_NAMES:
                found.append(f"{source.where(node)} uses {name}")
    return found


def test_the_package_never_turns_data_into_code() -> None:
    assert check_data_stays_data(ROOT / "src") == []


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("import pickle", "imports pickle"),
        ("def f():\n    from cloudpickle import loads", "imports cloudpickle"),
        ("import marshal as m", "imports marshal"),
        ("import yaml\nyaml.load(x)", "uses yaml.load"),
        ("from yaml import unsafe_load as load\nload(x)", "uses yaml.unsafe_load"),
        ("eval(text)", "uses builtins.eval"),
        ("exec(text)", "uses builtins.exec"),
        ("run = exec", "uses builtins.exec"),
        ("__import__(name)", "uses builtins.__import__"),
        ("import builtins\nbuiltins.eval(text)", "uses builtins.eval"),
    ],
)
def test_a_door_from_data_to_code_is_found(tmp_path: Path, text: str, what: str) -> None:
    (tmp_path / "a.py").write_text(text)

    found = check_data_stays_data(tmp_path)

    assert len(found) == 1
    assert found[0].endswith(what)


def test_names_that_only_look_alike_are_accepted(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import yaml\nyaml.safe_load(x)\ncursor.exec(x)\nevaluate(x)\n'eval(1)'\n")

    assert check_data_stays_data(tmp_path) == []
