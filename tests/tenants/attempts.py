"""What one tenant tries to see, fill or name of another's: a list made of all routes and tools.

`python -m tests.tenants.attempts` writes it to `attempts.jsonl`, for people; the tests make it anew, so that
a new route is tried too. `<name>` in an attempt is what the other tenant has; its twin asks for something
that nobody has, and must get the same answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.missions.mission_stage import MISSION
from tests.server.filling import filled
from tests.server.house import openapi

PUBLISHED = Path(__file__).parent / "attempts.jsonl"

OTHER = "default"
"""The tenant that is attacked; `other` attacks."""

DESK = "<desk>"
"""Stands for the real path of the other tenant's folder."""

NAME = "<name>"

DOCUMENT: dict[str, Any] = openapi()

IDS: dict[str, tuple[str, ...]] = {
    "runs": (MISSION, "m1/letter", "asks", "confession/r000001"),
    "artifacts": ("secret", "m1/letter", "uploads/salary.csv", "m1/by-letter/memory", "tasks/own"),
    "sessions": ("confession",),
    "missions": (MISSION,),
    "god-mode": (MISSION,),
    "tasks": ("m1/figures", "tasks/own"),
    "agents": ("m1/by-letter", "ana"),
    "membranes": ("m1/shared",),
    "steering": ("m1/by-letter", "m1/shared"),
    "worlds": ("realm",),
    "memory": ("m1/by-letter",),
    "profiles": ("tavern",),
    "skills": ("pdf",),
    "schedules": ("nightly",),
}
"""What the other tenant has, by resource."""

EVERY_ID = sorted({name for names in IDS.values() for name in names})

STEP = "c1/decision"
PIECES = {"entry": "1", "label": "persona", "change": "1", "tag": "mood"}
QUERY = {"step": STEP, "a": STEP, "b": STEP, "q": "CANARY", "with": "asks", "x": "1", "y": "1"}

OWN_SESSION = ("auth_logout", "auth_login", "auth_choose")
ENDLESS = ("events_stream", "graph_stream_rows", "agui_follow")
"""With a run they end, without one they never do."""

NAMING = frozenset(
    (
        "mission",
        "mission_id",
        "id",
        "agent",
        "artifact",
        "session_id",
        "assigned_agent_id",
        "inputs",
        "depends_on",
        "memory_artifact_id",
        "profile",
        "run_id",
        "prefix",
        "owner",
        "account",
        "branch",
        "world",
        "user",
        "kind",
        "at_turn",
        "new_id",
        "members",
        "lorebooks",
        "derived_from",
        "output",
        "changes",
        "artifacts",
        "to",
        "tools",
        "subject",
        "access",
        "params",
        "metadata",
        "text",
        "with",
    )
)
"""Fields and parameters that may name something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    door: str
    """`http`, `tool`, `mcp` or `program`."""
    call: str
    """Method and path; or the tool, the method of the handle."""
    name: str = ""
    """What of the other tenant it is about; empty if it asks for everything."""
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    must_refuse: bool = True
    """Whether the answer has to be an error. Lists and searches answer, with nothing of the other's."""
    has_twin: bool = True

    @property
    def title(self) -> str:
        return f"{self.door} {self.call} {self.name} {json.dumps(self.arguments)}"


def everything() -> list[Attempt]:
    """The whole list, in the order in which it is played: what makes things of the attacker's comes last."""
    return [*addressed(), *lists(), *asked_by(), *programs(), *mcp(), *workspaces(), *tools(), *named()]


# Routes


def _operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in DOCUMENT["paths"].items():
        for method, spec in methods.items():
            if spec["operationId"] not in OWN_SESSION:
                yield method.upper(), path.removeprefix("/api/v1"), spec


def _address(path: str) -> str:
    pieces = [PIECES.get(piece[1:-1], NAME) if piece.startswith("{") else piece for piece in path.split("/")]
    return "/".join(pieces)


def _asked(spec: dict[str, Any]) -> dict[str, Any]:
    wanted = [one for one in spec.get("parameters", ()) if one["in"] == "query" and one["required"]]
    params = {one["name"]: QUERY.get(one["name"], NAME) for one in wanted}
    if spec["operationId"] == "artifacts_diff":
        params |= {"a": "1", "b": "1"}
    body = filled(spec, DOCUMENT)
    if spec["operationId"] == "artifacts_change":
        body |= {"access": "private"}
    return {"params": params, "json": body}


