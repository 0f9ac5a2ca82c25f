"""Profiles of TaleSpinner: opened, refused as there, and executed with the same effects."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from artelier import Session
from artelier.chat.turn.main_call import STEP
from artelier.errors import InvalidImport
from artelier.operations.lore.untrusted_files import FileProblems
from artelier.operations.profile.definition import Activation
from artelier.operations.profile.draft_parser import InvalidProfile
from artelier.operations.profile.operation_profile import OperationProfile, mistakes_in
from artelier.operations.profile.talespinner import own_template, read_talespinner
from tests.operations.chats import kernel_of, opened, play

BEFORE = ["before_main_llm"]


def artifact(tag: str, *exposures: dict[str, Any], **more: Any) -> dict[str, Any]:
    given = {
        "tag": tag,
        "title": tag,
        "format": "markdown",
        "persistence": "run_only",
        "writeMode": "replace",
    }
    return {**given, "history": {"enabled": True, "maxItems": 20}, "exposures": [*exposures], **more}


def operation(op: str, order: float, *, template: str = "x", **config: Any) -> dict[str, Any]:
    tag = f"tag_{op}"
    given = {"enabled": True, "required": False, "hooks": BEFORE, "order": order}
    params = config.pop("params", {"template": template})
    made = {"params": {"artifact": artifact(tag), **params}}
    return {
        "opId": op,
        "name": op,
        "kind": config.pop("kind", "template"),
        "config": {**given, **made, **config},
    }


def shown(op: str, order: float, template: str, *exposures: dict[str, Any], **more: Any) -> dict[str, Any]:
    written = artifact(f"tag_{op}", *exposures) | more.pop("artifact", {})
    return operation(op, order, params={"template": template, "artifact": written}, **more)


def guard(op: str, order: float, template: str, *keys: str) -> dict[str, Any]:
    contract = [{"key": key, "title": key} for key in keys]
    return operation(
        op, order, kind="guard", params={"engine": "liquid", "outputContract": contract, "template": template}
    )


def bundle(*operations: dict[str, Any], **profile: Any) -> bytes:
    given = {
        "profileId": "p-1",
        "name": "P",
        "enabled": True,
        "executionMode": "sequential",
        "operationProfileSessionId": "s-1",
        "blockRefs": [{"blockId": "b", "enabled": True, "order": 0}],
        **profile,
    }
    block = {"blockId": "b", "name": "B", "enabled": True, "operations": [*operations]}
    file = {"type": "operation_profile_bundle", "version": 2, "profile": given, "blocks": [block]}
    return json.dumps(file).encode()


def parsed(data: bytes) -> OperationProfile:
    return OperationProfile.parse(read_talespinner(data).data)


def test_a_bundle_is_a_profile() -> None:
    profile = parsed(bundle(operation("a", 10), operation("b", 20, dependsOn=["a", "a"]), description=None))

    assert (profile.profile_id, profile.name, profile.execution_mode) == ("p-1", "P", "sequential")
    assert profile.session_id == "s-1"
    assert [(one.operation_id, one.order, one.depends_on) for one in profile.operations] == [
        ("a", 10, ()),
        ("b", 20, ("a",)),
    ]


def test_a_block_that_is_off_switches_its_operations_off() -> None:
    profile = parsed(bundle(operation("a", 1), blockRefs=[{"blockId": "b", "enabled": False, "order": 0}]))

    assert not profile.operations[0].enabled


def test_a_general_bundle_and_an_older_profile_are_read() -> None:
    block = {"name": "B", "enabled": True, "operations": [operation("a", 1)]}
    refs = [{"resourceId": "block:b", "enabled": True, "order": 0}]
    general = {
        "type": "talespinner.bundle",
        "version": 1,
        "resources": [
            {"resourceId": "block:b", "kind": "operation_block", "payload": block},
            {
                "resourceId": "profile:h",
                "kind": "operation_profile",
                "payload": {"name": "H", "blockRefs": refs},
            },
            {"resourceId": "preset:c", "kind": "sampler_preset", "title": "Calm", "payload": {}},
        ],
    }
    output = {
        "type": "prompt_time",
        "promptTime": {"kind": "insert_at_depth", "depthFromEnd": -2.7, "role": "developer"},
    }
    config = {"hooks": BEFORE, "order": 1, "params": {"template": "x", "output": output}}
    older = {
        "profileId": "o",
        "executionMode": "concurrent",
        "operations": [{"opId": "w", "name": "Night Watch!", "kind": "template", "config": config}],
    }

    found = read_talespinner(json.dumps(general).encode())
    aged = parsed(json.dumps(older).encode())

    assert (found.data["profile_id"], found.warnings) == ("profile-h", ("left out: sampler_preset Calm",))
    assert OperationProfile.parse(found.data).operations[0].operation_id == "a"
    effect, written = aged.operations[0].effects
    assert effect.model_dump(exclude_none=True) == {
        "type": "prompt.insert_at_depth",
        "role": "system",
        "depth_from_end": 2,
    }
    assert aged.operations[0].artifact is written and list(aged.artifacts()) == ["night_watch"]


CIRCLE = bundle(operation("a", 1, dependsOn=["b"]), operation("b", 2, dependsOn=["a"]))
REFUSED: dict[str, tuple[bytes, str]] = {
    "no object": (b"[]", "an object"),
    "something else": (b'{"entries": {}}', "operation_profile_bundle"),
    "a block that is not there": (bundle(blockRefs=[{"blockId": "x"}]), "no block is called x"),
    "an interval of nothing": (bundle(operation("a", 1, activation={})), "at least one interval"),
    "a tag with a dot": (bundle(shown("a", 1, "x", artifact={"tag": "a.b"})), "tag"),
    "a kind that is none": (bundle(operation("a", 1, kind="legacy")), "expected one of template"),
    "an exposure that is none": (bundle(shown("a", 1, "x", {"type": "nowhere"})), "unknown"),
    "a role that is none": (bundle(shown("a", 1, "x", {"type": "prompt_part", "role": "pope"})), "role"),
}


@pytest.mark.parametrize(("data", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_a_file_that_is_no_profile_is_refused_with_the_place(data: bytes, said: str) -> None:
    with pytest.raises(InvalidImport, match=said):
        parsed(data)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (CIRCLE, "cycle"),
        (bundle(operation("a", 1, dependsOn=["z"])), "unknown_dependency"),
        (bundle(guard("a", 1, "{}", "IsRaining")), "string_pattern_mismatch"),
        (bundle(guard("a", 1, "{}")), "too_short"),
        (
            bundle(shown("a", 1, "x", {"type": "prompt_part", "mode": "append"}, hooks=["after_main_llm"])),
            "prompt_effect_after_main_llm",
        ),
    ],
)
def test_a_wrong_profile_has_the_mistakes_of_any_other(data: bytes, code: str) -> None:
    found = mistakes_in(read_talespinner(data).data)

    assert code in {one["code"] for one in found}


def test_a_kind_that_is_not_followed_is_switched_off_and_the_rest_stays() -> None:
    search = operation("k", 1, kind="knowledge_search", params={"params": {"source": {"mode": "inline"}}})

    found = read_talespinner(bundle(search, operation("a", 2)))
    profile = OperationProfile.parse(found.data)

    assert [(one.operation_id, one.enabled) for one in profile.operations] == [("k", False), ("a", True)]
    assert "knowledge_search is not followed here" in found.warnings[0]


def test_a_question_for_a_model_keeps_its_form_and_names_what_is_of_another_machine() -> None:
    asked = {
        "params": {
            "providerId": "openrouter",
            "credentialRef": "mine",
            "model": "sample/model-1",
            "prompt": "Sum up:\n{{ recentMessagesText(4) }}",
            "outputMode": "json",
            "jsonSchema": {"summary": "string: one line", "mood?": "string", "people": ["string: a name"]},
            "samplers": {"temperature": 0.2, "topP": 0.9, "maxTokens": 200, "topK": 20, "dry": 1},
            "timeoutMs": 20_000,
            "retry": {"maxAttempts": 3},
        }
    }

    found = read_talespinner(bundle(operation("m", 1, kind="llm", params=asked)))
    params = OperationProfile.parse(found.data).operations[0].params

    assert (params.model, params.temperature, params.top_p, params.max_output_tokens) == (None, 0.2, 0.9, 200)
    assert (params.timeout_s, params.retries, params.output) == (20.0, 2, "json")
    assert "last: 4" in params.prompt
    schema = found.data["operations"][0]["params"]["schema"]
    assert (schema["required"], schema["properties"]["mood"]) == (["summary", "people"], {"type": "string"})
    assert schema["properties"]["people"]["items"] == {"type": "string", "description": "a name"}
    machine, samplers = found.warnings
    assert "providerId, credentialRef, model: not here" in machine
    assert params.top_k == 20
    assert samplers.endswith("samplers: not followed: dry")


# Executed


async def prompts(tmp_path: Path, data: bytes, *said: str) -> list[list[tuple[str, str]]]:
    """The prompts of a chat with this profile, turn by turn."""
    found: list[list[tuple[str, str]]] = []
    with opened(tmp_path) as kernel:
        profile = parsed(data)
        ref = await profile.save(kernel.for_tenant())
        session = await Session.open(kernel, "c", model="m", system="Base.", profile=ref)
        for text in said:
            result = await session.generate(text)
            assert result.status == "completed", result.failed
            request = await kernel_of(session).render(result.run_id, STEP)
            found.append([(one.role, one.text) for one in request.messages])
    return found


def at(anchor: str, role: str = "system", depth: int | None = None) -> dict[str, Any]:
    more = {} if depth is None else {"depthFromEnd": depth}
    return {"type": "prompt_message", "role": role, "anchor": anchor, **more}


def test_effects_stand_where_they_stood(tmp_path: Path) -> None:
    data = bundle(
        shown("a", 10, "[P]", {"type": "prompt_part", "target": "system", "mode": "prepend"}),
        shown("b", 20, "[A]", {"type": "prompt_part", "target": "system", "mode": "append"}),
        shown("c", 30, "(after user)", at("after_last_user", "assistant")),
        shown("d", 40, "(depth 0)", at("depth_from_end", depth=0)),
        shown("e", 50, "(depth 2)", at("depth_from_end", "user", 2)),
        shown("f", 60, "(depth 99)", at("depth_from_end", "developer", 99)),
    )

    *_, last = play(prompts(tmp_path, data, "One.", "Three."))

    assert last[0][1].replace("\n", "") == "[P]Base.[A]"
    assert last[1:] == [
        ("system", "(depth 99)"),
        ("user", "One."),
        ("user", "(depth 2)"),  # of the conversation: what other operations put in does not count
        ("assistant", "re: One."),
        ("user", "Three."),
        ("assistant", "(after user)"),
        ("system", "(depth 0)"),
    ]
    assert [note.partition(":")[0] for note in read_talespinner(data).warnings] == ["depthFromEnd"]


def test_a_guard_in_camel_case_decides_and_sees_the_newest_words(tmp_path: Path) -> None:
    template = (
        "{% assign t = lastUserMessage | downcase %}"
        '{"isNight": {% if t contains "night" %}true{% else %}false{% endif %}}'
    )
    condition = {"type": "guard_output", "sourceOpId": "g", "outputKey": "isNight", "operator": "is_true"}
    data = bundle(
        guard("g", 5, template, "isNight"),
        shown("dark", 20, "It is dark.", at("after_last_user"), dependsOn=["g"], runConditions=[condition]),
    )

    by_day, by_night = play(prompts(tmp_path, data, "A walk.", "A walk at night."))

    assert ("system", "It is dark.") not in by_day
    assert by_night[-1] == ("system", "It is dark.")


def test_history_prints_values_the_oldest_first_and_no_more_than_it_keeps(tmp_path: Path) -> None:
    kept = {"persistence": "persisted", "history": {"enabled": True, "maxItems": 3}}
    recall = '{% for h in art.tag_log.history %}[{{ h }}]{% endfor %} Now: {{ artByOpId["log"].value }}'
    data = bundle(
        shown("log", 10, "Said: {{ lastUserMessage }}", artifact=kept),
        shown("recall", 20, recall, at("depth_from_end", depth=1), dependsOn=["log"]),
    )

    *_, last = play(prompts(tmp_path, data, "first", "second", "third", "fourth"))

    (recalled,) = [text for role, text in last if role == "system" and text.startswith("[")]
    assert recalled == "[Said: second][Said: third][Said: fourth] Now: Said: fourth"
    assert not any("## tag_log" in text for _, text in last)


@pytest.mark.parametrize(
    ("match", "turns", "tokens", "expected"),
    [
        ("any", 4, 0, True),
        ("any", 1, 3_000, True),
        ("any", 3, 2_999, False),
        ("all", 4, 2_999, False),
        ("all", 4, 3_000, True),
    ],
)
def test_thresholds_are_joined_as_the_profile_says(
    match: Any, turns: int, tokens: int, expected: bool
) -> None:
    due = Activation(every_n_turns=4, every_n_context_tokens=3_000, match=match)

    assert due.is_due(turns=turns, tokens=tokens) is expected


def test_either_threshold_of_a_bundle_is_enough() -> None:
    due = {"everyNTurns": 4, "everyNContextTokens": 3_000}

    assert parsed(bundle(operation("a", 1, activation=due))).operations[0].activation == Activation(
        every_n_turns=4, every_n_context_tokens=3_000, match="any"
    )


@pytest.mark.parametrize("piece", ["{{", "{%", "{{ ", "{{ art.a.history ", "{{ x }} {% "])
def test_a_template_of_open_tags_is_read_in_its_length(piece: str) -> None:
    text = piece * (200_000 // len(piece))

    assert own_template(text, {}, "t", FileProblems()).count("{") == text.count("{")


def test_an_open_tag_is_text_and_the_others_are_read() -> None:
    made = own_template(
        "{% lastUserMessage {{ lastUserMessage }} {{ lastUserMessage", {}, "t", FileProblems()
    )

    assert made == "{% lastUserMessage {{ text }} {{ lastUserMessage"


# Files of others, where there are some


FOLDER = Path(os.environ.get("ARTELIER_FOREIGN_FILES", "no such folder"))
ORACLE = FOLDER.parent / "talespinner" / "oracle-dev.json"
"""Verdicts of TaleSpinner's own validators."""


