"""`artelier profile`: what is checked, shown, stored and written, with every mistake by its place."""

from __future__ import annotations

import json
from typing import Any

from artelier.operations import OperationProfile
from artelier.operations.profile.store import SHIPPED, shipped_text
from tests.cli.conftest import Shell


def odd(shell: Shell, **changes: Any) -> str:
    """A file with a changed rp-basic."""
    shell.write("odd.json", json.dumps({**json.loads(shipped_text("rp-basic")), **changes}))
    return "odd.json"


def two_mistakes(shell: Shell) -> str:
    data = json.loads(shipped_text("rp-basic"))
    data["operations"][1]["order"] = "first"
    data["operations"][2]["depends_on"] = ["nobody"]
    shell.write("broken.json", json.dumps(data))
    return "broken.json"


def test_shipped_profiles_are_listed_shown_and_valid_without_a_database(shell: Shell) -> None:
    listed = shell("profile", "list", "--json").json["items"]

    assert [(one["profile_id"], one["from"]) for one in listed] == [(name, "shipped") for name in SHIPPED]
    for name in SHIPPED:
        assert shell("profile", "validate", "--profile", name).code == 0
        assert name in shell("profile", "list").out
    assert not (shell.folder / ".artelier").exists()


def test_show_has_operations_in_order_of_commit_with_what_they_write(shell: Shell) -> None:
    lines = shell("profile", "show", "rp-basic").out.splitlines()

    order = [
        next(at for at, line in enumerate(lines) if name in line)
        for name in ("combat_guard ", "dice ", "lore ", "world_state ", "combat_log ")
    ]
    assert order == sorted(order)
    assert "after combat_guard; if combat_guard.combat" in lines[order[1]]
    assert "writes art.dice (ui_only, this run only)" in lines[order[1]]
    assert "appends to art.combat_log (ui_only)" in lines[order[4]]
    assert any(line.split()[:2] == ["art.world_state", "depth(2)"] for line in lines)
    shown = shell("profile", "show", "rp-basic", "--json").json
    assert shown == {"from": "shipped", "profile": OperationProfile.shipped("rp-basic").data()}


def test_every_mistake_is_printed_with_its_path(shell: Shell) -> None:
    file = two_mistakes(shell)

    said = shell("profile", "validate", file)
    told = shell("profile", "validate", file, "--json")

    assert said.code == told.code == 2
    assert "operations[1].order" in said.out and "order_not_numeric" in said.out
    assert "operations[2].depends_on[0]" in said.out and "unknown_dependency" in said.out
    assert "2 mistakes" in said.err
    assert told.json["valid"] is False
    assert [one["code"] for one in told.json["errors"]] == ["order_not_numeric", "unknown_dependency"]


def test_profile_with_a_mistake_is_not_stored(shell: Shell) -> None:
    file = two_mistakes(shell)

    said = shell("profile", "import", file)
    told = shell("profile", "import", file, "--json")

    assert said.code == told.code == 2
    assert "operations[2].depends_on[0]" in said.out
    assert told.error["code"] == "invalid_profile"
    assert len(told.error["errors"]) == 2
    assert not (shell.folder / ".artelier").exists()


def test_exported_profile_is_changed_and_imported_as_new_versions(shell: Shell) -> None:
    assert shell("profile", "export", "rp-basic", "mine.json").code == 0
    assert shell("profile", "import", "mine.json").out == "rp-basic@1\n"
    assert shell("profile", "import", "mine.json", "--json").json["ref"] == "rp-basic@1"

    assert shell("profile", "import", odd(shell, name="Mine")).out == "rp-basic@2\n"

    assert shell("profile", "show", "rp-basic", "--json").json["profile"]["name"] == "Mine"
    assert shell("profile", "show", "rp-basic@1", "--json").json["from"] == "rp-basic@1"
    assert json.loads(shell("profile", "export", "rp-basic@1").out) == json.loads(
        (shell.folder / "mine.json").read_text("utf-8")
    )
    listed = shell("profile", "list", "--json").json["items"]
    assert [one["from"] for one in listed] == ["shipped"] * 3 + ["rp-basic@2"]
    assert shell("profile", "show", "support-desk", "--json").json["from"] == "shipped"


def test_tenants_do_not_see_each_others_profiles(shell: Shell) -> None:
    shell("--tenant", "acme", "profile", "import", odd(shell, profile_id="ours"))

    assert shell("--tenant", "acme", "profile", "show", "ours").code == 0
    assert shell("profile", "show", "ours").code == 6
    assert "ours" not in shell("profile", "list").out


def test_wrong_arguments_are_told(shell: Shell) -> None:
    shell.write("binary.json", "\x00\x01")
    unknown = shell("profile", "show", "nothing", "--json")

    assert unknown.code == 6
    assert "rp-basic" in json.dumps(unknown.error)
    assert shell("profile", "validate").code == 2
    assert shell("profile", "validate", "a.json", "--profile", "rp-basic").code == 2
    assert shell("profile", "validate", "nowhere.json").code == 6
    assert shell("profile", "validate", ".").code == 2
    assert shell("profile", "validate", "binary.json").code == 2
    assert shell("profile", "export", "rp-basic", "no/folder/x.json").code == 2
    assert shell("profile", "show", "rp basic").code in (2, 6)


def test_nothing_reaches_the_terminal_unescaped(shell: Shell) -> None:
    shell("profile", "import", odd(shell, name="\x1b[2Jgone", description="\u202ereversed"))

    assert "\x1b" not in shell("profile", "list").out
    shown = shell("profile", "show", "rp-basic").out
    assert "\x1b" not in shown and "\u202e" not in shown
