"""The documentation is true: links resolve, Python compiles, what is marked as tested runs."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests.repository.markdown import TESTED, Block, anchors, blocks, check_links
from tests.repository.sources import ROOT, committed

PYTHON = {"python", "py", "python3"}

PAGES = [path for path in committed(ROOT) if path.suffix == ".md" and path.parts[0] != "tests"]

_MAKE = re.compile(r"\bmake ([a-z]+)\b")
_TARGET = re.compile(r"^([a-z]+):", re.MULTILINE)


def read(page: Path) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


TESTED_PAGES = [page for page in PAGES if any(block.tested for block in blocks(read(page)))]


def compile_block(page: Path, block: Block) -> Any:
    """Code of a block; `await` is legal at its top, as in a notebook. Lines count as on the page."""
    text = "\n" * (block.line - 1) + dedent(block.code)
    return compile(text, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def check_python(page: Path, text: str) -> list[str]:
    """Every Python block that does not compile."""
    found: list[str] = []
    for block in blocks(text):
        if block.language in PYTHON:
            try:
                compile_block(page, block)
            except SyntaxError as error:
                found.append(f"{page}:{error.lineno} {error.msg}")
    return found


def run_tested_blocks(page: Path, text: str) -> int:
    """Run the tested blocks of a page in order, in one namespace; how many there were."""
    names: dict[str, Any] = {"__name__": "__main__"}
    tested = [block for block in blocks(text) if block.tested]
    for block in tested:
        assert block.language in PYTHON, f"{page}:{block.line} only Python blocks can be tested"
        result = eval(compile_block(page, block), names)
        if inspect.iscoroutine(result):
            asyncio.run(result)
    return len(tested)


def check_make_targets(page: Path, text: str, targets: set[str]) -> list[str]:
    """Every `make target` in code that the Makefile does not have."""
    inline = re.findall(r"`(make [a-z]+)[^`]*`", text)
    code = "\n".join(block.code for block in blocks(text) if block.language in {"bash", "sh"})
    named = _MAKE.findall("\n".join(inline)) + _MAKE.findall(code)
    return [f"{page}: make {name}" for name in sorted(set(named) - targets)]


def test_links_resolve() -> None:
    assert check_links(ROOT, PAGES) == []


def test_python_on_every_page_compiles() -> None:
    assert [bad for page in PAGES for bad in check_python(page, read(page))] == []


@pytest.mark.parametrize("page", TESTED_PAGES, ids=str)
def test_tested_blocks_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert run_tested_blocks(page, read(page)) > 0


def test_the_readmes_blocks_run_again_in_the_same_folder_and_the_first_calls_nothing_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "README.md").read_text(encoding="utf-8")

    assert run_tested_blocks(Path("README.md"), text) == 4
    first = capsys.readouterr().out
    run_tested_blocks(Path("README.md"), text)
    again = capsys.readouterr().out

    assert first.startswith("sending to ana\ncalls of the model: 1\n")
    assert again.startswith("calls of the model: 0\n")
    assert first.splitlines()[-1] == again.splitlines()[-1]  # the hash of the world


def test_make_targets_on_every_page_exist() -> None:
    targets = set(_TARGET.findall((ROOT / "Makefile").read_text(encoding="utf-8")))

    assert "setup" in targets
    assert [bad for page in PAGES for bad in check_make_targets(page, read(page), targets)] == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# One Idea: `x`\n")
    (tmp_path / "README.md").write_text(
        "# Top\n[ok](docs/a.md) [ok](docs/a.md#one-idea-x) [ok](#top) [out](https://example.org/x)\n"
        "[no](docs/b.md) `[code](docs/c.md)`\n"
        "```\n[code](docs/d.md)\n```\n"
        "[no](docs/a.md#two) and [no](../../etc/passwd)\n"
        "[ref]: docs/e.md\n"
    )

    assert check_links(tmp_path, [Path("README.md"), Path("docs/a.md")]) == [
        "README.md:3 docs/b.md is not there",
        "README.md:7 docs/a.md#two names no heading",
        "README.md:7 ../../etc/passwd leaves the repository",
        "README.md:8 docs/e.md is not there",
    ]


def test_equal_headings_get_numbered_anchors() -> None:
    assert anchors("# Use\n## Use\n```\n# not a heading\n```\n") == {"use", "use-1"}


def test_python_that_does_not_compile_is_found() -> None:
    page = "text\n```python\nx = await f()\n```\n```python\nx = = 1\n```\n```json\n{\n```\n"

    assert check_python(Path("a.md"), page) == ["a.md:6 invalid syntax"]


def test_tested_blocks_share_names_and_may_await() -> None:
    page = dedent(f"""\
        {TESTED}
        ```python
        import asyncio
        async def answer():
            return 41
        ```
        {TESTED}

        ```python
        assert await answer() == 41
        ```
        ```python
        assert False, "shown, not run"
        ```
        """)

    assert run_tested_blocks(Path("a.md"), page) == 2


def test_a_tested_block_that_fails_fails() -> None:
    page = f"{TESTED}\n```python\nassert 1 == 2\n```\n"

    with pytest.raises(AssertionError):
        run_tested_blocks(Path("a.md"), page)


def test_an_unknown_make_target_is_found() -> None:
    page = "Run `make up`, then `make coffee`.\n```bash\nmake tea\n```\nWe make sense.\n"

    assert check_make_targets(Path("a.md"), page, {"up"}) == ["a.md: make coffee", "a.md: make tea"]
