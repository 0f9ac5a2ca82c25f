"""Templates: what they print, what they can't reach, and that each of them ends."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from artelier.errors import External, InvalidRequest
from artelier.operations.template_engine.renderer import (
    InvalidTemplate,
    TemplateFailed,
    TemplateLimit,
    TemplateUndefined,
)
from artelier.operations.template_engine.template import Messages, Named, Template

BIG = "x" * 200_000
CHAT = [
    {"role": "user", "content": "hello"},
    {"role": "assistant", "content": "good day", "name": "Mira"},
    {"role": "user", "content": "what now?", "name": "Tom"},
]


class Secretive:
    """A Python object that must not be read."""

    secret = "leaked"

    def __str__(self) -> str:
        return "leaked"


def _cyclic() -> list[Any]:
    items: list[Any] = []
    items.append(items)
    return items


def _doubled(levels: int) -> Any:
    value: Any = "lol"
    for _ in range(levels):
        value = [value, value]
    return value


SCOPE: dict[str, Any] = {
    "user": Named(name="Tom", fields={}),
    "char": Named(name="Mira", fields={"description": "a smith", "tags": ["calm", "strong"]}),
    "chat_history": CHAT,
    "quiet": Messages(),
    "art": {
        "world_state": {"value": {"day": 3, "rain": True, "note": None}},
        "log": {"value": ["first", "second", "third"]},
    },
    "now": "2026-11-22T10:30:05+02:00",
    "injected": "{{ art.world_state.value.day }} {% if true %}x{% endif %} {{",
    "people": [{"n": "Bo", "age": 30}, {"n": "al", "age": 9}, {"n": "Cy", "age": 30}],
    "empty": "",
    "zero": 0,
    "flag": False,
    "key": "log",
    "secret": Secretive(),
    "big": BIG,
    "cyclic": _cyclic(),
    "cyclic_too": _cyclic(),
    "doubled": _doubled(60),
    "numbers": list(range(10_000)),
    "numbers_too": list(range(10_000)),
}


def render(text: str, *, strict: bool = True, **more: Any) -> str:
    return Template.parse(text, strict=strict).render({**SCOPE, **more})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Names and fields.
        ("{{ user }} meets {{ char }}", "Tom meets Mira"),
        ("{{ char.name }}, {{ char.description }}, {{ char.tags.last }}", "Mira, a smith, strong"),
        ("{{ art.world_state.value.day }}", "3"),
        ("{{ art[key].value[0] }} {{ art['log'].value[-1] }}", "first third"),
        ("{{ art.log.value.size }} {{ art.log.value.first }}", "3 first"),
        ("{{ art.world_state.value }}", '{"day": 3, "rain": true, "note": null}'),
        ("{{ art.log.value }}", '["first", "second", "third"]'),
        ("{{ char | json }}", '{"name": "Mira", "description": "a smith", "tags": ["calm", "strong"]}'),
        ("[{{ nil }}{{ art.world_state.value.note }}]", "[]"),
        # Values are data, rendered once.
        ("{{ injected }}", SCOPE["injected"]),
        ("{% assign x = injected %}{{ x }}", SCOPE["injected"]),
        ("{% capture x %}{{ injected }}{% endcapture %}{{ x }}", SCOPE["injected"]),
        ("{% raw %}{{ user }}{% if %}{% endraw %}", "{{ user }}{% if %}"),
        ("{{ '{% raw %}' }}{{ user }}", "{% raw %}Tom"),
        # Messages.
        ("{{ chat_history | last: 2 }}", "Mira: good day\nTom: what now?"),
        ("{{ chat_history | first: 1 }}", "user: hello"),
        ("{{ chat_history | last: 0 | size }} {{ chat_history | last: 99 | size }}", "0 3"),
        ("{{ chat_history | where: 'role', 'assistant' }}", "Mira: good day"),
        ("[{{ quiet }}][{{ quiet | last: 5 }}]", "[][]"),
        ("{% assign m = chat_history | last %}{{ m.content }}", "what now?"),
        # Filters.
        ("{{ art.log.value | bullets }}", "- first\n- second\n- third"),
        ("{{ 'a,b' | split: ',' | bullets }}", "- a\n- b"),
        ("{{ art.log.value | join: ', ' | upcase }}", "FIRST, SECOND, THIRD"),
        ("{{ people | sort: 'age' | map: 'n' | join }}", "al Bo Cy"),
        ("{{ people | map: 'n' | sort_natural | join }}", "al Bo Cy"),
        ("{{ people | map: 'age' | uniq | sum }} {{ people | sum: 'age' }}", "39 69"),
        ("{{ people | where: 'age', 30 | map: 'n' | reverse | json }}", '["Cy", "Bo"]'),
        ("{{ people | reject: 'age', 30 | size }} {{ people | has: 'n', 'Cy' }}", "1 true"),
        ("{% assign p = people | find: 'n', 'Cy' %}{{ p.age }}", "30"),
        ("{{ '<b>hi</b> & you' | strip_html | escape }}", "hi &amp; you"),
        ("{{ 'abcdef' | slice: 1, 3 }} {{ 'abcdef' | slice: -2, 2 }}", "bcd ef"),
        ("{{ 'one two three' | truncatewords: 2 }} {{ 'abcdef' | truncate: 5 }}", "one two... ab..."),
        ("{{ 0.1 | plus: 0.2 }} {{ 7 | divided_by: 2 }} {{ 7 | modulo: 4 }}", "0.3 3 3"),
        ("{{ '3' | times: 2 }} {{ 2.7 | floor }} {{ 2.345 | round: 1 }}", "6 2 2.3"),
        ("{{ 'a b' | url_encode | append: '!' | replace: '+', '-' }}", "a-b!"),
        ("{{ empty | default: 'none' }} {{ flag | default: true, allow_false: true }}", "none false"),
        ("{{ zero | default: 5 }} {{ missing.deep | default: 'gone' }}", "0 gone"),
        ("{{ now | date: '%d %B %Y, %H:%M %z %-I%P %q' }}", "22 November 2026, 10:30 +0200 10am %q"),
        ("{{ 'now' | date: '%F' }} {{ 0 | date: '%F %T' }}", "2026-11-22 1970-01-01 00:00:00"),
        ("{{ 'no date' | date: '%F' }}", "no date"),
        # Tags.
        ("{% if zero and empty %}a{% elsif flag %}b{% else %}c{% endif %}", "a"),
        ("{% unless flag %}no{% endunless %}", "no"),
        ("{% if empty == empty and empty == blank %}e{% endif %}", "e"),
        ("{% if 'abc' contains 'b' and art contains 'log' %}yes{% endif %}", "yes"),
        ("{% if true == 1 %}same{% else %}differs{% endif %}", "differs"),
        ("{% if user == 'Tom' %}it is{% endif %}", "it is"),
        ("{% case zero %}{% when 1, 2 %}a{% when 0 %}b{% else %}c{% endcase %}", "b"),
        ("{% case 'q' %}{% when 1 %}a{% else %}c{% endcase %}", "c"),
        ("{% for x in art.log.value limit: 2 %}{{ forloop.index }}{{ x }} {% endfor %}", "1first 2second "),
        (
            "{% for x in (1..5) offset: 1 reversed %}{{ x }}"
            "{% if x == 3 %}{% break %}{% endif %}{% endfor %}",
            "543",
        ),
        ("{% for x in (1..4) %}{% if x == 2 %}{% continue %}{% endif %}{{ x }}{% endfor %}", "134"),
        (
            "{% for x in (1..4) limit: 2 %}{{x}}{% endfor %}"
            "{% for x in (1..4) offset: continue %}-{{x}}{% endfor %}",
            "12-3-4",
        ),
        ("{% for x in nil %}{% else %}nothing{% endfor %}", "nothing"),
        ("{% for p in char.tags %}{% cycle 'odd', 'even' %} {% endfor %}", "odd even "),
        (
            "{% for a in (1..2) %}{% for b in (1..2) %}"
            "{{ forloop.parentloop.index }}{{ b }} {% endfor %}{% endfor %}",
            "11 12 21 22 ",
        ),
        ("{% for pair in art.world_state.value %}{{ pair[0] }} {% endfor %}", "day rain note "),
        ("{% increment n %}{% increment n %}{% decrement m %}{% echo user %}", "01-1Tom"),
        ("a {%- comment -%} {{ {% if %} {% endcomment %} b{% # nothing %}", "a b"),
        ("a  {{- user -}}  b", "aTomb"),
        ("x{% if true %}\n  {% assign y = 1 %}\n{% endif %}y", "xy"),
        ("{ } %} }} { {", "{ } %} }} { {"),
        ("", ""),
    ],
)
def test_render_prints(text: str, expected: str) -> None:
    assert render(text) == expected


FORBIDDEN_TAGS = (
    "{% include 'x' %}",
    "{% include injected %}",
    "{% render 'x' %}",
    "{% extends 'x' %}",
    "{% block b %}{% endblock %}",
    "{% layout 'x' %}",
    "{% import 'os' %}",
    "{% macro m %}{% endmacro %}",
    "{% call m %}",
    "{% tablerow i in (1..10) %}{% endtablerow %}",
    "{% liquid\necho 1 %}",
    "{% ifchanged %}{% endifchanged %}",
    "{% doc %}{% enddoc %}",
    "{% javascript %}{% endjavascript %}",
)

BROKEN = (
    "{{ user",
    "{% if user %}",
    "{% if %}{% endif %}",
    "{% endif %}",
    "{% for x user %}{% endfor %}",
    "{% for x in user %}",
    "{% assign = 1 %}",
    "{% assign _x = 1 %}",
    "{% capture %}{% endcapture %}",
    "{% break %}",
    "{% %}",
    "{%%}",
    "{{ }}",
    "{{ user | nothing }}",
    "{{ user | append }}",
    "{{ user | upcase: 1 }}",
    "{{ user | append: 1, 2 }}",
    "{{ user | append: other: 2 }}",
    "{{ user | safe }}",
    "{{ user | escapejs }}",
    "{{ 'a' if true else 'b' }}",
    "{{ user.__class__() }}",
    "{{ ''.__class__.__mro__ }}",
    "{{ (user) }}",
    "{{ [key] }}",
    "{{ user; import os }}",
    "{% raw %}",
    "{% comment %}",
    "{{ " + "9" * 900 + " }}",
    "{{ ٣" + "٣" * 40 + " }}{{ (1..",
)

HOSTILE_TO_PARSE = (
    "{% raw %}" * 7_000,
    "{% raw %}" + "{% " * 20_000,
    "{% comment %}" * 5_000,
    "{% comment %}" + "{{ " * 20_000,
    "{{ " * 20_000,
    "{% x " * 12_000,
    "{{ " + "(" * 60_000 + " }}",
    ("{{ " + "(" * 59 + " }}") * 1_000,
    ("{{ " + '["' * 58 + " }}") * 500,
    "{{ " + "'" * 999 + " }}",
    "{{ a" + "[" * 2_000 + " }}",
    "{% if " + " and ".join(["a"] * 5_000) + " %}{% endif %}",
    "{% if " + "a == " * 150 + "a %}{% endif %}",
    "{% if true %}" * 2_000 + "{% endif %}" * 2_000,
    "{% for i in user %}" * 40 + "{% endfor %}" * 40,
    "x" * (64 * 1024 + 1),
    "é" * (32 * 1024 + 1),
    "\ud800",
)


@pytest.mark.parametrize("text", FORBIDDEN_TAGS + BROKEN + HOSTILE_TO_PARSE)
def test_parse_refuses(text: str) -> None:
    with pytest.raises(InvalidTemplate) as caught:
        Template.parse(text)

    assert caught.value.code == "invalid_template"
    assert isinstance(caught.value, InvalidRequest)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("text", [None, 5, b"x", ["x"], {"a": 1}])
def test_parse_refuses_what_is_no_text(text: Any) -> None:
    with pytest.raises(InvalidTemplate):
        Template.parse(text)


def test_parse_names_the_line() -> None:
    with pytest.raises(InvalidTemplate) as caught:
        Template.parse("one\ntwo {{ user }}\nthree {{ user | nothing }}\n")

    assert caught.value.line == 3
    assert "no filter `nothing`" in str(caught.value)


LIMITED = {
    "append": "{% assign a = 'aaaa' %}{% for i in (1..99) %}{% assign a = a | append: a %}{% endfor %}",
    "prepend": "{% assign a = 'aaaa' %}{% for i in (1..99) %}{% assign a = a | prepend: a %}{% endfor %}",
    "replace": (
        "{% assign a = 'aa' %}{% for i in (1..99) %}{% assign a = a | replace: 'a', 'aaa' %}{% endfor %}"
    ),
    "replace nothing": "{{ big | replace: '', big }}",
    "join": "{% assign a = big | split: '' | join: big %}",
    "split and join": (
        "{% assign a = 'a,a' %}{% for i in (1..99) %}"
        "{% assign a = a | split: ',' | join: ',,' | append: a %}{% endfor %}"
    ),
    "bullets": "{% assign a = big | split: '' | bullets %}",
    "concat": "{% assign a = numbers %}{% for i in (1..99) %}{% assign a = a | concat: a %}{% endfor %}",
    "times": "{% assign n = 9 %}{% for i in (1..99) %}{% assign n = n | times: n %}{% endfor %}",
    "plus": "{% assign n = 9 %}{% for i in (1..999) %}{% assign n = n | plus: n %}{% endfor %}",
    "capture": "{% for i in (1..99) %}{% capture a %}{{ a }}{{ a }}aa{% endcapture %}{% endfor %}",
    "newlines": "{% assign a = big | split: '' | join: '\n' | newline_to_br %}",
    "date form": (
        "{% assign f = '%A' %}{% for i in (1..30) %}{% assign f = f | append: f %}{% endfor %}"
        "{{ now | date: f }}"
    ),
    "output": "{% for i in (1..9) %}{{ big }}{% endfor %}",
    "output in bytes": "{% for i in (1..9000) %}éééééééééééééééé{% endfor %}",
    "nested loops": "{% for i in (1..101) %}{% for j in (1..101) %}{% endfor %}{% endfor %}",
    "loops in a row": "{% for i in (1..6000) %}{% endfor %}{% for i in (1..6000) %}{% endfor %}",
    "reversed range": "{% for i in (1..1000000000000) reversed %}{% endfor %}",
    "offset of a range": "{% for i in (1..1000000000000) offset: 100000000000 %}{% endfor %}",
    "huge range": "{% for i in (1..99999999999999999999) %}{% endfor %}",
    "joined range": "{% assign r = (1..1000000000) %}{{ r | join }}",
    "printed range": "{% assign r = (1..1000000000) %}{{ r | json }}",
    "reversed list of a range": "{% assign r = (1..1000000000) | reverse %}",
    "last of a range": "{% assign r = (1..1000000000) %}{{ r | last: 3 }}",
    "tags in a loop": "{% for i in (1..10000) %}" + "{% if i %}{% endif %}" * 3000 + "{% endfor %}",
    "filters in a loop": "{% for i in (1..10000) %}{{ big | upcase | size }}{% endfor %}",
    "contains": "{% for i in (1..10000) %}{% if big contains 'y' %}{% endif %}{% endfor %}",
    "equal lists": "{% for i in (1..10000) %}{% if numbers == numbers_too %}{% endif %}{% endfor %}",
    "maps": "{% for i in (1..10000) %}{% assign x = numbers | map: 'a' %}{% endfor %}",
    "sorts": "{% for i in (1..10000) %}{% assign x = numbers | sort %}{% endfor %}",
    "uniqs": "{% for i in (1..10000) %}{% assign x = numbers | uniq %}{% endfor %}",
    "copies": "{% for i in (1..10000) %}{% assign x = big | append: 'x' %}{% endfor %}",
    "jsons": "{% for i in (1..10000) %}{% assign x = numbers | json %}{% endfor %}",
    "cycle names": "{% for i in (1..10000) %}{% cycle big: 1, 2 %}{% endfor %}",
    "cyclic value": "{{ cyclic }}",
    "cyclic json": "{{ cyclic | json }}",
    "cyclic equality": "{% if cyclic == cyclic_too %}{% endif %}",
    "value that shares itself": "{{ doubled }}",
    "uniq of it": "{{ doubled | uniq }}",
}


@pytest.mark.parametrize("text", LIMITED.values(), ids=LIMITED.keys())
def test_render_ends_at_a_bound(text: str) -> None:
    with pytest.raises(TemplateLimit) as caught:
        render(text, strict=False)

    assert caught.value.code == "template_limit"


MULTIPLIED = "{% case 1 %}{% when 1,1,1,1,1,1,1,1,1,1,1 %}" * 25 + "x" + "{% endcase %}" * 25


def test_a_case_that_matches_often_renders_once() -> None:
    assert render(MULTIPLIED) == "x"


UNREACHABLE = (
    "{{ user.__class__ }}",
    "{{ user.fields }}",
    "{{ char['__init__'] }}",
    "{{ big.format }}",
    "{{ big.upper }}",
    "{{ big[0] }}",
    "{{ numbers.append }}",
    "{{ numbers.__len__ }}",
    "{{ art.keys }}",
    "{{ art.items }}",
    "{{ art.__dict__ }}",
    "{{ art.world_state.value.day.real }}",
    "{{ _private }}",
    "{{ art._private }}",
    "{% for i in (1..1) %}{{ forloop.__class__ }}{{ forloop.it }}{% endfor %}",
    "{{ self }}",
    "{{ request }}",
    "{{ today }}",
    "{{ template }}",
    "{{ numbers[99999] }}",
)


@pytest.mark.parametrize("text", UNREACHABLE)
def test_nothing_but_data_is_reached(text: str) -> None:
    scope = {"_private": "leaked", "art": {**SCOPE["art"], "_private": "leaked"}}

    with pytest.raises(TemplateUndefined) as caught:
        render(text, **scope)

    assert caught.value.code == "template_undefined"
    assert render(text, strict=False, **scope) == ""


@pytest.mark.parametrize(
    "text",
    [
        "{{ secret }}",
        "{{ secret.secret }}",
        "{{ secret | append: '' }}",
        "{{ secret | json }}",
        "{{ secret | size }}",
        "{% for x in secret %}{% endfor %}",
        "{% assign x = secret %}{{ x }}",
        "{{ held }}",
        "{{ keyed }}",
        "{{ data }}",
    ],
)
def test_a_python_object_is_refused_without_being_read(text: str) -> None:
    with pytest.raises(TemplateFailed) as caught:
        render(text, held=[Secretive()], keyed={1: "one"}, data=b"bytes")

    assert caught.value.code == "template_error"
    assert isinstance(caught.value, External)
    assert "leaked" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "{{ 1 | divided_by: 0 }}",
        "{{ 1 | modulo: 0 }}",
        "{{ infinite | ceil }}",
        "{{ infinite | minus: infinite }}",
        "{{ 'x' | slice: 'y' }}",
        "{{ user | last: 2 }}",
        "{% if numbers < 3 %}{% endif %}",
        "{% if '5' > 3 %}{% endif %}",
        "{% for i in (1..flag) %}{% endfor %}",
        "{{ 99999999999999999 | date: '%F' }}",
        "{{ surrogate }}",
        "{% for x in 5 %}{% endfor %}",
    ],
)
def test_render_fails_with_a_code(text: str) -> None:
    with pytest.raises(TemplateFailed) as caught:
        render(text, strict=False, infinite=float("inf"), surrogate="a\ud800")

    assert caught.value.code == "template_error"


@pytest.mark.parametrize(
    "text",
    [
        "{{ missing }}",
        "{{ art.missing.value }}",
        "{{ missing | upcase }}",
        "{{ user | append: missing }}",
        "{% for x in missing %}{% endfor %}",
        "{% assign x = missing %}{{ x }}",
        "{% if missing > 1 %}{% endif %}",
        "{% if missing contains 'a' %}{% endif %}",
    ],
)
def test_strict_names_what_has_no_value(text: str) -> None:
    with pytest.raises(TemplateUndefined, match="missing"):
        render(text)

    assert render(text, strict=False) in ("", "Tom")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{% if missing %}a{% else %}b{% endif %}", "b"),
        ("{% if missing == nil %}a{% endif %}{% if art.missing.value != 3 %}b{% endif %}", "ab"),
        ("{{ art[missing] | default: 'c' }}", "c"),
        ("{% assign x = missing %}{% if x == blank %}d{% endif %}", "d"),
    ],
)
def test_strict_lets_a_template_ask_whether_there_is_a_value(text: str, expected: str) -> None:
    assert render(text) == expected


def test_an_undefined_name_is_shown_without_computed_keys() -> None:
    with pytest.raises(TemplateUndefined) as caught:
        render("{{ art[big].value }}")

    assert "`art.*` has no value" in str(caught.value)


def test_now_is_only_what_the_scope_says() -> None:
    for text in ("{{ 'now' | date: '%F' }}", "{{ 'today' | date: '%F' }}", "{{ now }}"):
        with pytest.raises(TemplateUndefined):
            Template.parse(text).render({})

    assert Template.parse("{{ 'today' | date: '%Y' }}").render({"now": "1999-01-01"}) == "1999"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ art.world_state.value }}", {("art", "world_state", "value")}),
        ("{{ art['world_state'].value[0] }}", {("art", "world_state", "value", "0")}),
        ("{{ art[x].value }}", {("art", "*", "value"), ("x",)}),
        ("{{ art[x.y[z]] }}", {("art", "*"), ("x", "y", "*"), ("z",)}),
        ("{{ ['art'].a }}", {("art", "a")}),
        ("{{ a | append: b | default: c, allow_false: d }}", {("a",), ("b",), ("c",), ("d",)}),
        (
            "{% if a.b == c or d %}{{ e }}{% elsif f %}{% else %}{{ g }}{% endif %}",
            {("a", "b"), ("c",), ("d",), ("e",), ("f",), ("g",)},
        ),
        ("{% case a %}{% when b %}{{ c }}{% else %}{{ d }}{% endcase %}", {("a",), ("b",), ("c",), ("d",)}),
        (
            "{% for x in art limit: n offset: m %}{{ x.y }}{{ forloop.index }}{% endfor %}{{ x.z }}",
            {("art",), ("n",), ("m",), ("x", "z")},
        ),
        ("{% for x in (a..b) %}{% endfor %}", {("a",), ("b",)}),
        ("{% assign x = art.a %}{{ x.b }}", {("art", "a")}),
        ("{{ x }}{% assign x = 1 %}", {("x",)}),
        ("{% if a %}{% assign art = 1 %}{% endif %}{{ art.secret }}", {("a",), ("art", "secret")}),
        ("{% if a %}{% assign x = 1 %}{% else %}{% assign x = 2 %}{% endif %}{{ x }}", {("a",)}),
        ("{% for i in a %}{% assign x = 1 %}{{ x }}{% endfor %}{{ x }}", {("a",), ("x",)}),
        ("{% capture x %}{{ a }}{% endcapture %}{{ x }}", {("a",)}),
        ("{% increment art %}{{ art.b }}", {("art", "b")}),
        ("{% cycle a: b, c %}{% echo d %}", {("a",), ("b",), ("c",), ("d",)}),
        ("{{ 'x' | date: '%F' }}", {("now",)}),
        ("{% comment %}{{ a }}{% endcomment %}{% raw %}{{ b }}{% endraw %}{% # c %}", set()),
    ],
)
def test_paths_are_what_a_template_may_read(text: str, expected: set[tuple[str, ...]]) -> None:
    assert Template.parse(text).paths() == frozenset(expected)


def test_a_template_keeps_nothing_between_renderings() -> None:
    template = Template.parse(
        "{% increment n %}{% cycle 'a', 'b' %}{% assign x = x | append: 'y' %}{{ x }}", strict=False
    )

    assert template.render({}) == template.render({}) == "0ay"
    assert Template.parse(template.text, strict=False) == template


def test_rendering_changes_no_value() -> None:
    scope = {"items": [3, 1, 2], "more": [4]}

    Template.parse("{% assign y = items | sort | concat: more | reverse %}{{ y }}").render(scope)

    assert scope == {"items": [3, 1, 2], "more": [4]}


def test_people_given_as_mappings_print_as_their_names() -> None:
    scope = {"user": {"name": "Ann", "likes": "tea"}, "char": {"role": "nobody"}}

    shown = Template.parse("{{ user }}: {{ user.likes }}, {{ char }}").render(scope)

    assert shown == 'Ann: tea, {"role": "nobody"}'


def test_a_template_engine_is_loaded_by_the_first_template_only() -> None:
    code = (
        "import sys, artelier, artelier.operations.template_engine.template, "
        "artelier.operations.transforms.transform\n"
        "from artelier import cli\n"
        "try: cli.main(['--help'])\n"
        "except SystemExit: pass\n"
        "assert not {'liquid', 'jsonpath_rfc9535', 'babel'} & set(sys.modules)"
    )

    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, capture_output=True)
