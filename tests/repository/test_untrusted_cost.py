"""Nothing whose cost an outsider chooses is without a bound, or holds up the event loop.

Every pattern that is not written in the source, and every parser of text that others may have made, is listed
here under what bounds its cost. A new one needs a line, and a true reason. Patterns of others belong to
`artelier.patterns`; what is large belongs into a thread or into a helper process.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.repository.sources import ROOT, sources
from tests.repository.untrusted import Use, uses

ALLOWED: dict[str, str] = {
    "a world of 256 KiB that is our own JSON by then, and files that the server wrote of it, in a thread": """
        server/sweeps.py:_as_stored msgspec.json.decode
        server/sweeps.py:_record_of msgspec.json.decode
        server/sweeps.py:_end_of msgspec.json.decode
        server/sweeps.py:_world_of msgspec.json.decode
    """,
    "2,000 lines at most, in a thread": """
        artifacts/content.py:_Matcher difflib.SequenceMatcher
        artifacts/content.py:_Matcher.get_opcodes difflib.SequenceMatcher
    """,
    "one name against a list of ours or of 1,000 at most: those of another length are passed over": """
        cli/settings/schema.py:_nearest difflib.get_close_matches
        ports/model_params.py:check_params difflib.get_close_matches
        server/wire/base.py:RequestBody._name_nearest difflib.get_close_matches
        tools/function.py:ToolRegistry.get difflib.get_close_matches
        tools/skills/meta_tools.py:_unknown difflib.get_close_matches
        world/config.py:mistake difflib.get_close_matches
        world/genesis/file.py:_check_named difflib.get_close_matches
        world/queries/reports.py:check_kinds difflib.get_close_matches
    """,
    "the server's own two cookies, 1,000 characters each": """
        server/security/identity.py:_cookies http.cookies.SimpleCookie
    """,
    "large artifacts, and files of the command line that `casting` reads, in a thread": """
        artifacts/content.py:<module> msgspec.json.Decoder
        operations/lore/untrusted_files.py:<module> msgspec.json.Decoder
        operations/lore/character_cards.py:_decode base64.b64decode
    """,
    "kept beside a message: 400,000 characters, and 3,000 items but for other wordings": """
        chat/conversation_files.py:_read_kept msgspec.json.decode
    """,
    "the line above a chat's messages, which was just made of 64 KiB and a note": """
        chat/conversation_files.py:_head msgspec.json.decode
    """,
    "2,000 names after a look at the directory, and one file of 8 MiB, in a thread": """
        operations/lore/character_cards.py:card_of_charx zipfile.ZipFile
        operations/lore/character_cards.py:<module> zipfile.BadZipFile
        operations/lore/character_cards.py:card_of_charx zipfile.ZIP_STORED
        operations/lore/character_cards.py:card_of_charx zipfile.ZIP_DEFLATED
        operations/lore/character_cards.py:_packed_files zipfile.ZipFile
    """,
    "an archive of the card that was just written": """
        operations/lore/character_cards.py:write_charx zipfile.ZipFile
        operations/lore/character_cards.py:write_charx zipfile.ZipInfo
        operations/lore/character_cards.py:write_charx zipfile.ZIP_DEFLATED
    """,
    "a body or a file within its bound; what is large in a thread": """
        server/a2a/protocol.py:read_request msgspec.json.decode
        server/agui/client_answers.py:_content_of msgspec.json.decode
        server/agui/run_input.py:_upgrade msgspec.json.decode
        webhooks/signed_requests.py:_read msgspec.json.decode
        webhooks/signed_requests.py:<module> msgspec.json.Decoder
        server/openai_api/calls.py:_sorted_members json.loads
        artifacts/media/inspection.py:decode_base64 base64.b64decode
        server/openai_api/requests.py:arguments_of json.loads
        server/pii.py:<module> json.loads
        server/pii.py:ReadRequest.json json.loads
        server/pii.py:<module> msgspec.json.decode
        server/routes/uploads.py:content_of msgspec.json.decode
        server/wire/artifacts.py:content_of base64.b64decode
    """,
    "scrubbed: large texts beside the loop, but messages that a program appends without `add`": """
        kernel/pii_scrubber.py:Personal._arguments msgspec.json.decode
        kernel/pii_scrubber.py:Personal._escape msgspec.json.decode
        kernel/pii_scrubber.py:Personal.receive_arguments msgspec.json.decode
        pii/vault.py:is_json msgspec.json.decode
        pii/scrubber.py:Scrubber._refit msgspec.json.decode
        pii/vault.py:loses_fields msgspec.json.decode
    """,
    "tokens of 100,000 characters at most": """
        pii/hidden_values.py:_of_base64 base64.b64decode
    """,
    "an answer of ours, read once to be shown": """
        server/pii.py:_restored_json msgspec.json.decode
    """,
    "stored messages that show media, when all of a run or a store is exported, imported or checked": """
        ports/media.py:media_refs msgspec.json.decode
    """,
    "a helper process, killed for its time": """
        artifacts/media/worker.py:_answer base64.b64decode
        child.py:Child.ask json.loads
        child_loop.py:serve json.loads
        operations/transforms/worker.py:_answer import_module(regex)
        operations/transforms/worker.py:_answer import_module(jsonpath_rfc9535)
        operations/transforms/steps.py:_compile_dialect re.compile
        operations/transforms/steps.py:_other regex.compile
        operations/transforms/steps.py:_document json.loads
        operations/transforms/steps.py:_compile re.compile
        operations/transforms/steps.py:_nodes jsonpath_rfc9535.JSONPathEnvironment
        tools/worker/tables.py:_layout csv.reader
        tools/worker/tables.py:_width csv.reader
        tools/worker/tables.py:_rows csv.reader
        tools/worker/__main__.py:_compile re.compile
        tools/worker/documents.py:_parse json.loads
        tools/worker/queries.py:RawTable.digit_share REGEXP in SQL
        tools/worker/documents.py:_read_bounds zipfile.ZipFile
        tools/worker/documents.py:_read_bounds zipfile.BadZipFile
    """,
    "read and bounded by `patterns`, never a text": """
        patterns/regex.py:engine re2 passed on
        patterns/regex.py:Linear._compile re2 passed on
        patterns/regex.py:Linear._compile re2.compile
        patterns/regex.py:_atom re.compile
        patterns/regex.py:_atom regex.compile
        patterns/regex_syntax.py:parse_pattern import_module(re._parser)
        patterns/regex_syntax.py:program_of import_module(re._parser)
    """,
    "compiled after `size_of`, with a time limit, in a thread": """
        operations/lore/entry_rules.py:pattern_of regex.compile
    """,
    "compiled after `check_pattern`, with a time limit": """
        pii/detectors/search.py:_compile regex.compile
    """,
    "parsed only, 1,000 characters": """
        operations/transforms/forms.py:groups_of import_module(re._parser)
        operations/transforms/forms.py:path_problem jsonpath_rfc9535.JSONPathEnvironment
    """,
    "groups without content": """
        operations/transforms/forms.py:replacement_problem re.compile
    """,
    "quoted words of the text or of names, each of which matches itself": """
        artelier_offline/state.py:_stated re.search
        missions/task/evaluation.py:_is_figure re.search
        tools/http_json.py:Veil._pattern re.compile
    """,
    "one of our own patterns, handed on": """
        artelier_offline/state.py:_said re.compile
        pii/detectors/number_forms.py:words re.compile
    """,
    "tables of a package": """
        pii/detectors/phone.py:_union re.compile
    """,
    "`fnmatch` gives nothing back since 3.9: text times pattern": """
        kernel/policy.py:is_granted fnmatch.fnmatchcase
        kernel/policy.py:covers fnmatch.fnmatchcase
        kernel/rates.py:claims_of fnmatch.fnmatchcase
    """,
    "a tool of the operator: `artelier migrate`": """
        artelier_migrate/code_step.py:read_code ast.parse
        artelier_migrate/code_step.py:names_in ast.parse
        artelier_migrate/document.py:_composer yaml.SafeLoader
        artelier_migrate/document.py:_composer.Composer yaml.SafeLoader
        artelier_migrate/prompts.py:personality re.sub
        artelier_migrate/workflow.py:_not_yet ast.parse
        artelier_migrate/workflow.py:_translated ast.parse
    """,
    "typed or kept by the operator: command line, settings, users": """
        ports/webhook.py:secret_key base64.b64decode
        ports/model_params.py:_value_of msgspec.json.decode
        server/security/users.py:ProgramTokens.list msgspec.json.decode
        tools/mcp/configuration.py:ServerApprovals._read msgspec.json.decode
        tools/mcp/configuration.py:read_servers json.loads
        cli/completion.py:_configured_database tomllib.loads
        plugins.py:own_members tomllib.loads
        cli/plugin_commands.py:_allowed tomllib.loads
        cli/plugin_commands.py:_remembered json.loads
        cli/approvals.py:ApprovalDesk._edit_arguments msgspec.json.decode
        cli/chat/edit_commands.py:_change msgspec.json.decode
        cli/doctor.py:_skew_s email.utils.parsedate_to_datetime
        cli/runs/control.py:json_argument msgspec.json.decode
        cli/settings/schema.py:_parse tomllib.loads
        cli/settings/file.py:sources tomllib.loads
        cli/narration/run_events.py:Narration.json msgspec.json.decode
        cli/world/transfer.py:_content json.loads
        cli/world/transfer.py:_value json.loads
        world/figures/sweep_processes.py:serve_jobs msgspec.json.Decoder
        world/figures/sweep_processes.py:_process.ask msgspec.json.decode
        server/security/login_sessions.py:Sessions.__init__ base64.urlsafe_b64decode
        server/security/login_sessions.py:Sessions._load msgspec.json.decode
        server/security/login_sessions.py:Sessions._load base64.urlsafe_b64decode
        server/security/users.py:Users.load tomllib.loads
        world/genesis/file.py:read_world_file tomllib.loads
        world/genesis/file.py:_Files._load msgspec.json.decode
        world/figures/sweep.py:row_of msgspec.json.decode
    """,
    "in a thread, of a body or file within its bound": """
        operations/profile/draft_parser.py:_parse msgspec.json.decode
    """,
    "in a thread, with at most 50,000 items, and 20 dots a key: the square of its parts": """
        world/genesis/file.py:read_world_text tomllib.loads
    """,
    "cut to 1,000 characters or a header before": """
        pii/vault.py:_bytes_of base64.b64decode
        server/mcp/client_view.py:_after base64.b64decode
        server/security/login_sessions.py:Sessions.read base64.b64decode
        server/security/login_sessions.py:Sessions.read msgspec.json.decode
        server/security/users.py:_parts base64.b64decode
        tools/http_rules.py:_credentials base64.b64decode
    """,
    "a reply, within `Policy.reply_bytes_max`; JSON of 8 MB takes 50 ms": """
        world/actions/action.py:<module> json.JSONDecoder
        kernel/steps/structured_output.py:_value_of msgspec.json.decode
        kernel/steps/structured_output.py:_text_of msgspec.json.decode
        missions/task/actions.py:check_content msgspec.json.decode
        missions/task/actions.py:json_of msgspec.json.decode
        missions/task/output_lint.py:json_in msgspec.json.decode
        models/params.py:parse_output msgspec.json.decode
        models/params.py:parse_arguments msgspec.json.decode
        operations/kinds/contract.py:_decode msgspec.json.decode
    """,
    "the request of the offline model, cut to what it reads": """
        artelier_offline/conversation.py:json_in json.JSONDecoder
    """,
    "inflated piece by piece, up to a bound": """
        kernel/export/archive.py:ArchiveReader._chunks zlib.decompressobj
        log/blobs.py:unpack zlib.decompressobj
        models/http_client.py:_Inflate.__init__ zlib.decompressobj
        tools/http_json.py:_read_reply zlib.decompressobj
    """,
    "answers within `BODY_BYTES_MAX` of the tool": """
        tools/http_json.py:_value msgspec.json.decode
        tools/http_json.py:_about msgspec.json.decode
    """,
    "arguments within `ARGUMENTS_BYTES_MAX`": """
        tools/mcp/schema.py:_object msgspec.json.decode
        tools/parameters.py:_decode msgspec.json.decode
    """,
    "keywords with a budget of work": """
        tools/mcp/schema.py:_checker import_module(jsonschema.validators)
        tools/mcp/schema.py:_validator import_module(jsonschema.validators)
        tools/mcp/schema.py:_misfit import_module(jsonschema.exceptions)
    """,
    "16 KB, with its nodes and depth counted": """
        tools/skills/frontmatter.py:_mapping yaml.compose
        tools/skills/frontmatter.py:_mapping yaml.BaseLoader
        tools/skills/frontmatter.py:_check_events yaml.parse
        tools/skills/frontmatter.py:_check_events yaml.BaseLoader
    """,
    "code of 32 KB, its braces and marks counted before, or 2,000 characters at most": """
        sandbox/dialect_check.py:_parse ast.parse
    """,
    "a template of bounded length, its nodes counted": """
        operations/template_engine/compiler.py:_Environment liquid.Environment
        operations/template_engine/compiler.py:_parse liquid.parser.get_parser
        operations/template_engine/filters.py:<module> html.unescape
    """,
    "our own source or files of the package": """
        world/mind_artifacts/prompt.py:shipped_workflow json.loads
        server/wire/base.py:_docstrings ast.parse
        server/wire/base.py:_docstrings re.search
    """,
    "lines of an export, each within its bound": """
        kernel/export/archive.py:<module> msgspec.json.Decoder
        kernel/export/archive.py:ArchiveWriter.__init__ gzip.GzipFile
        kernel/export/archive.py:ArchiveReader._header msgspec.json.decode
    """,
    "what this process has just encoded": """
        kernel/steps/model_step.py:_Port.complete msgspec.json.decode
        kernel/prompt/renderer.py:assemble msgspec.json.decode
        models/params.py:dropped_of json.loads
        operations/transforms/transform.py:_data msgspec.json.decode
        operations/lore/schemas.py:LoreForm.to_content msgspec.json.decode
        server/agui/event_follower.py:_decode msgspec.json.decode
        server/mcp/client_view.py:_tool_result msgspec.json.decode
        world/history/world_diff.py:NormalForm.of msgspec.json.decode
    """,
    "written by this very program, for a process that it starts": """
        confinement.py:decode_plan json.loads
        confinement.py:standing json.loads
    """,
    "stored by us, within the bounds of what stored it": """
        agents/transfer.py:_json msgspec.json.decode
        artifacts/access.py:Access.read msgspec.json.decode
        kernel/steps/failures.py:raise_recorded msgspec.json.decode
        kernel/prompt/manifest.py:<module> msgspec.json.Decoder
        kernel/prompt/manifest.py:message_of_result msgspec.json.decode
        kernel/queries/content.py:content msgspec.json.decode
        kernel/run/handle.py:Run._compute msgspec.json.decode
        kernel/run/handle.py:Run.reading msgspec.json.decode
        kernel/tool_calls/tool_outcome.py:refuse msgspec.json.decode
        kernel/tool_calls/tool_outcome.py:encode_outcome msgspec.json.decode
        kernel/tool_calls/tool_outcome.py:return_recorded msgspec.json.decode
        kernel/tool_calls/tool_outcome.py:replay_result msgspec.json.decode
        kernel/tool_calls/tool_step.py:_live msgspec.json.decode
        log/blobs.py:blob_name base64.b64decode
        log/erasure.py:refs_in base64.urlsafe_b64decode
        log/erasure.py:reaches msgspec.json.decode
        log/event.py:<module> msgspec.json.Decoder
        log/event.py:decode_data msgspec.json.decode
        log/contract.py:_plain msgspec.json.decode
        log/contract.py:decode_stored msgspec.json.decode
        log/blobs.py:blob_refs msgspec.json.decode
        memory/entries.py:_config_of msgspec.json.decode
        memory/consolidation.py:losses_of msgspec.json.decode
        memory/consolidation.py:_facts msgspec.json.decode
        memory/memory_handle.py:MemoryScope._opening msgspec.json.decode
        memory/index/index_cache.py:<module> msgspec.json.Decoder
        memory/message_history.py:Transcript.value msgspec.json.decode
        memory/message_history.py:Transcript._outcome msgspec.json.decode
        missions/queries.py:task_end msgspec.json.decode
        missions/queries.py:_item msgspec.json.decode
        missions/queries.py:standing_of msgspec.json.decode
        chat/chat_file.py:ChatFile.settings msgspec.json.decode
        chat/chat_file.py:ChatFile.job msgspec.json.decode
        chat/chat_file.py:_is_text msgspec.json.decode
        chat/chat_file.py:_is_json msgspec.json.decode
        chat/session/settings.py:_json msgspec.json.decode
        chat/rows.py:<module> msgspec.json.Decoder
        chat/turn/turn_inputs.py:found_from msgspec.json.decode
        server/agui/event_fold.py:_plain msgspec.json.decode
        server/agui/event_follower.py:_readable msgspec.json.decode
        server/graph/records.py:<module> msgspec.json.Decoder
        server/graph/keeper.py:GraphCheckpoint.open zlib.decompress
        server/graph/records.py:<module> msgspec.msgpack.Decoder
        server/event_encoder.py:_without_path msgspec.json.decode
        server/event_encoder.py:shorten_content msgspec.json.decode
        server/event_encoder.py:_shortened_json msgspec.json.decode
        server/event_encoder.py:_without_path msgspec.json.decode
        tools/skills/source.py:definition_from msgspec.json.decode
        tools/skills/approval.py:Skills._json msgspec.json.decode
        tools/skills/approval.py:_was_unreadable msgspec.json.decode
        tools/skills/approval.py:usable_tools msgspec.json.decode
        world/tick/tick_context.py:offer_fact msgspec.json.decode
        world/queries/worlds.py:checkpoint_before msgspec.json.decode
        world/queries/reports.py:_say_settings msgspec.json.decode
        world/services.py:_config msgspec.json.decode
        world/tick/agent_facts.py:<module> msgspec.json.Decoder
        world/history/transfer.py:SocietyCheck.content msgspec.json.decode
        world/tick/world_state.py:WorldStage.asks_consent msgspec.json.decode
        world/world.py:World.config msgspec.json.decode
    """,
}
"""By reason: each line is a place and what is used there."""

LEFT_OUT = {"testing"}
"""Packages that only read what they have made."""


def entries() -> dict[str, str]:
    """Every allowed use with its reason."""
    return {line.strip(): reason for reason, lines in ALLOWED.items() for line in lines.strip().splitlines()}


@cache
def uses_below(root: Path) -> list[tuple[Path, Use]]:
    """Every use below a root, with its file."""
    return [(source.path, use) for source in sources(root) for use in uses(source)]


def check_uses(root: Path, allowed: dict[str, str]) -> list[str]:
    """Every use below `root/artelier` that is not allowed."""
    return [
        f"{path}:{use.line} {use.entry}: what bounds its cost?"
        for path, use in uses_below(root)
        if path.parts[1] not in LEFT_OUT and use.entry not in allowed
    ]


def test_every_pattern_and_parser_of_text_of_others_has_a_bound() -> None:
    assert check_uses(ROOT / "src", entries()) == []


def test_the_list_names_only_what_is_there() -> None:
    found = {use.entry for _, use in uses_below(ROOT / "src")}

    assert set(entries()) - found == set()
    assert all(reason.strip() and len(reason) < 100 for reason in ALLOWED)


PLANTS = [
    ("import re\ndef f(p, t):\n    return re.search(p, t)", "x.py:f re.search"),
    ("from re import compile as c\ndef f(p):\n    return c(p)", "x.py:f re.compile"),
    ("import regex as r\nclass A:\n    def f(self, p):\n        r.compile(p)", "x.py:A.f regex.compile"),
    ("import re\nfind = re.search\n", "x.py:<module> re.search passed on"),
    ("import re\ndef f(ps):\n    return list(map(re.compile, ps))", "x.py:f re.compile passed on"),
    ("import re as r\ndef f(p):\n    return getattr(r, 'compile')(p)", "x.py:f re passed on"),
    ("import re\nengine = re\n", "x.py:<module> re passed on"),
    ("from re import *\n", "x.py:<module> re passed on"),
    ("from importlib import import_module\nm = import_module('regex')", "x.py:<module> import_module(regex)"),
    ("def f(p):\n    return __import__('re').compile(p)", "x.py:f import_module(re)"),
    ("import re\ndef f(a):\n    return re.compile(rf'^{a}$')", "x.py:f re.compile"),
    ("import re\ndef f(words):\n    return [re.sub(w, '', 'x') for w in words]", "x.py:f re.sub"),
    ("import re\nA = re.compile(pattern=open('p').read())", "x.py:<module> re.compile"),
    ("import re\nA = re.compile(open('p').read())", "x.py:<module> re.compile"),
    ("import fnmatch\ndef f(t, p):\n    return fnmatch.fnmatch(t, p)", "x.py:f fnmatch.fnmatch"),
    ("import glob\ndef f(p):\n    return glob.glob(p)", "x.py:f glob.glob"),
    ("import re2\ndef f(p):\n    return re2.fullmatch(p, 'x')", "x.py:f re2.fullmatch"),
    ("from pydantic import Field\ndef f(p):\n    return Field(pattern=p)", "x.py:f Field(pattern=)"),
    ("def f(db):\n    db.create_function('REGEXP', 2, None)", "x.py:f create_function"),
    ("Q = 'SELECT a FROM t WHERE a REGEXP ?'", "x.py:<module> REGEXP in SQL"),
    ("import json\ndef f(t):\n    return json.loads(t)", "x.py:f json.loads"),
    ("from json import loads as read\nx = read", "x.py:<module> json.loads"),
    ("import json as j\ndef f(m=j): ...", "x.py:f json passed on"),
    ("import msgspec\nd = msgspec.json.Decoder().decode", "x.py:<module> msgspec.json.Decoder"),
    ("from msgspec import json\ndef f(t):\n    return json.decode(t)", "x.py:f msgspec.json.decode"),
    ("def f(t):\n    import yaml\n    return yaml.safe_load(t)", "x.py:f yaml.safe_load"),
    ("import zipfile\ndef f(p):\n    return zipfile.ZipFile(p)", "x.py:f zipfile.ZipFile"),
    (
        "import xml.etree.ElementTree as E\ndef f(t):\n    return E.fromstring(t)",
        "x.py:f xml.etree.ElementTree.fromstring",
    ),
    ("from html.parser import HTMLParser\nclass P(HTMLParser): ...", "x.py:P html.parser.HTMLParser"),
    ("from PIL import Image\ndef f(p):\n    return Image.open(p)", "x.py:f PIL.Image.open"),
    ("import markdown\ndef f(t):\n    return markdown.markdown(t)", "x.py:f markdown.markdown"),
    ("import csv\ndef f(t):\n    return list(csv.reader(t))", "x.py:f csv.reader"),
    ("from base64 import b64decode\ndef f(t):\n    return b64decode(t)", "x.py:f base64.b64decode"),
    ("import tomllib\ndef f(t):\n    return tomllib.loads(t)", "x.py:f tomllib.loads"),
    ("import zlib\ndef f(t):\n    return zlib.decompress(t)", "x.py:f zlib.decompress"),
    ("import ast\ndef f(t):\n    return ast.literal_eval(t)", "x.py:f ast.literal_eval"),
    ("import jsonschema\ndef f(v, s):\n    jsonschema.validate(v, s)", "x.py:f jsonschema.validate"),
    ("import difflib\ndef f(a, b):\n    return difflib.ndiff(a, b)", "x.py:f difflib.ndiff"),
    (
        "from http.cookies import SimpleCookie\ndef f(t):\n    SimpleCookie(t)",
        "x.py:f http.cookies.SimpleCookie",
    ),
]


@pytest.mark.parametrize(("text", "entry"), PLANTS)
def test_a_planted_use_is_found(tmp_path: Path, text: str, entry: str) -> None:
    path = tmp_path / "artelier" / "x.py"
    path.parent.mkdir()
    path.write_text(text + "\n")

    found = check_uses(tmp_path, entries())

    assert any(f" {entry}: " in one for one in found), found


OWN = """
import json, re
from re import compile as c, escape
from collections.abc import Sequence
_NAME = r"[a-z]+"
_DOTTED = rf"{_NAME}(?:\\.{_NAME})*"
A = re.compile(rf"^{_DOTTED}$", re.IGNORECASE)
B = tuple(c(pattern) for pattern in ("a+", "b+"))
C = re.compile("|".join(re.escape(word) for word in sorted(("x", "y"))))
def f(text: str, found: re.Match[str]) -> str | None:
    json.dumps(text)
    for word in ("one", "two"):
        text = re.sub(rf"\\b{word}\\b", "", text)
    return A.sub(escape(text), text) if isinstance(found, re.Match) else None
"""


def test_patterns_of_our_own_need_no_line(tmp_path: Path) -> None:
    (tmp_path / "artelier").mkdir()
    (tmp_path / "artelier" / "own.py").write_text(OWN)

    assert check_uses(tmp_path, {}) == []
