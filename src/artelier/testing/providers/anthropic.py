"""The Messages API of Anthropic, as strict as the real one.

Sources: platform.claude.com/docs/en/api/messages and, in .../build-with-claude/, prompt-caching,
extended-thinking, vision and pdf-support.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from artelier.models.params import output_text
from artelier.models.scripted import PlainStep
from artelier.ports.model import ModelReply
from artelier.testing.faults import Fault
from artelier.testing.providers.bills import (
    CachedBlock,
    CallBill,
    Json,
    PromptCache,
    Refusal,
    SentMedium,
    StrictProvider,
    area_tokens,
    check_papers,
    check_pictures,
    content_bytes,
    objects,
    sent_medium,
    server_sent,
    sign,
    tokens_of,
)

MARKS_MAX = 4
LOOKBACK_BLOCKS = 20
BODY_BYTES_MAX = 32 * 1024 * 1024
IMAGE_BYTES_MAX = 5 * 1024 * 1024
IMAGES_MAX = 100
IMAGE_PIXELS_MAX = 8_000
MANY_IMAGES, MANY_IMAGES_PIXELS_MAX = 20, 2_000
"""In a request with more images than this, each may be smaller only."""
IMAGE_TOKENS_MAX = 1_600
PDF_PAGES_MAX = 100
PAGE_TOKENS = 2_300
"""Of a page of a PDF: some 700 of text, and an image."""
THINKING_TOKENS_MIN = 1024
TOOL_PROMPT_TOKENS = 346
"""What Anthropic adds where tools are offered."""
MESSAGE_TOKENS = 4
"""What stands around a message."""
WINDOW_TOKENS = 200_000
OUTPUT_TOKENS_MAX = 64_000

_LIFETIMES = {"5m": 300, "1h": 3600}
_TOP = frozenset(
    (
        "model",
        "messages",
        "max_tokens",
        "system",
        "tools",
        "tool_choice",
        "stream",
        "temperature",
        "top_p",
        "top_k",
        "stop_sequences",
        "thinking",
        "metadata",
        "service_tier",
        "output_config",
        "output_format",
        "cache_control",
        "betas",
        "container",
        "context_management",
        "mcp_servers",
    )
)
_ID = re.compile(r"\A[a-zA-Z0-9_-]+\Z")
_TOOL_NAME = re.compile(r"\A[a-zA-Z0-9_-]{1,128}\Z")
_MARKABLE = frozenset(("text", "image", "document", "tool_use", "tool_result"))


def prefix_tokens_min(model: str) -> int:
    """Return how many tokens a prefix needs to be kept."""
    if re.search(r"haiku-4|opus-4-[5-9]", model):
        return 4096
    if re.search(r"haiku|sonnet-4-6", model):
        return 2048
    return 1024


class StrictAnthropic(StrictProvider):
    """A double of `POST /v1/messages`.

    with OpenAIServer(StrictAnthropic(["hello"])) as server:
        environ = {"ANTHROPIC_API_KEY": "test", "ANTHROPIC_BASE_URL": server.base_url.removesuffix("/v1")}
    """

    def __init__(
        self,
        script: Sequence[PlainStep | Fault] | Callable[[Json], PlainStep | Fault],
        *,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(script, now_s=now_s)
        self._caches: dict[int, PromptCache] = {}

    def check(self, body: Json) -> None:
        """Refuse what the API refuses. Errors: `Refusal`."""
        if len(content_bytes(body)) > BODY_BYTES_MAX:
            raise Refusal("Request exceeds the maximum size", status_code=413)
        for name in body:
            if name not in _TOP:
                raise Refusal(f"{name}: Extra inputs are not permitted")
        for name in ("model", "messages", "max_tokens"):
            if name not in body:
                raise Refusal(f"{name}: Field required")
        limit = body["max_tokens"]
        if not isinstance(limit, int) or limit < 1:
            raise Refusal("max_tokens: Input should be greater than or equal to 1")
        if limit > OUTPUT_TOKENS_MAX:
            raise Refusal(
                f"max_tokens: {limit} > {OUTPUT_TOKENS_MAX}, which is the maximum allowed number of output"
                f" tokens for {body['model']}"
            )
        _check_tools(body)
        _check_thinking(body, limit)
        messages = objects(body["messages"])
        _check_messages(messages)
        _check_pairs(messages)
        _check_reasoning(messages)
        _check_first_thought(body, messages)
        _check_media(messages)
        _check_marks(body)
        if (tokens := sum(block.tokens for block in _blocks(body))) + limit > WINDOW_TOKENS:
            raise Refusal(f"prompt is too long: {tokens + limit} tokens > {WINDOW_TOKENS} maximum")

    def bill(self, body: Json) -> CallBill:
        least = prefix_tokens_min(str(body["model"]))
        cache = self._caches.setdefault(
            least, PromptCache(lookback_blocks=LOOKBACK_BLOCKS, prefix_tokens_min=least, now_s=self._now_s)
        )
        return cache.bill(str(body["model"]), [*_blocks(body)])

    def answer(self, body: Json, reply: ModelReply, bill: CallBill) -> Fault:
        content, output_tokens, is_cut = _content(body, reply, number=len(self.bodies))
        reasoning = sum(tokens_of(block["thinking"]) for block in content if block["type"] == "thinking")
        has_calls = any(block["type"] == "tool_use" for block in content)
        bill = CallBill(
            fresh_tokens=bill.fresh_tokens,
            read_tokens=bill.read_tokens,
            written_tokens=bill.written_tokens,
            written_long_tokens=bill.written_long_tokens,
            output_tokens=output_tokens,
            reasoning_tokens=reasoning,
        )
        self.bills.append(bill)
        message: Json = {
            "id": f"msg_{len(self.bodies)}",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": content,
            "stop_reason": "max_tokens" if is_cut else "tool_use" if has_calls else "end_turn",
            "stop_sequence": None,
            "usage": {
                "input_tokens": bill.fresh_tokens,
                "cache_creation_input_tokens": bill.written_tokens,
                "cache_read_input_tokens": bill.read_tokens,
                "cache_creation": {
                    "ephemeral_5m_input_tokens": bill.written_tokens - bill.written_long_tokens,
                    "ephemeral_1h_input_tokens": bill.written_long_tokens,
                },
                "output_tokens": output_tokens,
                "service_tier": "standard",
            },
        }
        if not body.get("stream"):
            return Fault.raw(json.dumps(message).encode())
        return server_sent([*message_events(message)])

    def refuse(self, refusal: Refusal) -> Fault:
        kind = "request_too_large" if refusal.status_code == 413 else "invalid_request_error"
        error = {"type": "error", "error": {"type": kind, "message": str(refusal)}}
        return Fault.raw(json.dumps(error).encode(), status_code=refusal.status_code)


# Checks


def _check_tools(body: Json) -> None:
    names: set[str] = set()
    for tool in objects(body.get("tools", [])):
        name = str(tool.get("name", ""))
        if not _TOOL_NAME.match(name):
            raise Refusal(f"tools.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$', got {name!r}")
        if name in names:
            raise Refusal("tools: Tool names must be unique.")
        names.add(name)
        if "type" not in tool and tool.get("input_schema", {}).get("type") != "object":
            raise Refusal("tools.input_schema.type: Input should be 'object'")
    choice = body.get("tool_choice", {}).get("type", "auto")
    if choice in ("any", "tool") and not names:
        raise Refusal("tool_choice: tool_choice may only be specified while providing tools")


def _check_thinking(body: Json, limit: int) -> None:
    thinking = cast(Json, body.get("thinking") or {})
    if thinking.get("type") not in ("enabled", "adaptive"):
        return
    if thinking["type"] == "enabled":
        budget = thinking.get("budget_tokens")
        if not isinstance(budget, int) or budget < THINKING_TOKENS_MIN:
            raise Refusal(
                f"thinking.enabled.budget_tokens: Input should be greater than or equal to"
                f" {THINKING_TOKENS_MIN}"
            )
        if budget >= limit:
            raise Refusal("`max_tokens` must be greater than `thinking.budget_tokens`")
    if body.get("temperature", 1) != 1:
        raise Refusal("`temperature` may only be set to 1 when thinking is enabled")
    if "top_k" in body:
        raise Refusal("`top_k` must be unset when thinking is enabled")
    if body.get("tool_choice", {}).get("type") in ("any", "tool"):
        raise Refusal("Thinking may not be enabled when tool_choice forces tool use.")


def _check_messages(messages: list[Json]) -> None:
    if not messages:
        raise Refusal("messages: at least one message is required")
    if messages[0].get("role") != "user":
        raise Refusal('messages: first message must use the "user" role')
    for number, message in enumerate(messages):
        if message.get("role") not in ("user", "assistant", "system"):
            raise Refusal(f"messages.{number}.role: Input should be 'user' or 'assistant'")
        blocks = _content_of(message)
        is_last = number + 1 == len(messages)
        if not blocks and not (is_last and message["role"] == "assistant"):
            raise Refusal(f"messages.{number}: user messages must have non-empty content")
        for block in blocks:
            if block.get("type") == "text" and not str(block.get("text", "")).strip():
                raise Refusal("messages: text content blocks must contain non-whitespace text")
    last = messages[-1]
    blocks = _content_of(last)
    if last["role"] == "assistant" and blocks and str(blocks[-1].get("text", "")).endswith((" ", "\n")):
        raise Refusal("messages: final assistant content cannot end with trailing whitespace")


def _check_pairs(messages: list[Json]) -> None:
    """Each call is answered in the next message, and each answer there has a call before it."""
    asked: list[str] = []
    seen: set[str] = set()
    for number, message in enumerate(messages):
        if message["role"] == "system":
            continue
        blocks = _content_of(message)
        results = [str(block.get("tool_use_id")) for block in blocks if block.get("type") == "tool_result"]
        if unknown := [one for one in results if one not in asked]:
            raise Refusal(
                f"messages.{number}.content.0: unexpected `tool_use_id` found in `tool_result` blocks:"
                f" {', '.join(unknown)}. Each `tool_result` block must have a corresponding `tool_use` block"
                " in the previous message."
            )
        if len(set(results)) < len(results):
            raise Refusal(f"messages.{number}: each tool_use must have a single result.")
        if missing := [one for one in asked if one not in results]:
            raise Refusal(
                f"messages.{number - 1}: `tool_use` ids were found without `tool_result` blocks immediately"
                f" after: {', '.join(missing)}."
            )
        kinds = [block.get("type") == "tool_result" for block in blocks]
        if True in kinds and False in kinds[: kinds.index(True)]:
            raise Refusal(f"messages.{number}: `tool_result` blocks must come first in the content")
        asked = [str(block.get("id")) for block in blocks if block.get("type") == "tool_use"]
        for one in asked:
            if not _ID.match(one):
                raise Refusal("tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
            if one in seen:
                raise Refusal("messages: `tool_use` ids must be unique")
            seen.add(one)
    if asked:
        raise Refusal(
            "messages: `tool_use` ids were found without `tool_result` blocks immediately after:"
            f" {', '.join(asked)}."
        )


def _check_reasoning(messages: list[Json]) -> None:
    for number, message in enumerate(messages):
        for block in _content_of(message):
            if block.get("type") == "thinking" and block.get("signature") != sign(str(block.get("thinking"))):
                raise Refusal(f"messages.{number}.content.0: Invalid `signature` in `thinking` block")


def _check_first_thought(body: Json, messages: list[Json]) -> None:
    """With a budget of thinking, a turn whose tools were called begins with what was thought."""
    if cast(Json, body.get("thinking") or {}).get("type") != "enabled":
        return
    number = max((n for n, one in enumerate(messages) if one["role"] == "assistant"), default=-1)
    blocks = _content_of(messages[number]) if number >= 0 else []
    if any(block.get("type") == "tool_use" for block in blocks) and blocks[0].get("type") not in (
        "thinking",
        "redacted_thinking",
    ):
        raise Refusal(
            f"messages.{number}.content.0.type: Expected `thinking` or `redacted_thinking`, but found"
            f" `{blocks[0].get('type')}`. When `thinking` is enabled, a final `assistant` message must start"
            " with a thinking block."
        )


def _check_media(messages: list[Json]) -> None:
    blocks = [block for message in messages for block in _content_of(message)]
    shown = [block for block in blocks if block.get("type") in ("image", "document")]
    for block in shown:
        data = str(block.get("source", {}).get("data", ""))
        if block["type"] == "image" and len(data) * 3 // 4 > IMAGE_BYTES_MAX:
            raise Refusal(f"image exceeds 5 MB maximum: {len(data) * 3 // 4} bytes > {IMAGE_BYTES_MAX} bytes")
    media = [_medium(block) for block in shown]
    side_max = IMAGE_PIXELS_MAX if len(media) <= MANY_IMAGES else MANY_IMAGES_PIXELS_MAX
    check_pictures(media, count_max=IMAGES_MAX, bytes_max=IMAGE_BYTES_MAX, side_max=side_max)
    check_papers(media, pages_max=PDF_PAGES_MAX)


def _medium(block: Json) -> SentMedium:
    source = cast(Json, block.get("source") or {})
    if source.get("type") != "base64":
        raise Refusal(f"{block['type']}.source.type: Input should be 'base64'")
    medium = sent_medium(str(source.get("data", "")), str(source.get("media_type", "")))
    if (block["type"] == "document") != (medium.media_type == "application/pdf"):
        raise Refusal(f"{block['type']}.source.media_type: {medium.media_type} is not supported")
    return medium


def _check_marks(body: Json) -> None:
    marked = [block for block in _raw_blocks(body) if "cache_control" in block]
    count = len(marked) + ("cache_control" in body)
    if count > MARKS_MAX:
        raise Refusal(f"A maximum of {MARKS_MAX} blocks with cache_control may be provided. Found {count}.")
    lifetimes: list[int] = []
    for block in marked:
        if block.get("type", "tool") not in (*_MARKABLE, "tool", "custom"):
            raise Refusal(f"{block['type']}.cache_control: Extra inputs are not permitted")
        if block.get("type") == "text" and not block.get("text"):
            raise Refusal("cache_control cannot be set for empty text blocks")
        lifetime = block["cache_control"].get("ttl", "5m")
        if block["cache_control"].get("type") != "ephemeral" or lifetime not in _LIFETIMES:
            raise Refusal("cache_control: Input should be 'ephemeral' with a ttl of '5m' or '1h'")
        lifetimes.append(_LIFETIMES[lifetime])
    if lifetimes != sorted(lifetimes, reverse=True):
        raise Refusal("a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block")


# The prompt as blocks


def _content_of(message: Json) -> list[Json]:
    content = message.get("content", "")
    return [{"type": "text", "text": content}] if isinstance(content, str) else objects(content)


def _raw_blocks(body: Json) -> Iterator[Json]:
    """Yield the blocks in the order of the prefix: tools, system, messages."""
    yield from objects(body.get("tools", []))
    system = body.get("system", [])
    yield from [{"type": "text", "text": system}] if isinstance(system, str) else objects(system)
    for message in objects(body["messages"]):
        yield from _content_of(message)


def _blocks(body: Json) -> Iterator[CachedBlock]:
    tools = objects(body.get("tools", []))
    system = body.get("system", [])
    texts = [{"type": "text", "text": system}] if isinstance(system, str) else objects(system)
    if "output_config" in body or "output_format" in body:
        asked = body.get("output_config") or body.get("output_format")
        yield CachedBlock(content=content_bytes(["output", asked]), tokens=tokens_of(asked))
    for number, tool in enumerate(tools):
        yield _block(["tool"], tool, extra=0 if number else TOOL_PROMPT_TOKENS)
    # Another of these invalidates the cached messages, though not tools and system.
    frame = [body.get("tool_choice"), body.get("thinking")]
    for text in texts:
        if text["text"]:
            yield _block(["system"], text)
    for message in objects(body["messages"]):
        for number, block in enumerate(_content_of(message)):
            yield _block([message["role"], number == 0, frame], block, extra=0 if number else MESSAGE_TOKENS)


def _block(where: list[Any], block: Json, *, extra: int = 0) -> CachedBlock:
    plain = {name: value for name, value in block.items() if name != "cache_control"}
    mark = block.get("cache_control")
    if plain.get("type") == "text":
        tokens = tokens_of(plain["text"])
    elif plain.get("type") in ("image", "document"):
        medium = _medium(plain)
        tokens = medium.pages * PAGE_TOKENS or area_tokens(medium, tokens_max=IMAGE_TOKENS_MAX)
    else:
        tokens = tokens_of(
            {name: value for name, value in plain.items() if name not in ("type", "signature")}
        )
    return CachedBlock(
        content=content_bytes([*where, plain]),
        tokens=tokens + extra,
        lifetime_s=None if mark is None else _LIFETIMES[mark.get("ttl", "5m")],
    )


# The answer


def _content(body: Json, reply: ModelReply, *, number: int) -> tuple[list[Json], int, bool]:
    """Return the blocks of the answer, its tokens, and True if the limit has cut it."""
    left, content = int(body["max_tokens"]), list[Json]()
    if cast(Json, body.get("thinking") or {}).get("type") in ("enabled", "adaptive"):
        thought = "Let me think about that."
        content.append({"type": "thinking", "thinking": thought, "signature": sign(thought)})
        left -= tokens_of(thought)
    answers, forced = _forced_output(body, reply)
    if reply.text and forced is None:
        text = reply.text[: max(1, left) * 4]
        content.append({"type": "text", "text": text, "citations": None})
        left -= tokens_of(reply.text)
    for index, (name, arguments) in enumerate(answers):
        content.append(
            {"type": "tool_use", "id": f"toolu_{number}_{index}", "name": name, "input": arguments}
        )
        left -= tokens_of(arguments)
    written = int(body["max_tokens"]) - max(0, left)
    return content, max(1, written), left < 0


def _forced_output(body: Json, reply: ModelReply) -> tuple[list[tuple[str, object]], str | None]:
    """Return the calls of an answer; an output goes through the tool that must be called."""
    calls = [(call.name, call.arguments) for call in reply.tool_calls]
    choice = cast(Json, body.get("tool_choice") or {})
    if reply.output is None or calls or choice.get("type") not in ("any", "tool"):
        return calls, None
    name = str(choice.get("name") or body["tools"][-1]["name"])
    return [(name, reply.output)], name


def message_events(message: Json) -> Iterator[tuple[str, Json]]:
    """Yield the events of a streamed message, each with its name."""
    usage = cast(Json, message["usage"])
    empty: Json
    begun: Json = {**message, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    yield "message_start", {"type": "message_start", "message": begun}
    for index, block in enumerate(message["content"]):
        if block["type"] == "text":
            empty, deltas = {**block, "text": ""}, [{"type": "text_delta", "text": block["text"]}]
        elif block["type"] == "thinking":
            empty = {**block, "thinking": "", "signature": ""}
            deltas = [
                {"type": "thinking_delta", "thinking": block["thinking"]},
                {"type": "signature_delta", "signature": block["signature"]},
            ]
        else:
            empty = {**block, "input": {}}
            deltas = [{"type": "input_json_delta", "partial_json": output_text(block["input"])}]
        yield ("content_block_start", {"type": "content_block_start", "index": index, "content_block": empty})
        for delta in deltas:
            yield "content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}
        yield "content_block_stop", {"type": "content_block_stop", "index": index}
    end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield (
        "message_delta",
        {"type": "message_delta", "delta": end, "usage": {"output_tokens": usage["output_tokens"]}},
    )
    yield "message_stop", {"type": "message_stop"}
