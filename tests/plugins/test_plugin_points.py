"""Plugins act where they are allowed, by name, and nowhere else; a broken one harms nothing but itself."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, OperationProfile, Session
from artelier.errors import ArtelierError, InvalidRequest, UnknownModel
from artelier.memory.embedders import embedder_named
from artelier.models.registry import ModelRegistry
from artelier.operations.profile.operation_profile import parse_profile
from artelier.plugins import PluginBroken, PluginWarning, installed, own_members
from tests.plugins.conftest import Install, loaded

PROFILE: dict[str, Any] = {
    "profile_id": "loud",
    "operations": [
        {
            "operation_id": "cry",
            "kind": "loud",
            "order": 1,
            "params": {
                "text": "hear",
                "effects": [{"type": "artifact.upsert", "tag": "cry", "usage": "ui_only"}],
            },
        }
    ],
}


def opened(path: Path, **more: object) -> Kernel:
    return Kernel.open(path / "state.db", environ={}, **more)  # type: ignore[arg-type]


async def asked(kernel: Kernel, model: str = "acme:x") -> str:
    async with kernel.run("r") as run:
        return (await run.step_model(model=model, messages=[{"role": "user", "content": "hear me"}])).text


def test_what_is_merely_installed_does_nothing_and_is_not_imported(tmp_path: Path, install: Install) -> None:
    install()

    with opened(tmp_path) as kernel:
        assert dict(kernel.services.tools) == {}
        with pytest.raises(UnknownModel, match="no model is called 'acme:x'"):
            kernel.models.resolve("acme:x")
        with pytest.raises(InvalidRequest, match="unknown kind"):
            parse_profile(PROFILE)
        with pytest.raises(InvalidRequest, match="no such embedder"):
            embedder_named("letters")
    assert loaded("acme_shout") is None


def test_an_allowed_plugin_brings_a_model_a_tool_a_kind_and_an_embedder(
    tmp_path: Path, install: Install
) -> None:
    install()

    async def play() -> None:
        with opened(tmp_path, plugins=["acme.shout"]) as kernel:
            assert await asked(kernel) == "HEAR ME"
            async with kernel.run("t") as run:
                assert (await run.step_tool("shout", {"text": "ho"})).unwrap() == "HO"
            chat = await Session.open(kernel, "c", model="acme:x", profile=OperationProfile.parse(PROFILE))
            turn = await chat.generate("hello")
            assert turn.text == "HELLO"
            shown = await chat.show(turn.run_id)
            cry = next(one for one in shown["operations"] if one["operation_id"] == "cry")
            assert cry["status"] == "done"
            assert await chat.art("cry") == "HEAR"
            assert embedder_named("letters").dims == 2

    asyncio.run(play())


def test_a_kernel_that_does_not_name_a_plugin_has_none_of_it_beside_one_that_does(
    tmp_path: Path, install: Install
) -> None:
    install()

    async def play() -> None:
        with (
            Kernel.open(tmp_path / "a.db", environ={}, plugins=["acme-shout"]) as one,
            Kernel.open(
                tmp_path / "b.db", environ={}, models={"m": one.models.resolve("acme:x").port}
            ) as other,
        ):
            assert "shout" in one.services.tools and "shout" not in other.services.tools
            with pytest.raises(UnknownModel):
                other.models.resolve("acme:x")
            chat = await Session.open(other, "c", model="m", profile=OperationProfile.parse(PROFILE))
            turn = await chat.generate("hello")
            cry = next(
                one for one in (await chat.show(turn.run_id))["operations"] if one["operation_id"] == "cry"
            )
            assert (cry["status"], cry.get("code")) == ("error", "unknown_kind")

    asyncio.run(play())


def test_a_run_replays_without_the_plugin_it_was_made_with(tmp_path: Path, install: Install) -> None:
    install()

    async def drive(run: object) -> str:
        messages = [{"role": "user", "content": "hear me"}]
        return (await run.step_model(model="acme:x", messages=messages)).text  # type: ignore[attr-defined]

    async def play() -> None:
        with opened(tmp_path, plugins=["acme-shout"]) as kernel:
            async with kernel.run("r") as run:
                run.finish(await drive(run))
        with opened(tmp_path) as kernel:
            assert (await kernel.for_tenant().replay("r", drive)).result == "HEAR ME"

    asyncio.run(play())


BROKEN = [
    ("it cannot be imported; got RuntimeError: no", {"bad": "bad:it"}, "raise RuntimeError('no')"),
    ("it cannot be imported; got SystemExit: 3", {"bad": "bad:it"}, "raise SystemExit(3)"),
    ("it cannot be imported; got AttributeError", {"bad": "bad:nothing"}, ""),
    ("it cannot be imported; got ModuleNotFoundError", {"bad": "nowhere_at_all:it"}, ""),
    ("'bad' is no tool; expected a function with @tool", {"bad": "bad:it"}, "it = 3"),
    (
        "the tool has another name; expected bad; got 'good'",
        {"bad": "bad:good"},
        "from artelier import tool\n@tool\ndef good() -> str:\n    'Is good.'\n    return ''\n",
    ),
    ("its name is one of Artelier's own", {"read_file": "bad:it"}, "it = 3"),
    (
        "it defines event kinds or views; expected .*got event acme.counted",
        {"bad": "bad:it"},
        "from artelier.log.event import EventData, event\n"
        "@event('acme.counted')\nclass Counted(EventData):\n    pass\nit = 3\n",
    ),
    (
        "it defines event kinds or views; expected .*got view acme",
        {"bad": "bad:it"},
        "from artelier.log import View\nVIEW = View(name='acme', version=1, tables=(), schema=())\nit = 3\n",
    ),
]


@pytest.fixture
def event_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is forgotten after it."""
    module = sys.modules["artelier.log.event"]  # the package exports a function of this name
    for table in ("_registry", "_newest"):
        monkeypatch.setattr(module, table, dict(getattr(module, table)))


