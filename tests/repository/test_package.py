"""The package as people install it has the web application, and is not built without it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.repository.sources import ROOT

STATIC = Path("src/artelier/server/static")
NEEDED = ("pyproject.toml", "README.md", "LICENSE", "web/hatch_build.py", "src")

pytestmark = pytest.mark.slow


def build(root: Path, to: Path, *, target: str = "wheel") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(to)]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


def copied(to: Path) -> Path:
    """What a wheel is made of; the application as a file or two, whether it is built here or not."""
    for name in NEEDED:
        source, target = ROOT / name, to / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "static"))
        else:
            shutil.copy(source, target)
    return to


def test_a_wheel_holds_the_application_and_all_data_files(tmp_path: Path) -> None:
    root = copied(tmp_path / "tree")
    (root / STATIC / "assets").mkdir(parents=True)
    (root / STATIC / "index.html").write_text("<!doctype html>")
    (root / STATIC / "assets" / "main.js").write_text("")

    built = build(root, tmp_path / "dist")

    assert built.returncode == 0, built.stderr
    with ZipFile(next((tmp_path / "dist").glob("*.whl"))) as wheel:
        names = set(wheel.namelist())
    data = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src").rglob("*")
        if path.suffix in (".md", ".json", ".toml", ".typed") and "static" not in path.parts
    }
    assert data <= names
    assert {"artelier/server/static/index.html", "artelier/server/static/assets/main.js"} <= names


def test_a_source_distribution_holds_the_application_so_that_installing_needs_no_node(tmp_path: Path) -> None:
    root = copied(tmp_path / "tree")
    (root / STATIC).mkdir(parents=True)
    (root / STATIC / "index.html").write_text("<!doctype html>")
    assert build(root, tmp_path / "dist", target="sdist").returncode == 0

    with tarfile.open(next((tmp_path / "dist").glob("*.tar.gz"))) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    [source] = (tmp_path / "unpacked").iterdir()
    built = build(source, tmp_path / "wheel")

    assert built.returncode == 0, built.stderr
    with ZipFile(next((tmp_path / "wheel").glob("*.whl"))) as wheel:
        assert "artelier/server/static/index.html" in wheel.namelist()


def test_a_wheel_without_the_application_is_refused(tmp_path: Path) -> None:
    built = build(copied(tmp_path / "tree"), tmp_path / "dist")

    assert built.returncode != 0
    assert "make setup" in built.stderr
    assert not list(tmp_path.glob("dist/*"))
