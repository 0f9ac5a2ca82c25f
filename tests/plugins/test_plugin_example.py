"""The plugin of `examples/plugin`, built and installed beside a built Artelier, as others would do it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.repository.sources import ROOT

pytestmark = pytest.mark.slow

NEEDED = ("pyproject.toml", "README.md", "LICENSE", "web/hatch_build.py", "src")

PROGRAM = """
import asyncio
from artelier import Kernel, OperationProfile, Session

PROFILE = {"profile_id": "p", "operations": [
    {"operation_id": "counted", "kind": "word_count", "order": 1, "params": {"text": "three words here",
     "effects": [{"type": "artifact.upsert", "tag": "words", "usage": "ui_only"}]}}]}

async def main():
    with Kernel.open("p.db", plugins=["artelier-example"]) as kernel:
        async with kernel.run("r") as run:
            messages = [{"role": "user", "content": "one two"}]
            said = await run.step_model(model="example:any", messages=messages)
            counted = await run.step_tool("count_words", {"text": "a b c d"})
            print(said.text, "|", counted.unwrap())
        chat = await Session.open(kernel, "c", model="example:any", profile=OperationProfile.parse(PROFILE))
        print((await chat.generate("hello there you")).text, "|", await chat.art("words"))

asyncio.run(main())
"""


def copied(source: Path, to: Path) -> Path:
    for name in NEEDED if source == ROOT else [one.name for one in source.iterdir()]:
        old, new = source / name, to / name
        new.parent.mkdir(parents=True, exist_ok=True)
        if old.is_dir():
            shutil.copytree(old, new, ignore=shutil.ignore_patterns("__pycache__", "static"))
        else:
            shutil.copy(old, new)
    if source == ROOT:
        static = to / "src/artelier/server/static"
        static.mkdir(parents=True)
        (static / "index.html").write_text("<!doctype html>")
    return to


def wheel(source: Path, to: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(to)]
    subprocess.run(command, cwd=source, capture_output=True, text=True, check=True)
    return next(to.glob("*.whl"))


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with both wheels and nothing of this checkout; dependencies come from the tests' own."""
    folder = tmp_path_factory.mktemp("machine")
    wheels = [
        wheel(copied(source, folder / name), folder / f"{name}-dist")
        for name, source in (("core", ROOT), ("plugin", ROOT / "examples/plugin"))
    ]
    venv.EnvBuilder(with_pip=True).create(folder / "venv")
    python = folder / "venv/bin/python"
    install = [python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", *wheels]
    subprocess.run(install, check=True, capture_output=True, text=True)
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = subprocess.run([python, "-c", where], check=True, capture_output=True, text=True).stdout.strip()
    for one in Path(sysconfig.get_path("purelib")).iterdir():
        link = Path(site) / one.name
        if "artelier" not in one.name and not link.exists():
            link.symlink_to(one)
    return folder / "venv"


class Shop:
    """A folder in which commands of the environment run."""

    def __init__(self, machine: Path, folder: Path) -> None:
        self.machine, self.folder = machine, folder

    def __call__(self, program: str, *words: str) -> subprocess.CompletedProcess[str]:
        environ = {
            key: value for key, value in os.environ.items() if not key.startswith(("ARTELIER", "PYTHON"))
        }
        environ["XDG_CACHE_HOME"] = str(self.folder / "cache")
        return subprocess.run(
            [self.machine / "bin" / program, *words],
            cwd=self.folder,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def shop(machine: Path, tmp_path: Path) -> Shop:
    return Shop(machine, tmp_path)


def test_the_environment_holds_the_wheels_and_not_the_checkout(shop: Shop) -> None:
    ran = shop("python", "-c", "import artelier, artelier_example as e; print(artelier.__file__, e.__file__)")

    assert ran.stdout.count(str(shop.machine)) == 2, ran.stderr


def test_a_command_of_the_plugin_works_once_it_is_allowed(shop: Shop) -> None:
    refused = shop("artelier", "words", "how many are these")
    (shop.folder / "artelier.toml").write_text('[plugins]\nallow = ["artelier-example"]\n')

    assert 'Write [plugins] allow = ["artelier-example"] into artelier.toml.' in refused.stderr
    assert shop("artelier", "words", "how many are these").stdout == "4\n"
    assert json.loads(shop("artelier", "words", "a b", "--json").stdout) == {"words": 2}
    assert "words  Counts words: a model, a tool" in shop("artelier", "--help").stdout


def test_doctor_shows_the_plugin_as_installed_and_then_as_allowed(shop: Shop) -> None:
    before = shop("artelier", "doctor", "--port", "0").stdout
    (shop.folder / "artelier.toml").write_text('[plugins]\nallow = ["artelier-example"]\n')
    after = shop("artelier", "doctor", "--port", "0").stdout

    assert "artelier-example 0.1.0: commands words" in before and "installed, not allowed" in before
    assert "models example, operation_kinds word_count, tools count_words; allowed" in after


def test_a_program_uses_its_model_its_tool_and_its_kind(shop: Shop) -> None:
    (shop.folder / "program.py").write_text(PROGRAM)

    ran = shop("python", "program.py")

    assert ran.stdout.splitlines() == ["2 words | 4", "3 words | 3"], ran.stderr


def test_the_wheel_alone_does_what_the_readme_shows_first(shop: Shop) -> None:
    (shop.folder / "sales.csv").write_text("region,amount\nnorth,3\nsouth,4\n")

    version = shop("artelier", "--version")
    done = shop("artelier", "do", "Which region has the highest amount?", "--workspace", ".", "--json")

    assert version.stdout.startswith("artelier 0.")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "south" in done.stdout


@pytest.mark.parametrize("name", ["torture", "bench"])
def test_a_command_of_the_lab_says_in_one_sentence_how_to_get_it(shop: Shop, name: str) -> None:
    ran = shop("artelier", name)

    assert ran.returncode != 0
    assert f"the command '{name}' comes with artelier-lab, which is not installed" in ran.stderr
    assert "`pip install artelier-lab`" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert f"\n  {name} " in shop("artelier", "--help").stdout
