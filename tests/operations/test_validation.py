"""Profiles: what is valid, and that everything that is not is told at once, with its place."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artelier.errors import InvalidConfig
from artelier.operations.profile.draft_parser import MISTAKES_MAX
from artelier.operations.profile.operation_profile import (
    InvalidProfile,
    OperationProfile,
    mistakes_in,
    parse_profile,
)

Data = dict[str, Any]


def upsert(tag: str, **more: Any) -> Data:
    return {"type": "artifact.upsert", "tag": tag, **more}


def system(text: str | None = None) -> Data:
    return {"type": "prompt.system_update", "mode": "append", "text": text}


def template(id: str, *effects: Data, text: str = "Hello.", **usage: Any) -> Data:
    params = {"template": text, "effects": list(effects)}
    return {"operation_id": id, "kind": "template", "order": 10, "params": params, **usage}


def guard(id: str, *flags: str, **usage: Any) -> Data:
    params = {"template": "{}", "output_contract": list(flags)}
    return {"operation_id": id, "kind": "guard", "order": 1, "params": params, **usage}


def valid() -> Data:
    """A profile with one of almost everything."""
    condition = {"source": "fights", "key": "fighting", "operator": "is_true"}
    state = upsert("state", usage="prompt+ui", value="{{ value }}")
    answer = {"type": "object", "properties": {"mood": {"type": "string"}}}
    after: Data = {"hooks": ["after_main_llm"]}
    return {
        "profile_id": "tavern",
        "session_id": "one",
        "version": 2,
        "system": "You are {{ char.name }}. {{ art.state.value }}",
        "operations": [
            guard("fights", "fighting", "fleeing"),
            template(
                "dice",
                system(),
                upsert("roll", persistence="run_only"),
                depends_on=["fights"],
                run_conditions=[condition],
            ),
            template("notes", {"type": "prompt.insert_at_depth", "depth_from_end": 2}, order=-3.5),
            template("world", state, text="{{ art.state.history | last }}", **after),
            template(
                "log",
                upsert("log", usage="ui_only", write_mode="append", retention={"max_versions": 20}),
                depends_on=["world"],
                **after,
            ),
            {
                "operation_id": "mood",
                "kind": "llm",
                "order": 5,
                "params": {"prompt": "Mood?", "output": "json", "schema": answer, "max_cost_usd": 0.5},
            },
        ],
        "inclusions": [
            {"source": "art.state", "place": "depth(3)", "when": {"condition": "{{ art.log }}"}},
            {"source": "art.elsewhere", "template": "Then: {{ value }}", "on_trim": "summarise"},
        ],
    }


def broken(change: Callable[[Data], object]) -> list[tuple[str, str]]:
    """Places and codes of the mistakes that a change of the valid profile makes."""
    data = valid()
    change(data)
    return [(one["path"], one["code"]) for one in mistakes_in(data)]


def test_valid_profile_is_the_same_after_its_data() -> None:
    profile = parse_profile(valid())

    assert parse_profile(profile.data()) == profile
    assert parse_profile(json.dumps(profile.data()).encode()) == profile
    assert OperationProfile.parse(json.dumps(valid())) == profile
    assert profile.operation("mood").params.schema_["properties"] == {"mood": {"type": "string"}}
    assert set(profile.artifacts()) == {"roll", "state", "log"}


def test_usage_may_stand_apart_in_config() -> None:
    together, apart = valid(), valid()
    names = ("kind", "operation_id", "name", "description")
    apart["operations"] = [
        {name: one[name] for name in names if name in one}
        | {"config": {name: value for name, value in one.items() if name not in names}}
        for one in apart["operations"]
    ]

    assert parse_profile(apart) == parse_profile(together)
    apart["operations"][1]["config"]["order"] = True
    apart["operations"][1]["config"]["params"]["effects"][0]["mode"] = "upset"
    assert [one["path"] for one in mistakes_in(apart)] == [
        "operations[1].config.order",
        "operations[1].config.params.effects[0].mode",
    ]


def at(index: int, **fields: Any) -> Callable[[Data], object]:
    return lambda data: data["operations"][index].update(fields)


def effects(index: int, *items: Any) -> Callable[[Data], object]:
    return lambda data: data["operations"][index]["params"].update(effects=list(items))


def added(*operations: Any) -> Callable[[Data], object]:
    return lambda data: data["operations"].extend(operations)


def included(**rule: Any) -> Callable[[Data], object]:
    return lambda data: data["inclusions"].append(rule)


def texted(index: int, text: str) -> Callable[[Data], object]:
    return lambda data: data["operations"][index]["params"].update(template=text)


P1 = "operations[1].params"
P2 = "operations[2].params"
P3 = "operations[3].params"
CONDITION = {"source": "fights", "key": "fighting", "operator": "is_true"}

MISTAKES: list[tuple[str, Callable[[Data], object], str, str]] = [
    ("empty id", at(0, operation_id="", depends_on=[]), "operations[0].operation_id", "empty_id"),
    ("no id", lambda d: d["operations"][2].pop("operation_id"), "operations[2].operation_id", "empty_id"),
    ("blank id", at(2, operation_id="  "), "operations[2].operation_id", "empty_id"),
    ("bad id", at(2, operation_id="a#b"), "operations[2].operation_id", "string_pattern_mismatch"),
    ("profile", lambda d: d.update(profile_id=""), "profile_id", "empty_id"),
    ("no profile id", lambda d: d.pop("profile_id"), "profile_id", "missing"),
    ("twice", added(template("notes")), "operations[6].operation_id", "duplicate_id"),
    ("kind", at(2, kind="magic"), "operations[2].kind", "unknown_kind"),
    ("kind's type", at(2, kind=["llm"]), "operations[2].kind", "unknown_kind"),
    ("nothing", lambda d: d["operations"][2].pop("kind"), "operations[2].kind", "unknown_operation"),
    ("unknown", at(2, depends_on=["nobody"]), "operations[2].depends_on[0]", "unknown_dependency"),
    ("self", at(2, depends_on=["notes"]), "operations[2].depends_on[0]", "self_dependency"),
    ("hooks", at(4, depends_on=["world", "notes"]), "operations[4].depends_on[1]", "cross_hook_dependency"),
    (
        "one hook of two",
        at(0, depends_on=["notes"], hooks=["before_main_llm", "after_main_llm"]),
        "operations[0].depends_on[0]",
        "cross_hook_dependency",
    ),
    ("ring", at(0, depends_on=["dice"]), "operations[1].depends_on[0]", "cycle"),
    ("twice waited", at(4, depends_on=["world", "world"]), "operations[4].depends_on[1]", "duplicate_value"),
    ("hook twice", at(2, hooks=["before_main_llm"] * 2), "operations[2].hooks[1]", "duplicate_value"),
    ("no order", lambda d: d["operations"][2].pop("order"), "operations[2].order", "missing_order"),
    *(
        (f"order {order}", at(2, order=order), "operations[2].order", "order_not_numeric")
        for order in (None, "1", True, [], float("nan"), float("inf"), float("-inf"))
    ),
    ("order's bound", at(2, order=1e300), "operations[2].order", "less_than_equal"),
    ("two writers", effects(3, upsert("log")), "operations[4].params.effects[0].tag", "duplicate_writer"),
    ("two tags", effects(1, upsert("a"), upsert("b")), f"{P1}.effects[1].tag", "multiple_tags"),
    ("same tag", effects(1, upsert("a"), upsert("a")), f"{P1}.effects[1].tag", "duplicate_effect"),
    ("dynamic", effects(1, upsert("{{ chat.id }}")), f"{P1}.effects[0].tag", "dynamic_tag"),
    ("dynamic tag", effects(1, upsert("a{% if b %}")), f"{P1}.effects[0].tag", "dynamic_tag"),
    *(
        (f"tag {tag!r}", effects(1, upsert(tag)), f"{P1}.effects[0].tag", "invalid_tag")
        for tag in ("", "State", "1a", "a" * 65, "a-b", "a\n", "ä")
    ),
    (
        "condition waits",
        at(1, depends_on=[]),
        "operations[1].run_conditions[0].source",
        "condition_source_not_dependency",
    ),
    (
        "condition",
        at(4, run_conditions=[{**CONDITION, "source": "world"}]),
        "operations[4].run_conditions[0].source",
        "condition_source_not_guard",
    ),
    (
        "flag",
        at(1, run_conditions=[{**CONDITION, "key": "sleeping"}]),
        "operations[1].run_conditions[0].key",
        "undeclared_guard_key",
    ),
    (
        "operator",
        at(1, run_conditions=[{**CONDITION, "operator": "is"}]),
        "operations[1].run_conditions[0].operator",
        "literal_error",
    ),
    ("template", texted(2, "{{ a"), f"{P2}.template", "invalid_template"),
    ("text of no dependency", texted(2, "{{ deps.zz.value }}"), f"{P2}.template", "unknown_dependency"),
    ("passages of nobody", effects(2, system("{{ rag.zz }}")), f"{P2}.effects[0].text", "unknown_dependency"),
    ("template's tag", texted(2, "{% include 'a' %}"), f"{P2}.template", "invalid_template"),
    ("effect's text", effects(2, system("{% if %}")), f"{P2}.effects[0].text", "invalid_template"),
    ("value", effects(1, upsert("roll", value="{{")), f"{P1}.effects[0].value", "invalid_template"),
    ("system", lambda d: d.update(system="{{ | }}"), "system", "invalid_template"),
    ("rule", included(source="art.a", template="{% for %}"), "inclusions[2].template", "invalid_template"),
    (
        "condition's text",
        included(source="art.state", when={"condition": "{{"}),
        "inclusions[2].when.condition",
        "invalid_template",
    ),
    (
        "prompt after",
        effects(3, system(), upsert("state", usage="prompt+ui")),
        f"{P3}.effects[0].type",
        "prompt_effect_after_main_llm",
    ),
    (
        "prompt in both",
        at(2, hooks=["before_main_llm", "after_main_llm"]),
        f"{P2}.effects[0].type",
        "prompt_effect_after_main_llm",
    ),
    (
        "reply before",
        effects(2, {"type": "turn.assistant_variant.patch"}),
        f"{P2}.effects[0].type",
        "assistant_effect_before_main_llm",
    ),
    (
        "blocks before",
        effects(2, {"type": "turn.assistant_blocks.update"}),
        f"{P2}.effects[0].type",
        "assistant_effect_before_main_llm",
    ),
    ("no effect", effects(2, {"type": "magic"}), f"{P2}.effects[0]", "union_tag_invalid"),
    (
        "run's feed",
        effects(1, upsert("r", persistence="run_only", write_mode="append")),
        f"{P1}.effects[0].write_mode",
        "write_conflict",
    ),
    (
        "run's past",
        effects(1, upsert("r", persistence="run_only", retention={"ttl_s": 5})),
        f"{P1}.effects[0].retention",
        "write_conflict",
    ),
    (
        "empty feed",
        effects(4, upsert("log", write_mode="append", retention={"max_versions": 0})),
        "operations[4].params.effects[0].retention.max_versions",
        "write_conflict",
    ),
    ("source", included(source="state"), "inclusions[2].source", "unknown_source"),
    ("source's tag", included(source="art.State"), "inclusions[2].source", "unknown_source"),
    ("hidden source", included(source="art.log"), "inclusions[2].source", "source_not_for_prompt"),
    ("place", included(source="art.state", place="above"), "inclusions[2].place", "string_pattern_mismatch"),
    ("no object", added("notes"), "operations[6]", "not_an_object"),
    ("config", at(2, config=[]), "operations[2].config", "not_an_object"),
    ("given twice", at(2, config={"order": 1}), "operations[2].config.order", "given_twice"),
    ("no params", lambda d: d["operations"][2].pop("params"), "operations[2].params", "missing"),
    ("params", at(2, params=[1]), "operations[2].params", "not_an_object"),
    ("param", lambda d: d["operations"][2]["params"].update(depth=1), f"{P2}.depth", "extra_forbidden"),
    (
        "of the kind",
        lambda d: d["operations"][5]["params"]["schema"].update(type="thing"),
        "operations[5].params.schema",
        "bad_schema",
    ),
    ("field", lambda d: d.update({"odd key": 1}), '["odd key"]', "extra_forbidden"),
    ("flag's type", at(2, enabled="yes"), "operations[2].enabled", "bool_type"),
    ("version", lambda d: d.update(version="2"), "version", "int_type"),
    ("operations", lambda d: d.update(operations={}, inclusions=[]), "operations", "not_a_list"),
    ("rules", lambda d: d.update(inclusions="all"), "inclusions", "not_a_list"),
    ("no rule", lambda d: d["inclusions"].append(None), "inclusions[2]", "not_an_object"),
    (
        "too many",
        lambda d: d.update(operations=[template(f"o{n}") for n in range(501)], inclusions=[]),
        "operations",
        "too_many",
    ),
    ("long text", texted(2, "x" * 65_537), f"{P2}.template", "string_too_long"),
    ("surrogate", at(2, name="\ud800"), "operations[2].name", "not_unicode"),
    ("not JSON", at(2, name={1, 2}), "operations[2].name", "not_json"),
    ("not finite", lambda d: d.update(deadline_s=float("nan")), "deadline_s", "not_json"),
]


@pytest.mark.parametrize(
    ("change", "path", "code"), [case[1:] for case in MISTAKES], ids=[case[0] for case in MISTAKES]
)
def test_mistake_is_named_with_its_place(change: Callable[[Data], object], path: str, code: str) -> None:
    assert (path, code) in broken(change)


def test_most_mistakes_are_one_mistake() -> None:
    """A mistake brings no others along; those that must are few."""
    along = {"empty id", "prompt after"}
    for name, change, path, code in MISTAKES:
        if name not in along:
            assert broken(change) == [(path, code)], name


HIDDEN = {"usage": "internal"}

LEAKS: list[tuple[str, Callable[[Data], object], str, str]] = [
    ("system", lambda d: d.update(system="{{ art.log.value }}"), "system", "prompt"),
    ("all", lambda d: d.update(system="{% for a in art %}{% endfor %}"), "system", "prompt"),
    ("alias", lambda d: d.update(system="{% assign a = art %}{{ a.log.value }}"), "system", "prompt"),
    ("computed", lambda d: d.update(system="{{ art[text].value }}"), "system", "prompt"),
    ("effect", effects(2, system("{{ art.log.value }}")), f"{P2}.effects[0].text", "prompt"),
    (
        "question",
        lambda d: d["operations"][5]["params"].update(prompt="{{ art.log.value }}"),
        "operations[5].params.prompt",
        "prompt",
    ),
    ("value", texted(2, "{{ art.log.history }}"), f"{P2}.template", "prompt"),
    (
        "rule",
        included(source="art.state", template="{{ value }}{{ art.log.value }}"),
        "inclusions[2].template",
        "prompt",
    ),
    (
        "words",
        effects(2, {"type": "turn.user_variant.upsert_and_select", "text": "{{ art.log.value }}"}),
        f"{P2}.effects[0].text",
        "prompt",
    ),
    (
        "reply",
        added(
            template(
                "r",
                {"type": "turn.assistant_variant.patch", "text": "{{ art.secret }}"},
                hooks=["after_main_llm"],
            ),
            template("s", upsert("secret", usage="prompt_only")),
        ),
        "operations[6].params.effects[0].text",
        "ui",
    ),
    (
        "panel",
        added(
            template("r", upsert("panel", usage="ui_only"), text="{{ art.secret.value }}"),
            template("s", upsert("secret", **HIDDEN)),
        ),
        "operations[6].params.template",
        "ui",
    ),
]


@pytest.mark.parametrize(
    ("change", "path", "reader"), [case[1:] for case in LEAKS], ids=[case[0] for case in LEAKS]
)
def test_template_may_not_show_what_its_readers_may_not_see(
    change: Callable[[Data], object], path: str, reader: str
) -> None:
    assert (path, f"usage_forbids_{reader}") in broken(change)


def test_artifacts_from_elsewhere_and_of_no_reader_may_be_read() -> None:
    assert broken(lambda d: d.update(system="{{ art.elsewhere.value }}")) == []
    assert broken(added(template("s", upsert("secret"), text="{{ art.log.value }}"))) == []
    block = {"type": "turn.assistant_blocks.update", "blocks": [{"text": "{{ art.log.value }}"}]}
    assert broken(added(template("b", block, hooks=["after_main_llm"]))) == []


def test_template_may_read_what_its_operation_waits_for_however_far() -> None:
    read = template("c", text="{{ deps.a }}{{ deps.b.x }}", depends_on=["b"])
    path = ("operations[8].params.template", "unknown_dependency")
    assert broken(added(template("a"), template("b", depends_on=["a"]), read)) == []
    assert broken(added(template("a"), template("b"), read)) == [path]
    assert broken(added(template("d", text="{{ deps[text] }}{{ deps.size }}{{ deps.first }}"))) == []


def test_all_mistakes_come_at_once_in_the_order_of_the_profile() -> None:
    data = valid()
    data["session_id"] = "a b"
    data["operations"][0]["params"]["output_contract"] = []
    data["operations"][1]["order"] = None
    data["operations"][3]["params"] = {"template": "{{", "effects": [{"type": "x"}, upsert("A")]}
    data["operations"].insert(2, 7)
    data["inclusions"][1]["max_tokens"] = 0

    with pytest.raises(InvalidProfile) as caught:
        parse_profile(data)

    assert isinstance(caught.value, InvalidConfig)
    assert caught.value.code == "invalid_profile"
    assert [(one["path"], one["code"]) for one in caught.value.errors] == [
        ("inclusions[1].max_tokens", "greater_than_equal"),
        ("operations[0].params.output_contract", "too_short"),
        ("operations[1].order", "order_not_numeric"),
        ("operations[2]", "not_an_object"),
        ("operations[4].params.effects[0]", "union_tag_invalid"),
        ("operations[4].params.effects[1].tag", "invalid_tag"),
        ("operations[4].params.template", "invalid_template"),
        ("session_id", "string_pattern_mismatch"),
    ]
    assert "8 mistakes" in str(caught.value)
    assert "inclusions[1].max_tokens" in str(caught.value)


def test_every_ring_is_named_whole() -> None:
    def ring(*names: str) -> list[Data]:
        return [
            template(one, depends_on=[names[(place + 1) % len(names)]]) for place, one in enumerate(names)
        ]

    found = mistakes_in({"profile_id": "p", "operations": [*ring("c", "a", "b"), *ring("y", "x")]})

    assert [(one["path"], one["code"]) for one in found] == [
        ("operations[1].depends_on[0]", "cycle"),
        ("operations[4].depends_on[0]", "cycle"),
    ]
    assert found[0]["message"] == "a ring: a waits for b waits for c waits for a"


def test_long_chain_of_dependencies_is_valid() -> None:
    chain = [template(f"o{n}", depends_on=[f"o{n - 1}"] if n else []) for n in range(500)]

    assert len(parse_profile({"profile_id": "p", "operations": chain}).operations) == 500


def test_list_of_mistakes_is_bounded() -> None:
    odd = {f"odd{n}": n for n in range(50)}
    many = [{**template(f"o{n}"), **odd} for n in range(100)]

    found = mistakes_in({"profile_id": "p", "operations": many})

    assert len(found) == MISTAKES_MAX + 1
    assert "too_many_mistakes" in {one["code"] for one in found}


def _cyclic() -> Data:
    data = valid()
    data["operations"].append(data)
    return data


def _deep(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


HOSTILE: list[tuple[str, object, str]] = [
    ("nothing", None, "not_an_object"),
    ("a number", 7, "not_an_object"),
    ("an object of Python", object(), "not_an_object"),
    ("empty text", "", "not_json"),
    ("no JSON", "{'a': 1}", "not_json"),
    ("null", "null", "not_an_object"),
    ("a list", "[]", "not_an_object"),
    ("NaN", '{"profile_id": NaN}', "not_json"),
    ("no UTF-8", b'{"profile_id": "\xff"}', "not_json"),
    ("surrogates", '{"profile_id": "\ud800"}', "not_json"),
    ("deep text", "[" * 100_000, "too_deep"),
    ("deep", {"profile_id": "p", "operations": _deep(5_000)}, "too_deep"),
    ("cyclic", _cyclic(), "too_deep"),
    ("huge text", "x" * 9_000_000, "too_large"),
    ("huge value", {"profile_id": "x" * 9_000_000}, "too_large"),
    ("wide", {"profile_id": "p", "operations": [0] * 300_000}, "too_large"),
    ("keys", {"profile_id": "p", 5: 1}, "not_json"),
    ("huge number", {"profile_id": "p", "version": 10**5_000}, "not_json"),
    ("a class", {"profile_id": dict}, "not_json"),
]


@pytest.mark.parametrize(("data", "code"), [case[1:] for case in HOSTILE], ids=[case[0] for case in HOSTILE])
def test_hostile_input_is_an_invalid_profile(data: object, code: str) -> None:
    with pytest.raises(InvalidProfile) as caught:
        parse_profile(data)

    assert code in {one["code"] for one in caught.value.errors}
    assert len(str(caught.value)) < 5_000


ODD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["{{", "art.state", "llm", "\ud800", "fights", "after_main_llm"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=8) | st.sampled_from(["params", "tag", "type"]), inner, max_size=3)
    ),
    max_leaves=6,
)


def _shipped_like() -> list[Data]:
    """The valid profile, and one with each kind that it lacks."""
    kinds = [
        {"kind": "rag", "params": {"source": {"messages": True}}},
        {"kind": "tool", "params": {"name": "t", "arguments": {"a": ["{{ text }}"]}}},
        {"kind": "compute", "params": {"code": "def run(ctx):\n    return 1\n"}},
        {"kind": "transform", "params": {"source": "text", "steps": [{"op": "trim"}]}},
    ]
    others = [{**one, "operation_id": f"k{n}", "order": n, "description": "d"} for n, one in enumerate(kinds)]
    return [valid(), {"profile_id": "others", "operations": others}]


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    found: list[tuple[Any, ...]] = []
    for key, item in items if isinstance(value, dict | list) else ():
        found.append((*path, key))
        if isinstance(item, dict | list):
            found += _places(item, (*path, key))
    return found


def _changed(data: Data, path: tuple[Any, ...], odd: object, way: str) -> None:
    here: Any = data
    for key in path[:-1]:
        here = here[key]
    if way == "delete":
        del here[path[-1]]
    elif way == "twice" and isinstance(here, list):
        here.append(copy.deepcopy(here[path[-1]]))
    else:
        here[path[-1]] = odd


@given(data=st.data())
def test_any_change_is_valid_or_an_invalid_profile(data: st.DataObject) -> None:
    profile = copy.deepcopy(data.draw(st.sampled_from(_shipped_like())))
    for _ in range(data.draw(st.integers(1, 3))):
        places = _places(profile)
        if not places:
            break
        place = data.draw(st.sampled_from(places))
        way = data.draw(st.sampled_from(["odd", "delete", "twice"]))
        _changed(profile, place, data.draw(ODD), way)
    try:
        read = parse_profile(profile)
    except InvalidProfile as error:
        assert error.errors
        assert all(one["path"].isascii() and one["message"].isprintable() for one in error.errors)
    else:
        assert parse_profile(read.data()) == read


def test_no_profile_of_the_documentation_is_invalid() -> None:
    page = Path(__file__).parents[2] / "docs" / "guides" / "operations.md"
    blocks = page.read_text("utf-8").split("```json\n")[1:]

    profiles = [block.split("```")[0] for block in blocks if '"profile_id"' in block]

    assert profiles
    for text in profiles:
        parse_profile(text)