def _files(path: Path, *keys: str) -> Any:
    found: Any = json.loads(path.read_bytes()) if path.exists() else {}
    for key in keys:
        found = found.get(key, {})
    return found


BUNDLES = {
    name: wanted
    for name, wanted in _files(FOLDER / "expected.json", "files").items()
    if name.startswith("bundles/")
}
BLOCKS = {one["name"]: one for one in _files(ORACLE, "blockValidation")}


@pytest.mark.skipif(not BLOCKS, reason="needs ARTELIER_FOREIGN_FILES")
@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_has_the_verdict_that_it_had(name: str) -> None:
    block = BLOCKS[name]["input"]
    ref = {"blockId": "b", "enabled": True, "order": 0}
    profile = {"profileId": "p", "name": "P", "enabled": True, "executionMode": "sequential"}
    file = {
        "type": "operation_profile_bundle",
        "version": 2,
        "profile": {**profile, "operationProfileSessionId": "s", "blockRefs": [ref]},
        "blocks": [{"blockId": "b", **block}],
    }
    try:
        parsed(json.dumps(file).encode())
    except (InvalidImport, InvalidProfile):
        is_valid = False
    else:
        is_valid = True

    assert is_valid is BLOCKS[name]["ok"]


@pytest.mark.skipif(not BUNDLES, reason="needs ARTELIER_FOREIGN_FILES")
@pytest.mark.parametrize("name", BUNDLES)
def test_a_bundle_of_others_is_read_and_executed_as_it_was(name: str, tmp_path: Path) -> None:
    wanted, data = BUNDLES[name], (FOLDER / name).read_bytes()
    if wanted["verdict"] == "refuse":
        with pytest.raises((InvalidImport, InvalidProfile)):
            parsed(data)
        return
    given = read_talespinner(data).data
    for number, one in enumerate(wanted.get("runs", ())):
        play(_executed(tmp_path / str(number), json.loads(json.dumps(given)), one))


