"""Imports point one way: the order of the packages in `docs/architecture.md`, and nothing else."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.repository.sources import ROOT, Import, Source, imports, sources

LAYERS: tuple[frozenset[str], ...] = tuple(
    frozenset(layer.split())
    for layer in (
        "errors money ids clock atomic_file process confinement child child_loop threads garbage patterns",
        "ports",
        "log",
        "plugins",
        "pii",
        "ledger",
        "sandbox",
        "artifacts",
        "tokens",
        "kernel",
        "models telemetry",
        "tools",
        "integrations",
        "memory",
        "context",
        "loops",
        "operations",
        "chat",
        "agents",
        "missions",
        "webhooks",
        "world",
        "tenant_kernel",
        "app",
        "server",
        "cli",
    )
)
"""A package may import those above it and itself; the names of one row may import each other."""

RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}

FACES = {"server", "cli"}
"""The only packages that import the public Kernel; `testing` and the lazy exports of the root may too."""

MEMBERS = {"artelier_offline", "artelier_migrate", "artelier_lab"}
"""Import packages beside `artelier`: each may import that, and is reached through entry points only."""

CORE = {"log", "ledger", "kernel"}
CORE_THIRD_PARTIES = {"msgspec"}

DRIVERS = {"artelier.log.postgres": {"psycopg"}}
"""Third parties of one package in there: what it stores in."""


def package_of(module: str) -> str:
    """`artelier.log.event` is in `log`; `artelier` itself is the package `root`."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "root"


def target_of(item: Import, root: Path) -> str:
    """The module an import reaches: `from artelier import log` reaches `artelier.log`."""
    if item.module == "artelier" and item.name:
        place = root / "artelier" / item.name
        if place.is_dir() or place.with_suffix(".py").is_file():
            return item.dotted
    return item.module


def check_arrows(root: Path) -> list[str]:
    """Every import below `root/artelier` that points the wrong way."""
    return [
        f"{source.where(item.node)} {source.module} imports {target_of(item, root)}: {reason}"
        for source in sources(root)
        for item in imports(source)
        if (reason := _refusal(source, item, root))
    ]


def _refusal(source: Source, item: Import, root: Path) -> str | None:
    home, top = source.module.partition(".")[0], item.module.partition(".")[0]
    if top in MEMBERS and top != home:
        return "a member is reached through its entry points only"
    if top != "artelier" or home in MEMBERS:
        return None
    importer = package_of(source.module)
    target = package_of(target_of(item, root))
    if importer == target or importer == "testing":
        return None
    if target == "testing":
        return "testing is for tests and the lab"
    if importer == "root":
        return None if target in RANK else "it has no place in the order of packages"
    if importer == "__main__":
        return None if target == "cli" else "it starts the command line and nothing else"
    if importer not in RANK:
        return f"{importer} has no place in the order of packages"
    if target in {"tenant_kernel", "app", "root"}:
        is_maker = (importer, target) == ("app", "tenant_kernel")
        return None if importer in FACES or is_maker else "only server and cli import the public Kernel"
    if target not in RANK:
        return f"{target} has no place in the order of packages"
    if RANK[target] > RANK[importer]:
        return f"{target} stands below {importer}"
    return None


def check_private_names(root: Path) -> list[str]:
    """Every import of an underscore name or module of another package."""
    return [
        f"{source.where(item.node)} {source.module} imports the private {item.dotted}"
        for source in sources(root)
        for item in imports(source)
        if item.module.partition(".")[0] == "artelier"
        and package_of(source.module) != package_of(target_of(item, root))
        and any(_is_private(part) for part in item.dotted.split("."))
    ]


def _is_private(name: str) -> bool:
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))


def check_core_dependencies(root: Path) -> list[str]:
    """Every third party that the log, the ledger or the kernel imports, msgspec apart."""
    known = sys.stdlib_module_names | CORE_THIRD_PARTIES | {"artelier"}
    drivers = {prefix: known | names for prefix, names in DRIVERS.items()}
    return [
        f"{source.where(item.node)} {source.module} imports {item.module}"
        for source in sources(root)
        if package_of(source.module) in CORE
        for item in imports(source)
        if item.module.partition(".")[0] not in drivers.get(source.module.rpartition(".")[0], known)
    ]


def test_imports_follow_the_order_of_packages() -> None:
    assert check_arrows(ROOT / "src") == []