def addressed() -> Iterator[Attempt]:
    """Every address with an id, about each thing of its resource; and again under the other tenant's name."""
    for method, path, spec in _operations():
        if "{" in path:
            for name in IDS.get(path.split("/")[1], EVERY_ID[:1]):
                yield Attempt(
                    door="http", call=f"{method} {_address(path)}", name=name, arguments=_asked(spec)
                )
        if spec["operationId"] in ("auth_me", "steering_preview", "profiles_validate"):
            continue  # about nobody's things
        name = IDS.get(path.split("/")[1], ("",))[0]
        arguments = {**_asked(spec), "headers": {"X-Artelier-Tenant": NAME}}
        address = _address(path).replace(NAME, name)
        yield Attempt(door="http", call=f"{method} {address}", name=OTHER, arguments=arguments)


def lists() -> Iterator[Attempt]:
    """Everything that may be read without an id, from the beginning and from positions of the other."""
    for method, path, spec in _operations():
        if method != "GET" or "{" in path or spec["operationId"] in ENDLESS:
            continue
        required = [one["name"] for one in spec.get("parameters", ()) if one.get("required")]
        for after in ("", "0", "1", "100", "zzz"):
            names = {one["name"] for one in spec.get("parameters", ())}
            if after and "after" not in names:
                continue
            params = {one: QUERY.get(one, "mine") for one in required} | {"limit": "100"}
            params |= {"after": after} if after else {}
            yield Attempt(
                door="http",
                call=f"GET {path}",
                arguments={"params": params},
                must_refuse=False,
                has_twin=False,
            )


def asked_by() -> Iterator[Attempt]:
    """Each parameter that names something, with the names of the other's things."""
    for method, path, spec in _operations():
        if "{" in path:
            continue
        for one in spec.get("parameters", ()):
            is_endless = spec["operationId"] in ENDLESS and one["name"] != "run_id"
            if one["in"] != "query" or one["name"] not in (NAMING | {"q"}) or is_endless:
                continue
            if spec["operationId"] == "events_stream":
                continue
            for name in ("m1/letter", "realm", "ana", "confession", "secret"):
                asked = _asked(spec)
                asked["params"] |= {one["name"]: NAME}
                yield Attempt(
                    door="http", call=f"{method} {path}", name=name, arguments=asked, must_refuse=False
                )


def _fields(spec: dict[str, Any]) -> dict[str, Any]:
    content = spec.get("requestBody", {}).get("content", {}).get("application/json", {})
    reference = content.get("schema", {}).get("$ref", "").rpartition("/")[2]
    return DOCUMENT["components"]["schemas"].get(reference, {}).get("properties", {})


def _shaped(schema: dict[str, Any]) -> Any:
    kinds = [schema, *schema.get("anyOf", ())]
    if any(one.get("type") == "array" for one in kinds):
        return [NAME]
    if any(one.get("type") == "object" for one in kinds):
        return {NAME: NAME}
    return NAME


