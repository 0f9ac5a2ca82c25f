"""Documents that are interpreted: profiles, lorebooks, world files, imported chats."""

from __future__ import annotations

import json
from collections.abc import Awaitable
from typing import Any

from artelier_lab.availability.client import Answer
from artelier_lab.availability.inputs.builders import MIB, Body, counted, many, posting
from artelier_lab.availability.scene import Input, Scene

ENDLESS = "{% for a in (1..100000) %}{% for b in (1..100000) %}x{% endfor %}{% endfor %}"


def _profile(template: str, *, count: int = 1, steps: list[Any] | None = None) -> dict[str, Any]:
    kind, params = "template", dict[str, Any](template=template, effects=[])
    if steps is not None:
        kind, params = "transform", {"input": "text", "steps": steps, "effects": []}
    operations = [
        {
            "operation_id": f"op{number}",
            "kind": kind,
            "hooks": ["after_main_llm"],
            "order": 1,
            "params": params,
        }
        for number in range(count)
    ]
    return {"profile_id": "trial", "operations": operations}


def _checked(profile: Any) -> Body:
    content = json.dumps({"profile": profile}).encode()
    return lambda id: content


def _validated(name: str, profile: Any) -> Input:
    return posting(f"profile-{name}", "/profiles/validate", _checked(profile), _checked(_profile("Hello.")))


def _stored(count: int, waits: int) -> Body:
    """An artifact of operations that wait for those before them, each of which shows the value of one."""
    profile = _profile("x", count=count)
    for number, one in enumerate(profile["operations"][1:], start=1):
        one["depends_on"] = [f"op{before}" for before in range(max(0, number - waits), number)]
        one["params"] = {"template": f"{{{{ deps.op{number - 1} }}}}", "effects": []}
    secret = {"type": "artifact.upsert", "tag": "secret", "usage": "internal"}
    profile["operations"][0]["params"] = {"template": "x", "effects": [secret]}
    profile["operations"].reverse()
    return lambda id: json.dumps({"id": f"docs/{id}", "kind": "profile", "content": profile}).encode()


async def _turn(scene: Scene, template: str) -> Answer:
    profile = {**_profile(template), "profile_id": scene.name}
    saved = await scene.attacker.post("/profiles", {"profile": profile})
    if not saved.is_good:
        return saved
    chat = {"id": scene.name, "model": "reply:decent", "profile": scene.name}
    await scene.attacker.post("/sessions", chat)
    return await scene.attacker.post(f"/sessions/{scene.name}/turns", {"text": "We ride north."})


async def _endless_template(scene: Scene) -> str:
    return counted([await _turn(scene, ENDLESS)])


async def _short_template(scene: Scene) -> bool:
    return (await _turn(scene, "{% for a in (1..3) %}x{% endfor %}")).is_good


async def _lore(scene: Scene, keys: list[str], said: str) -> Answer:
    entries = [
        {"id": f"e{number}", "keys": [key], "content": "The north is cold."}
        for number, key in enumerate(keys)
    ]
    book = {"id": f"books/{scene.name}", "kind": "lorebook", "content": {"entries": entries}}
    await scene.attacker.post("/artifacts", book)
    chat = {"id": scene.name, "model": "reply:decent", "lorebooks": [book["id"]]}
    opened = await scene.attacker.post("/sessions", chat)
    if not opened.is_good:
        return opened
    return await scene.attacker.post(f"/sessions/{scene.name}/turns", {"text": said})


async def _hostile_lore(scene: Scene) -> str:
    return counted([await _lore(scene, ["/(a+)+b/", "/(a*)*c/"] * 20, "a" * 5_000)])


async def _large_lore(scene: Scene) -> str:
    return counted([await _lore(scene, [f"/key{n}.*x/" for n in range(4_000)], "key " * 20_000)])


async def _decent_lore(scene: Scene) -> bool:
    return (await _lore(scene, ["north"], "We ride north.")).is_good


def _world(toml: str) -> Body:
    return lambda id: json.dumps({"id": id, "toml": toml}).encode()


