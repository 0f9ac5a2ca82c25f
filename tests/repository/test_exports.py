"""`import artelier` is short, sorted and lazy: nothing heavy is loaded until it is used."""

from __future__ import annotations

import json
import pkgutil
import subprocess
import sys
import warnings
from importlib import import_module

import artelier

HEAVY = (
    *("pydantic", "pydantic_ai", "pydantic_monty", "duckdb", "rich", "typer", "genai_prices"),
    *("numpy", "fastapi", "httpx", "openai", "anthropic"),
)
"""Each of these costs more at import than the package may (see the decision on dependencies)."""


def in_sorted_order(names: list[str]) -> list[str]:
    """Constants, then classes, then functions: the order that ruff's RUF022 keeps."""
    return sorted(names, key=lambda name: (not name.isupper(), not name[0].isupper(), name))


def modules_loaded_by(code: str) -> set[str]:
    """What stands in `sys.modules` of a fresh interpreter after some code."""
    script = f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    return set(json.loads(done.stdout))


def test_exports_are_sorted_and_unique() -> None:
    names = list(artelier.__all__)

    assert names == in_sorted_order(names)
    assert len(names) == len(set(names))


def test_each_export_is_there_and_listed() -> None:
    missing = [name for name in artelier.__all__ if not hasattr(artelier, name)]

    assert missing == []
    assert set(artelier.__all__) <= set(dir(artelier))


def test_what_every_package_exports_can_be_imported() -> None:
    """Names loaded on demand, too: `artelier.tools` named a module that was not there any more."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        missing = [
            f"{module.name}.{name}"
            for module in pkgutil.walk_packages(artelier.__path__, "artelier.")
            if not module.name.endswith("__main__")
            for name in getattr(import_module(module.name), "__all__", ())
            if not _can_be_loaded(module.name, name)
        ]

    assert missing == []


def _can_be_loaded(module: str, name: str) -> bool:
    try:
        getattr(import_module(module), name)
    except (AttributeError, ImportError):
        return False
    return True


def test_a_name_that_is_not_exported_is_an_attribute_error() -> None:
    assert not hasattr(artelier, "NoSuchName")


def test_import_loads_no_package_of_its_own_before_use() -> None:
    loaded = modules_loaded_by("import artelier")

    assert {name for name in loaded if name.startswith("artelier.")} == set()


def test_neither_import_nor_exports_load_anything_heavy() -> None:
    """Profiles of operations are forms of pydantic's: their names may load that, and no other name."""
    profiles = {name for name, home in artelier._HOME.items() if home.startswith(("chat", "operations"))}
    loaded = modules_loaded_by(
        f"import artelier\nfor name in artelier.__all__:\n    if name not in {profiles!r}:\n"
        "        getattr(artelier, name)"
    )
    with_profiles = modules_loaded_by(
        "import artelier\nfor name in artelier.__all__:\n    getattr(artelier, name)"
    )

    assert profiles, "the names of operations are known"
    assert loaded & set(HEAVY) == set()
    assert with_profiles & set(HEAVY) <= {"pydantic"}


def test_a_loaded_module_is_seen() -> None:
    assert "colorsys" in modules_loaded_by("import colorsys")
    assert "colorsys" not in modules_loaded_by("pass")