def named() -> Iterator[Attempt]:
    """Each field of a body that names something; what it makes is the attacker's own."""
    for method, path, spec in _operations():
        if "{" in path or method == "GET":
            continue
        body = filled(spec, DOCUMENT)
        for name_of_field, schema in _fields(spec).items():
            is_content = (path, name_of_field) == ("/profiles", "profile")
            if name_of_field not in NAMING or is_content or not isinstance(body, dict):
                continue
            for name in ("m1/letter", "ana", "secret@1"):
                asked = {**body, name_of_field: _shaped(schema)}
                yield Attempt(
                    door="http",
                    call=f"{method} {path}",
                    name=name,
                    arguments={"json": asked},
                    must_refuse=False,
                )
    for call, body in (
        ("PATCH /agents/mine", {"memory_artifact_id": NAME}),
        ("POST /membranes/pool/share", {"artifact": NAME}),
        ("POST /membranes/pool/join", {"agent": NAME}),
        ("POST /membranes/pool/unshare", {"artifact": NAME}),
        ("PATCH /sessions/talk", {"profile": NAME}),
        ("PATCH /sessions/talk", {"lorebooks": [NAME]}),
        ("POST /sessions/talk/reset", {"session_id": NAME}),
        ("POST /runs/own/fork", {"changes": {NAME: NAME}, "at": 1}),
        ("POST /runs/own/fork", {"changes": {NAME: "own-note@1"}, "at": 1}),
        ("POST /runs/own/fork", {"changes": {"own-note@1": NAME}, "at": 1}),
        ("POST /runs/own/signal", {"name": NAME}),
        ("GET /runs/own/diff?with=" + NAME, None),
        ("POST /worlds/mine/fork", {"artifacts": {NAME: "x"}}),
        ("POST /worlds/mine/inject", {"text": "x", "to": [NAME]}),
        ("PATCH /tasks/tasks%2Fmine", {"inputs": [NAME]}),
        ("PATCH /tasks/tasks%2Fmine", {"depends_on": [NAME]}),
        ("PATCH /tasks/tasks%2Fmine", {"assigned_agent_id": NAME}),
        ("POST /artifacts/reader/invoke", {"args": {"ref": NAME}}),
        ("GET /agents/mine/next-prompt", None),
    ):
        for name in ("secret", "secret@1", "m1/letter@1", "tavern", "m1/by-letter", "confession"):
            yield Attempt(door="http", call=call, name=name, arguments={"json": body}, must_refuse=False)


WORKSPACES = (
    DESK,
    DESK + "/deep",
    "../" + OTHER,
    "..",
    "/",
    "../../desks/" + OTHER,
    "./../" + OTHER + "/deep",
    "to-default",
    "to-default/deep",
    "/proc/self/cwd",
    "/proc/self/root" + DESK,
    "own/../../" + OTHER,
    "//" + DESK,
    "/etc",
    "~",
    "file://" + DESK,
)


def workspaces() -> Iterator[Attempt]:
    """Every door that takes a workspace, with paths that lead to the other's folder."""
    for place in WORKSPACES:
        for call, body in (
            ("POST /god-mode/plan", {"goal": "g", "model": "m"}),
            ("POST /tasks", {"goal": "g", "success_criteria": "c"}),
            ("POST /schedules", {"id": "theirs", "goal": "g", "every": "1d", "model": "m"}),
            ("PATCH /schedules/mine", {}),
        ):
            yield Attempt(
                door="http", call=call, name=OTHER, arguments={"json": {**body, "workspace": place}}
            )
        yield Attempt(door="mcp", call="start_run", name=OTHER, arguments={"goal": "g", "workspace": place})
        yield Attempt(
            door="program", call="plan", name=OTHER, arguments={"goal": "g", "model": "m", "workspace": place}
        )


# Tools

PATHS = (
    DESK + "/note.txt",
    "../default/note.txt",
    "../../desks/default/note.txt",
    "to-note.txt",
    "to-default/note.txt",
    "to-default/deep/note.txt",
    "chain.txt",
    "relative-note.txt",
    "./../default/note.txt",
    "own/../../default/note.txt",
    "/proc/self/root" + DESK + "/note.txt",
    "/proc/self/cwd/note.txt",
    "root/note.txt",
    "cwd/note.txt",
    "file://" + DESK + "/note.txt",
    "file:note.txt",
    "~/note.txt",
    "%2e%2e%2fdefault%2fnote.txt",
    "..\\default\\note.txt",
    "../default/note.txt\0.txt",
    "\uff0e\uff0e/default/note.txt",
    "....//default/note.txt",
    "//" + DESK + "/note.txt",
    "../default/./note.txt",
    "../default//note.txt",
    ".hidden/note.txt",
)
"""Ways to the other's `note.txt`, from the attacker's folder."""

FOLDERS = ("..", "../default", DESK, "to-default", "to-default/deep", "/", "/proc/self/root", "root", "cwd")