@pytest.mark.usefixtures("event_kinds")
@pytest.mark.parametrize(("said", "points", "text"), BROKEN, ids=[one[0][:40] for one in BROKEN])
def test_a_broken_plugin_gives_one_clear_warning_and_nothing_else_stops(
    tmp_path: Path, install: Install, said: str, points: dict[str, str], text: str
) -> None:
    install()
    install("bad-one", {"artelier.tools": points}, {"bad": text})

    with pytest.warns(PluginWarning, match=said) as warned:
        kernel = opened(tmp_path, plugins=["acme-shout", "bad-one"])

    with kernel:
        assert len(warned) == 1
        assert "plugin bad-one" in str(warned[0].message)
        assert "take bad-one out of [plugins] allow" in str(warned[0].message)
        assert set(kernel.services.tools) == {"shout"}
        assert asyncio.run(asked(kernel)) == "HEAR ME"


def test_a_model_that_cannot_be_made_is_an_error_of_the_one_who_asks_for_it(install: Install) -> None:
    from artelier.plugins import Plugins

    text = "def make():\n    raise OSError('no weights')\nitself = 4\n"
    install("bad", {"artelier.models": {"one": "bad:make", "two": "bad:itself"}}, {"bad": text})
    registry = ModelRegistry(environ={}, plugins=Plugins(["bad"]))

    with pytest.raises(PluginBroken, match=r"plugin bad .*it cannot be made; got OSError: no weights"):
        registry.resolve("one:x")
    with pytest.raises(PluginBroken, match="'two' is no model; expected an object with an async complete"):
        registry.resolve("two:x")
    assert registry.resolve("offline").name == "offline"


def test_two_plugins_of_one_name_are_refused_until_one_is_taken_out(tmp_path: Path, install: Install) -> None:
    install()
    install("other", {"artelier.models": {"acme": "acme_shout:Shout"}}, {})

    with opened(tmp_path, plugins=["acme-shout", "other"]) as kernel:
        with pytest.raises(PluginBroken, match=r"2 plugins offer 'acme'.*got acme-shout, other"):
            kernel.models.resolve("acme:x")
    with opened(tmp_path, plugins=["other"]) as kernel:
        assert asyncio.run(asked(kernel)) == "HEAR ME"


def test_a_plugin_never_takes_the_place_of_a_member_or_of_the_programs_own_tool(
    tmp_path: Path, install: Install
) -> None:
    from artelier import tool

    install("thief", {"artelier.models": {"offline": "thief:it"}}, {"thief": "raise RuntimeError"})
    install()

    @tool(side_effect=False, name="shout")
    def mine(text: str) -> str:
        """Say it twice."""
        return text * 2

    with pytest.warns(PluginWarning, match="the program has something of this name itself"):
        kernel = opened(tmp_path, plugins=["thief", "acme-shout"], tools=[mine])
    with kernel:
        assert type(kernel.models.resolve("offline").port).__name__ == "OfflineModel"
        assert kernel.services.tools["shout"] is mine
    assert loaded("thief") is None


def test_a_plugin_that_is_allowed_and_not_installed_is_told_of(tmp_path: Path, install: Install) -> None:
    with pytest.warns(PluginWarning, match="plugin not-there is allowed, but not installed"):
        opened(tmp_path, plugins=["Not_There"]).close()


def test_names_are_a_list(tmp_path: Path) -> None:
    with pytest.raises(ArtelierError, match="expected a list of names of distributions"):
        opened(tmp_path, plugins="acme")


def test_members_of_the_own_wheel_are_found_without_the_index_of_packages() -> None:
    code = (
        "import sys; from artelier.models.registry import ModelRegistry;"
        "print(ModelRegistry(environ={}).resolve('offline').name, 'importlib.metadata' in sys.modules)"
    )

    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ran.stdout.split() == ["offline", "False"]


def test_members_found_by_file_are_those_that_the_installer_registered() -> None:
    mine = {one[:3] for one in installed() if one.distribution == "artelier"}

    assert mine == {one[:3] for one in own_members()}, (
        "the environment is older than pyproject.toml: make setup"
    )


def test_no_warning_without_plugins(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        opened(tmp_path).close()


def test_a_profile_may_name_kinds_of_allowed_plugins(tmp_path: Path, install: Install) -> None:
    install()
    opened(tmp_path, plugins=["acme-shout"]).close()

    assert parse_profile(PROFILE).operations[0].kind == "loud"
    with pytest.raises(InvalidRequest, match=r"there are template, .*transform, loud"):
        parse_profile({**PROFILE, "operations": [{**PROFILE["operations"][0], "kind": "quiet"}]})  # type: ignore[dict-item]


def test_no_plugin_may_have_the_name_of_a_shipped_tool(tmp_path: Path) -> None:
    from artelier.tools import workspace_tools
    from artelier.tools.function import SHIPPED
    from artelier.tools.http_json import NAME
    from artelier.tools.skills.meta_tools import META_NAMES

    assert {*(one.name for one in workspace_tools(tmp_path)), *META_NAMES, NAME} <= SHIPPED
