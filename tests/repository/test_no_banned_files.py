"""Every file has a noun of the domain for a name, and the repository holds no leavings."""

from __future__ import annotations

import subprocess
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.repository.sources import ROOT, committed

HOMELESS = {"utils.py", "util.py", "misc.py", "common.py", "manager.py", "helpers.py"}
"""A function without a home wants a better noun."""

LEAVINGS = (
    *("*.db", "*.db-wal", "*.db-shm", "*.db-journal", "*.sqlite", "*.sqlite3", "*.duckdb"),
    *("*.pyc", "*.log", "*.tmp", "*.bak", "*.orig", "*.rej", "*.swp", "*~", ".DS_Store"),
    *("*.pkl", "*.prof", "core.[0-9]*", ".env", "nohup.out"),
)

ROOT_NAMES = {
    *(".ci", ".gitattributes", ".gitignore", "AGENTS.md", "CHANGELOG.md", "CONTRIBUTING.md"),
    *("LICENSE", "Makefile", "README.md", "SECURITY.md", "bench", "deploy", "docs", "examples"),
    *("lab", "pyproject.toml", "src", "tests", "uv.lock", "web", "zensical.toml"),
}
"""What may stand at the top. A plan, a scratch file or a second way to build has no place there."""

SIZE_BYTES_MAX = 1_000_000


def check_names(files: list[Path]) -> list[str]:
    homeless = [f"{path}: a noun of the domain" for path in files if path.name in HOMELESS]
    leavings = [
        f"{path}: not kept in the repository"
        for path in files
        if any(fnmatch(path.name, pattern) for pattern in LEAVINGS)
    ]
    strangers = [f"{path}: has no place at the top" for path in files if path.parts[0] not in ROOT_NAMES]
    return homeless + leavings + strangers


def check_sizes(root: Path, files: list[Path]) -> list[str]:
    return [
        f"{path}: {size} bytes" for path in files if (size := (root / path).stat().st_size) > SIZE_BYTES_MAX
    ]


def test_names_of_committed_files_are_nouns_of_the_domain() -> None:
    files = committed(ROOT)

    assert Path("pyproject.toml") in files
    assert check_names(files) == []


def test_committed_files_are_small() -> None:
    assert check_sizes(ROOT, committed(ROOT)) == []


@pytest.mark.parametrize(
    "name",
    [
        "src/artelier/utils.py",
        "tests/log/common.py",
        "examples/state.db",
        "tests/golden/state.db-wal",
        "docs/draft.md.orig",
        "PLAN.md",
        "scratch/try.py",
        "setup.py",
    ],
)
def test_a_banned_file_is_found(name: str) -> None:
    assert len(check_names([Path(name), Path("src/artelier/log/event.py")])) == 1


def test_a_large_file_is_found(tmp_path: Path) -> None:
    (tmp_path / "large.csv").write_bytes(b"x" * (SIZE_BYTES_MAX + 1))
    (tmp_path / "small.csv").write_bytes(b"x")

    files = [Path("large.csv"), Path("small.csv")]

    assert check_sizes(tmp_path, files) == [f"large.csv: {SIZE_BYTES_MAX + 1} bytes"]


def test_committed_files_are_those_git_keeps(tmp_path: Path) -> None:
    (tmp_path / "kept.py").write_text("")
    (tmp_path / "scratch.py").write_text("")
    without_git = committed(tmp_path)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    subprocess.run(["git", "-C", str(tmp_path), "add", "kept.py"], check=True)

    assert committed(tmp_path) == [Path("kept.py")]
    assert without_git == [Path("kept.py"), Path("scratch.py")]
