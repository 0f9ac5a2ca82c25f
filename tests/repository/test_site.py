"""The site of `docs/` builds without a warning, shows every page, and loads nothing from elsewhere."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import artelier.errors
from tests.repository.sources import ROOT, committed

PAGES = {
    path.relative_to("docs").as_posix()
    for path in committed(ROOT)
    if path.parts[0] == "docs" and path.suffix == ".md" and path.name != "0000-template.md"
}
LOADED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*?(?:src|href)=[\"']?(?:https?:)?//([^/\"'> ]+)")


def listed(nav: list[Any]) -> list[str]:
    """Return the pages of a navigation, in its order."""
    found: list[str] = []
    for entry in nav:
        if isinstance(entry, str):
            found.append(entry)
        else:
            for pages in entry.values():
                found += listed(pages)
    return found


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("zensical")), "build", "--clean", "--strict"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def copy_docs(folder: Path) -> None:
    shutil.copytree(ROOT / "docs", folder / "docs")
    shutil.copy(ROOT / "zensical.toml", folder)
    (folder / "src").symlink_to(ROOT / "src")  # the reference is made of its docstrings


def test_the_navigation_lists_every_page_once() -> None:
    nav = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]
    found = listed(nav)
    assert sorted(found) == sorted(PAGES)


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    copy_docs(tmp_path)
    built = build(tmp_path)
    assert built.returncode == 0, built.stdout + built.stderr
    assert "arning" not in built.stdout + built.stderr
    for page in PAGES:
        shown = page.removesuffix(".md").removesuffix("index")
        assert (tmp_path / ".tools/site" / shown / "index.html").is_file(), page
    for file in (tmp_path / ".tools/site").rglob("*.html"):
        assert not LOADED.findall(file.read_text()), file
    agents = (tmp_path / ".tools/site/reference/agents/index.html").read_text()
    assert "An agent that works on a prompt until it is done." in agents


def test_the_reference_has_every_public_name_once() -> None:
    pages = [(ROOT / "docs" / page).read_text() for page in PAGES if page.startswith("reference/")]
    named = Counter(
        name for text in pages for name in re.findall(r"^::: artelier\.(\w+)$", text, re.MULTILINE)
    )
    of_their_page = {name for name in artelier.__all__ if hasattr(artelier.errors, name)}
    by_older_names = {"TenantContext"}
    assert set(artelier.__all__) - of_their_page - by_older_names == set(named) - {"errors"}
    assert set(named.values()) == {1}


def test_a_link_that_leads_nowhere_fails_the_build(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "zensical.toml").write_text('[project]\nsite_name = "Artelier"\n')
    for text, works in (("[here](index.md)", True), ("[nowhere](guides/nowhere.md)", False)):
        (tmp_path / "docs/index.md").write_text(f"# Artelier\n\n{text}\n")
        assert (build(tmp_path).returncode == 0) is works