QUERIES = (
    "SELECT * FROM read_csv('{0}')",
    "SELECT * FROM read_text('{0}')",
    "SELECT * FROM read_blob('{0}')",
    "SELECT * FROM read_json('{0}')",
    "SELECT * FROM '{0}'",
    "SELECT * FROM parquet_scan('{0}')",
    "SELECT * FROM sniff_csv('{0}')",
    "SELECT * FROM glob('{0}*')",
    "SELECT * FROM sqlite_scan('{0}', 'pay')",
    "ATTACH '{0}' AS theirs",
    "ATTACH '{0}' AS theirs (TYPE sqlite)",
    "COPY (SELECT 1) TO '{0}'",
    "COPY own FROM '{0}'",
    "CREATE TABLE t AS SELECT * FROM '{0}'",
    "EXPORT DATABASE '{0}.d'",
    "IMPORT DATABASE '{0}'",
    "WITH t AS (SELECT * FROM '{0}') SELECT * FROM t",
    "SELECT (SELECT content FROM read_text('{0}'))",
    "INSTALL '{0}'",
    "LOAD '{0}'",
)
FREE_QUERIES = (
    "SET enable_external_access = true",
    "RESET enable_external_access",
    "PRAGMA database_list",
    "SET file_search_path = '<desk>'",
    "SET home_directory = '<desk>'",
    "SELECT getenv('HOME')",
    "SELECT * FROM duckdb_databases()",
    "SELECT * FROM duckdb_settings()",
    "CALL pragma_version()",
    "SELECT current_setting('file_search_path')",
    "SELECT * FROM read_csv('/proc/self/fd/*')",
    "SELECT * FROM read_text('/proc/self/environ')",
    "SELECT * FROM read_text('/proc/self/maps')",
    "SELECT * FROM glob('/proc/self/fd/*')",
    "SELECT 1; SELECT * FROM read_text('<desk>/note.txt')",
)

SNIPPETS = (
    "open('{0}').read()",
    "import os\nos.listdir('<desk>')",
    "__import__('os').system('cat {0}')",
    "from pathlib import Path\nPath('{0}').read_text()",
    "import io\nio.open('{0}').read()",
    "import subprocess\nsubprocess.run(['cat', '{0}'])",
    "eval(\"open('{0}').read()\")",
    "exec(\"open('{0}').read()\")",
    "import glob\nglob.glob('<desk>/*')",
    "import ctypes",
    "import socket",
    "import sqlite3\nsqlite3.connect('{0}')",
    "import mmap",
    "import importlib",
    "().__class__.__base__.__subclasses__()",
    "import shutil\nshutil.copy('{0}', 'x')",
    "import builtins\nbuiltins.open('{0}')",
    "import sys\nsys.modules['os']",
    "import tempfile",
    "globals()['__builtins__']",
    "import artelier",
    "breakpoint()",
    "input()",
    "compile(\"open('{0}')\", 'x', 'eval')",
    "import urllib.request\nurllib.request.urlopen('file://{0}')",
)


def tools() -> Iterator[Attempt]:
    """Every tool that touches files, by every way that leads out of the attacker's folder."""
    for path in PATHS:
        for tool, more in (("read_file", {}), ("search_text", {"query": "CANARY"}), ("list_dir", {})):
            yield Attempt(door="tool", call=tool, name="note", arguments={"path": path, **more})
    for path in FOLDERS:
        for tool, more in (("list_dir", {"recursive": True}), ("search_text", {"query": "CANARY"})):
            yield Attempt(door="tool", call=tool, name=OTHER, arguments={"path": path, **more})
    for tool, more in (
        ("list_dir", {"path": ".", "recursive": True}),
        ("search_text", {"query": "CANARY"}),
        ("search_text", {"query": "CANARY", "path": "."}),
        ("describe_tables", {}),
    ):
        yield Attempt(door="tool", call=tool, arguments=more, must_refuse=False, has_twin=False)
    for name in ("hard.txt", "hard.csv"):
        yield Attempt(door="tool", call="read_file", arguments={"path": name}, has_twin=False)
    for query in QUERIES:
        for path in (DESK + "/note.txt", "../default/note.txt", "to-note.txt"):
            sql = query.format(path)
            yield Attempt(door="tool", call="query_sql", name="note", arguments={"sql": sql})
    for query in FREE_QUERIES:
        yield Attempt(
            door="tool", call="query_sql", arguments={"sql": query}, must_refuse=False, has_twin=False
        )
    for code in SNIPPETS:
        yield Attempt(
            door="tool",
            call="python",
            name="note",
            must_refuse=False,
            has_twin=False,
            arguments={"code": code.format(DESK + "/note.txt")},
        )
    for path in PATHS:
        yield Attempt(
            door="tool",
            call="write_file",
            name="note",
            arguments={"path": path, "text": "FILLED"},
            has_twin=False,
            must_refuse=path not in WRITES_ELSEWHERE,
        )