async def _tell(scene: Scene, *, agents: int, names: int) -> list[Answer]:
    """Make a world and tell its agents something, each as often as it takes to name so many."""
    idle = {"agents": [{"id": "idle_{n}", "count": agents, "policy": "nobody"}], "settle": False}
    told = {"text": "The mill burns.", "to": [f"idle_{n % agents + 1}" for n in range(names)]}
    made = await scene.attacker.post("/worlds", {"id": scene.name, "world": idle}, within_s=60.0)
    return [made, await scene.attacker.post(f"/worlds/{scene.name}/inject", told, within_s=60.0)]


async def _tell_names(scene: Scene) -> str:
    return counted(await _tell(scene, agents=900, names=10_000))


async def _tell_each(scene: Scene) -> bool:
    return all(answer.is_good for answer in await _tell(scene, agents=3, names=3))


async def _import(scene: Scene, content: list[bytes]) -> Answer:
    return await scene.attacker.post(
        "/sessions/import",
        chunks=content,
        size_bytes=sum(map(len, content)),
        within_s=60.0,
        headers={"Content-Type": "application/octet-stream"},
    )


async def _import_digits(scene: Scene) -> str:
    return counted([await _import(scene, [b"4" * MIB] * 63)])


async def _export_and_import(scene: Scene) -> bool:
    """A chat that was exported is read; that it is there already is a clear answer."""
    await scene.attacker.post("/sessions", {"id": scene.name, "model": "reply:decent"})
    file = await scene.attacker.get(f"/sessions/{scene.name}/export")
    return file.is_good and (await _import(scene, [file.body])).status in (200, 201, 409)


async def _listed(scene: Scene, template: str) -> list[Answer]:
    """Save a dozen profiles, and list them again and again."""

    def save(number: int) -> Awaitable[Answer]:
        profile = {**_profile(template), "profile_id": f"{scene.name}-{number}"}
        return scene.attacker.post("/profiles", {"profile": profile}, within_s=60.0)

    saved = await many(12, save, at_once=2)
    return saved + await many(
        12, lambda _: scene.attacker.get("/profiles?limit=500", within_s=60.0), at_once=4
    )


async def _list_large(scene: Scene) -> str:
    return counted(await _listed(scene, "{% if a %}x{% endif %}" * 2_500))


async def _list_small(scene: Scene) -> bool:
    return all(answer.is_good for answer in await _listed(scene, "Hello."))


_STEPS = [{"op": "regex", "pattern": "(a+)+b", "replacement": ""}] * 50
_DOTS = f"a{'.a' * 400_000} = 1"
"""A key of so many parts takes the parser of TOML half an hour."""
_DOTS_OF_LINES = "".join(f"k{n}{'.a' * 999} = 1\n" for n in range(480))
"""Keys that took the parser two gigabytes together."""
_WORLD = "[world]\nseed = 7\n"
_TABLES = "".join(f"[a{n}]\nb = {n}\n" for n in range(30_000))

INPUTS = (
    _validated("many-operations", _profile("x", count=5_000)),
    _validated("deep-template", _profile("{% if a %}" * 20_000)),
    _validated("patterns", _profile("", steps=_STEPS)),
    posting("profile-waits", "/artifacts", _stored(500, 95), _stored(3, 2)),
    Input(name="profiles-listed", attack=_list_large, twin=_list_small),
    Input(name="template-endless", attack=_endless_template, twin=_short_template),
    Input(name="lorebook-patterns", attack=_hostile_lore, twin=_decent_lore),
    Input(name="lorebook-large", attack=_large_lore, twin=_decent_lore),
    posting("world-file-deep", "/worlds", _world("a = " + "[" * 100_000), _world(_WORLD)),
    posting("world-file-wide", "/worlds", _world(_TABLES), _world(_WORLD)),
    posting("world-file-dots", "/worlds", _world(_DOTS), _world(_WORLD)),
    posting("world-file-dots-of-lines", "/worlds", _world(_DOTS_OF_LINES), _world(_WORLD)),
    Input(name="world-told-10000", attack=_tell_names, twin=_tell_each),
    Input(name="chat-import", attack=_import_digits, twin=_export_and_import),
)