def test_every_import_package_is_the_product_or_a_member() -> None:
    """The lab imports whatever it likes; nobody imports the lab."""
    here = {path.parent.name for root in ("src", "lab/src") for path in (ROOT / root).glob("*/__init__.py")}

    assert here <= {"artelier", *MEMBERS}
    assert here >= {"artelier", "artelier_migrate", "artelier_lab"}
    assert check_arrows(ROOT / "lab/src") == []


def test_nothing_imports_private_names_of_another_package() -> None:
    assert check_private_names(ROOT / "src") == []


def test_core_imports_the_standard_library_and_one_codec() -> None:
    assert check_core_dependencies(ROOT / "src") == []


def test_every_package_has_a_place_in_the_order() -> None:
    places = {*RANK, "testing", "__init__", "__main__"}
    here = {
        source.path.parts[1].removesuffix(".py")
        for source in sources(ROOT / "src")
        if source.path.parts[0] == "artelier"
    }

    assert here - places == set()
    assert "errors" in here


def plant(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / "artelier" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


WRONG_ARROWS = [
    ("log/event.py", "from artelier.kernel import runs", "kernel stands below log"),
    ("log/event.py", "from ..kernel import runs", "kernel stands below log"),
    ("log/event.py", "def f():\n    import artelier.kernel.runs", "kernel stands below log"),
    ("log/event.py", "from artelier import kernel", "kernel stands below log"),
    ("log/event.py", "x = import_module('artelier.kernel')", "kernel stands below log"),
    ("errors.py", "from artelier.ports import model", "ports stands below errors"),
    ("ports/tool.py", "if TYPE_CHECKING:\n    from artelier.log import Event", "log stands below"),
    ("world/tick/tick.py", "from artelier.app import Kernel", "only server and cli"),
    ("world/tick/tick.py", "from artelier import Kernel", "only server and cli"),
    ("world/tick/tick.py", "import artelier", "only server and cli"),
    ("server/app.py", "from artelier.cli import main", "cli stands below server"),
    ("cli/runs.py", "def f():\n    from artelier.testing import fake", "for tests and the lab"),
    ("__init__.py", "from artelier.testing import simulator", "for tests and the lab"),
    ("cli/runs.py", "def f():\n    import artelier_lab.torture", "through its entry points only"),
    ("cli/runs.py", "def f():\n    import artelier_offline", "through its entry points only"),
    ("models/registry.py", "x = import_module('artelier_offline.model')", "through its entry points only"),
    ("plans/a.py", "from artelier.log import Event", "plans has no place"),
    ("cli/runs.py", "from artelier.plans import a", "plans has no place"),
]


@pytest.mark.parametrize(("name", "text", "reason"), WRONG_ARROWS)
def test_a_wrong_arrow_is_found(tmp_path: Path, name: str, text: str, reason: str) -> None:
    root = plant(tmp_path, {"kernel/__init__.py": "", name: text})

    found = check_arrows(root)

    assert len(found) == 1
    assert reason in found[0]
    assert found[0].startswith(f"artelier/{name}:")


def test_right_arrows_are_accepted(tmp_path: Path) -> None:
    root = plant(
        tmp_path,
        {
            "__init__.py": "def __getattr__(name):\n    from artelier.app import Kernel",
            "__main__.py": "from artelier.cli import main",
            "ids.py": "from artelier.errors import InvalidRequest",
            "kernel/runs.py": "from artelier.log import Event\nfrom . import steps\nimport json",
            "cli/work/up.py": "from artelier.server import serve\nfrom artelier import Kernel",
            "testing/simulator.py": "from artelier.cli import main\nfrom artelier.app import Kernel",
        },
    )

    assert check_arrows(root) == []


@pytest.mark.parametrize(
    "text",
    [
        "from artelier.log import _fold",
        "from artelier.log._chain import link",
        "import artelier.log._chain",
        "from ..log import _fold",
    ],
)
def test_a_private_name_of_another_package_is_found(tmp_path: Path, text: str) -> None:
    elsewhere = plant(tmp_path / "elsewhere", {"kernel/runs.py": text})
    at_home = plant(tmp_path / "home", {"log/runs.py": text})

    assert len(check_private_names(elsewhere)) == 1
    assert check_private_names(at_home) == []


def test_a_third_party_in_the_core_is_found(tmp_path: Path) -> None:
    text = "import json\nimport msgspec\ndef f():\n    from pydantic import BaseModel\n"
    root = plant(tmp_path, {"kernel/runs.py": text, "server/wire.py": text})

    assert check_core_dependencies(root) == [
        "artelier/kernel/runs.py:4 artelier.kernel.runs imports pydantic"
    ]