WRITES_ELSEWHERE = frozenset(
    (
        "file:note.txt",
        "file://" + DESK + "/note.txt",
        "%2e%2e%2fdefault%2fnote.txt",
        "\uff0e\uff0e/default/note.txt",
        "....//default/note.txt",
    )
)
"""Plain names of files, however they look: they are written in the attacker's own folder."""


# MCP and programs


def mcp() -> Iterator[Attempt]:
    """The tools and resources of an MCP server that acts for the attacker."""
    for name in IDS["runs"]:
        for tool, more in (
            ("run_status", {}),
            ("run_result", {"wait_s": 0}),
            ("cancel_run", {}),
            ("approve_run", {"decision": "approve"}),
            ("signal_run", {"name": "go"}),
        ):
            yield Attempt(door="mcp", call=tool, name=name, arguments={"run_id": NAME, **more})
    yield Attempt(door="mcp", call="list_runs", must_refuse=False, has_twin=False)
    yield Attempt(door="mcp", call="list_resources", must_refuse=False, has_twin=False)
    for name in (*IDS["artifacts"], "secret@1", "tavern", "m1/shared"):
        for uri in (
            f"artelier://artifacts/{NAME}",
            f"artelier://artifacts/default/{NAME}",
            f"artelier://artifacts/..%2Fdefault%2F{NAME}",
        ):
            yield Attempt(door="mcp", call="read_resource", name=name, arguments={"uri": uri})
    for uri in (f"file://{DESK}/note.txt", "artelier://default/artifacts/secret", "artelier://runs/m1"):
        yield Attempt(door="mcp", call="read_resource", arguments={"uri": uri}, has_twin=False)


PROGRAMS = (
    "show",
    "steps",
    "tree",
    "cost",
    "approvals",
    "export",
    "fork",
    "cancel",
    "pause",
    "resume",
    "stop",
    "step",
    "retry",
    "inject",
    "compensate",
    "approve",
    "signal",
    "limit",
    "mission",
    "launch",
    "render",
    "manifest",
    "diff",
    "replay",
    "export_chat",
    "show_agent",
    "compactions",
    "mission_agent",
)


def programs() -> Iterator[Attempt]:
    """The handle of the attacker's tenant in a program that has the kernel."""
    for method in PROGRAMS:
        for name in ("m1/letter", "asks"):
            yield Attempt(door="program", call=method, name=name, must_refuse=method != "approvals")
    for number in range(10):
        yield Attempt(door="program", call="content", name=f"<blob {number}>", has_twin=False)
    for method in ("read", "look", "history", "lineage", "edit", "delete", "transfer", "invoke"):
        for name in ("secret", "secret@1", "uploads/salary.csv"):
            yield Attempt(door="program", call=f"artifacts.{method}", name=name)
    for method in ("search", "list"):
        yield Attempt(door="program", call=f"artifacts.{method}", must_refuse=False, has_twin=False)
    for name in ("realm", "realm.fork-1"):
        for method in ("row", "tick", "fork", "pause"):
            yield Attempt(door="program", call=f"world.{method}", name=name)
    for name in ("m1/by-letter", "ana"):
        yield Attempt(door="program", call="memory", name=name, must_refuse=False)
    for name in ("secret@1", "m1/letter@1"):
        yield Attempt(door="program", call="fork_with", name=name)
        yield Attempt(door="program", call="adopt", name=name)


def publish() -> None:
    lines = [json.dumps(asdict(one), ensure_ascii=True, sort_keys=True) for one in everything()]
    PUBLISHED.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(lines)} attempts in {PUBLISHED.name}")  # noqa: T201 - what it is for


if __name__ == "__main__":
    publish()