async def _executed(folder: Path, given: dict[str, Any], wanted: dict[str, Any]) -> None:
    folder.mkdir()
    for operation in given["operations"]:
        if operation.get("name") not in wanted.get("only", [operation.get("name")]):
            operation["enabled"] = False
    first, *said, last = wanted["messages"]
    with opened(folder) as kernel:
        ref = await OperationProfile.parse(given).save(kernel.for_tenant())
        session = await Session.open(
            kernel, "c", model="m", system=first["content"], profile=ref, char="Oda Brell", user="Ines"
        )
        turns = [
            {"user": one["content"], "variants": [other["content"]]}
            for one, other in zip(said[::2], said[1::2], strict=True)
        ]
        await session.import_turns(turns)
        earlier = wanted.get("artifacts_before", {}).get("log", {}).get("history", ())
        for text in (*(one.removeprefix("Turn said: ") for one in earlier), last["content"]):
            result = await session.generate(text)
        assert result.status == "completed"
        names = {one["operation_id"]: one.get("name") for one in given["operations"]}
        ended = {names[key]: status for key, status in result.operations.items()}
        for operation, status in wanted.get("operations", {}).items():
            assert ended[operation] == ("done" if status == "done" else "skipped"), operation
        request = await kernel_of(session).render(result.run_id, STEP)
        shown = [(one.role, one.text.replace("\n", "")) for one in request.messages]
        expected = [(one["role"], one["content"].replace("\n", "")) for one in wanted["prompt_after"]]
        # Depths count messages of the conversation here, not what others put in: the order may differ.
        assert sorted(shown) == sorted(expected + [one for one in shown if one[1].endswith(_said(earlier))])


def _said(earlier: Any) -> tuple[str, ...]:
    """Ends of what stood in the conversation before the run that is looked at."""
    return tuple(one.removeprefix("Turn said: ") for one in earlier) or ("\0",)
