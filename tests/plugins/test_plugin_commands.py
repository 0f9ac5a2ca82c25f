"""Commands of plugins: found for an unknown name, listed without an import, refused if not allowed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.cli.conftest import Shell
from tests.plugins.conftest import Install, loaded

ALLOW = '[plugins]\nallow = ["acme-shout"]\n'


def test_an_allowed_command_runs_and_is_listed_without_being_imported(shell: Shell, install: Install) -> None:
    install()
    shell.write("artelier.toml", ALLOW)

    listed = shell("--help")

    assert "Commands of plugins:\n  shout  Says things loudly.\n" in listed.out
    assert loaded("acme_shout") is None
    assert shell("shout", "hear").out == "HEAR\n"


def test_a_command_that_is_not_allowed_says_what_to_write(shell: Shell, install: Install) -> None:
    install()

    ran = shell("shout", "hear")

    assert ran.code != 0
    assert 'Write [plugins] allow = ["acme-shout"] into artelier.toml.' in ran.err
    assert "shout" not in shell("--help").out
    assert loaded("acme_shout") is None


def test_an_importer_of_a_plugin_is_a_command_of_migrate(shell: Shell, install: Install) -> None:
    text = "from artelier_migrate import read_agents\n"
    text += "def read(folder, *, include_disabled):\n    return read_agents(folder / 'agents')\n"
    install("acme-import", {"artelier.importers": {"acme": "acme_import:read"}}, {"acme_import": text})
    shell.write("old/agents/ada/agent.yaml", "id: ada\n")

    refused = shell("migrate", "acme", "old")
    shell.write("artelier.toml", '[plugins]\nallow = ["acme-import"]\n')
    ran = shell("migrate", "acme", "old", "--json")

    assert "No such command 'acme'" in refused.err
    assert [one["folder"] for one in ran.json["items"]] == ["ada"]
    assert shell("migrate", "other", "old").code == 2


def test_an_unknown_command_is_a_mistake_as_ever(shell: Shell, install: Install) -> None:
    ran = shell("shuot")

    assert ran.code == 2
    assert "No such command 'shuot'" in ran.err


def test_a_broken_command_is_one_sentence_and_the_rest_goes_on(shell: Shell, install: Install) -> None:
    install(modules={"acme_shout": "import nothing_like_this"})
    shell.write("artelier.toml", ALLOW)

    ran = shell("shout", "hear", "--json")

    assert ran.code != 0
    assert "plugin acme-shout (artelier.commands: shout): it cannot be imported" in ran.error["message"]
    assert shell("--help").code == 0
    assert shell("do", "How many rows are there?", "--workspace", ".", "--json").code in (0, 1)


def test_a_command_cannot_have_a_name_of_artelier(shell: Shell, install: Install) -> None:
    install(points={"artelier.commands": {"runs": "acme_shout:app", "shout": "acme_shout:SHOUT"}})
    shell.write("artelier.toml", ALLOW)

    assert "runs" not in shell("--help").out.partition("Commands of plugins")[2]
    assert loaded("acme_shout") is None
    assert shell("runs", "--help").out.startswith("Usage: artelier runs")


def test_the_list_comes_from_a_cache_until_something_is_installed(shell: Shell, install: Install) -> None:
    install()
    shell.write("artelier.toml", ALLOW)
    site = Path(sys.path[0])
    old = 1_000_000_000
    os.utime(site, (old, old))  # a folder that has just changed is not trusted
    code = "import sys; from artelier.cli import main; main(['--help']);"
    code += "print('importlib.metadata' in sys.modules, file=sys.stderr)"
    environ = {**os.environ, "PYTHONPATH": str(site)}

    def listed() -> tuple[bool, str]:
        ran = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environ,
            cwd=shell.folder,
        )  # fmt: skip
        return "shout  Says" in ran.stdout, ran.stderr.strip()

    first, second = listed(), listed()
    install("more", {"artelier.commands": {"whisper": "acme_shout:app"}}, {})

    assert first == (True, "True")
    assert second == (True, "False")
    assert listed() == (True, "True")


def test_help_reads_no_entry_points_where_nothing_is_allowed(shell: Shell) -> None:
    code = "import sys; from artelier.cli import main; main(['--help']);"
    code += "print('importlib.metadata' in sys.modules, file=sys.stderr)"

    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=shell.folder)

    assert ran.stderr.strip() == "False"


def test_doctor_tells_installed_from_allowed_from_broken(shell: Shell, install: Install) -> None:
    install()
    install("idle", {"artelier.tools": {"idle": "idle:it"}}, {"idle": "raise RuntimeError('never')"})
    install("bad", {"artelier.models": {"bad": "bad:it"}}, {"bad": "it = 1"})
    shell.write("artelier.toml", '[plugins]\nallow = ["acme-shout", "bad", "gone"]\n')

    ran = shell("doctor", "--port", "0", "--json")

    lines = {one["said"]: one["status"] for one in ran.json["findings"] if one["what"] == "plugin"}
    said = {text.split(" ", 2)[0] + ":" + status: text for text, status in lines.items()}
    assert "commands shout, embedders letters, models acme" in said["acme-shout:ok"]
    assert 'installed, not allowed: [plugins] allow = ["idle"]' in said["idle:note"]
    assert "allowed, broken: plugin bad (artelier.models: bad): 'bad' is no model" in said["bad:wrong"]
    assert "plugin gone is allowed, but not installed" in said["plugin:wrong"]
    assert ran.code == 1
    assert loaded("idle") is None


def test_settings_name_the_plugins_of_every_command(shell: Shell, install: Install) -> None:
    install()
    shell.write("artelier.toml", ALLOW + '[model]\ndefault = "acme:x"\n')
    operation = {"operation_id": "cry", "kind": "loud", "order": 1, "params": {"text": "a"}}
    shell.write("profile.json", json.dumps({"profile_id": "p", "operations": [operation]}))

    assert shell("profile", "validate", "profile.json").code == 0
    assert {"what": "model", "status": "ok", "said": "acme:x"} in shell("doctor", "--json").json["findings"]
    shell.write("artelier.toml", "[plugins]\nalow = []\n")
    assert "unknown key plugins.alow" in shell("runs", "list").err
