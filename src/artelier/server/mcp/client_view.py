"""The view of an MCP client: artifacts as resources, runs as tools, errors in the one shape of all faces.

Resources go through the handle of one principal: what it may not read is not shown.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import Any, TypeVar
from urllib.parse import quote, unquote

import msgspec
from mcp import MCPError, types
from mcp.server import Server, ServerRequestContext

from artelier.app import Kernel
from artelier.artifacts import Artifacts, Summary
from artelier.artifacts.media.inspection import type_of
from artelier.errors import AccessDenied, ArtelierError, InvalidRequest, LimitReached, NotFound, Refused
from artelier.ids import VERSION
from artelier.kernel import Limits
from artelier.kernel.queries.content import ShownMedium
from artelier.pii.scrubber_registry import marked_wire
from artelier.ports.media import MEDIA_TYPES
from artelier.server.mcp.runs import APPROVE, READ_ONLY, MediaAnswer, RunDesk

SCHEME = "artelier://artifacts/"
TEMPLATE = SCHEME + "{id}"
URI_CHARS_MAX = 1_000
PAGE_ROWS = 100
CONTENT_BYTES_MAX = 4 * 1024 * 1024
"""One resource in one message; larger artifacts are read with the command line (guess)."""


def uri_of(id_: str) -> str:
    """The address of an artifact."""
    return SCHEME + quote(id_, safe="")


def ref_of(uri: str) -> str:
    """The ref that an address stands for: an id, `id@7` or `id#part`. Errors: `InvalidRequest`."""
    if not uri.startswith(SCHEME) or len(uri) > URI_CHARS_MAX:
        raise InvalidRequest("no such resource", expected=TEMPLATE, got=repr(uri[:80]))
    # Written by hand the slashes of an id stand as they are, and both forms mean the same. What is no
    # UTF-8 becomes a character that no ref has.
    return unquote(uri.removeprefix(SCHEME))


async def page(artifacts: Artifacts, cursor: str | None) -> types.ListResourcesResult:
    """Artifacts beyond the cursor. Errors: `InvalidRequest` for a cursor that is not ours; `NotFound`."""
    found = await artifacts.list(limit=PAGE_ROWS, after=_after(cursor))
    more = len(found) == PAGE_ROWS
    return types.ListResourcesResult(
        resources=[_resource(one) for one in found], next_cursor=_cursor(found[-1].id) if more else None
    )


def _resource(one: Summary) -> types.Resource:
    return types.Resource(
        uri=uri_of(one.id),
        name=one.id,
        size=one.size_bytes,
        description=f"{one.kind}, version {one.version}, owned by {one.owner}",
    )


def templates() -> list[types.ResourceTemplate]:
    """The one form of address that there is."""
    return [
        types.ResourceTemplate(
            uri_template=TEMPLATE,
            name="artifact",
            description="An artifact by its id; `id@7` is version 7, `id#part` a part of a library.",
        )
    ]


async def read(artifacts: Artifacts, uri: str) -> types.ReadResourceResult:
    """The content of an artifact. It is read only if that costs nothing: no client spends by looking.

    Errors: `NotFound`, `AccessDenied`, `InvalidRequest`, `LimitReached`.
    """
    artifact = await artifacts.read(ref_of(uri), price_max=0)
    return types.ReadResourceResult(contents=[_contents(uri, artifact.content)])


def _contents(uri: str, content: object) -> types.TextResourceContents | types.BlobResourceContents:
    if isinstance(content, bytes):
        _fits(len(content))
        data = base64.b64encode(content).decode()
        kind = type_of(content) or "application/octet-stream"
        return types.BlobResourceContents(uri=uri, blob=data, mime_type=kind)
    kind = "text/plain" if isinstance(content, str) else "application/json"
    text = content if isinstance(content, str) else msgspec.json.encode(content).decode()
    _fits(len(text))
    return types.TextResourceContents(uri=uri, text=text, mime_type=kind)


def _fits(size: int) -> None:
    if size > CONTENT_BYTES_MAX:
        raise LimitReached(
            "this artifact is too large for one message",
            expected=f"at most {CONTENT_BYTES_MAX} bytes",
            got=size,
            hint="Read it with: artelier artifacts show.",
        )


def _cursor(id_: str) -> str:
    return base64.urlsafe_b64encode(id_.encode()).decode()


def _after(cursor: str | None) -> str | None:
    if cursor is None:
        return None
    try:
        return base64.b64decode(cursor[:1_000], altchars=b"-_", validate=True).decode()
    except ValueError:
        raise InvalidRequest("not a cursor of this list", got=repr(cursor[:80])) from None


T = TypeVar("T")
Context = ServerRequestContext[Any]
Page = types.PaginatedRequestParams | None


class Face:
    """One tenant's artifacts and runs, as one principal may use them."""

    def __init__(
        self,
        kernel: Kernel,
        *,
        tenant: str,
        principal: str,
        model: str,
        limits: Limits | None = None,
        workspace: str | None = None,
        approvals: bool = False,
    ) -> None:
        """Errors: `InvalidRequest` for what no principal can be called."""
        self.desk = RunDesk(
            kernel,
            tenant=tenant,
            principal=principal,
            model=model,
            limits=limits,
            workspace=workspace,
            approvals=approvals,
        )
        self._artifacts = kernel.for_tenant(tenant).as_principal(principal).artifacts
        self.server = Server(
            "artelier",
            version=VERSION,
            instructions=_instructions(),
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
        )

    async def aclose(self) -> None:
        """Stop driving runs; they stay resumable."""
        await self.desk.aclose()

    # Tools

    async def _list_tools(self, context: Context, params: Page) -> types.ListToolsResult:
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=one.name,
                    description=one.schema.description,
                    input_schema=one.schema.parameters,
                    annotations=types.ToolAnnotations(
                        read_only_hint=one.name in READ_ONLY,
                        destructive_hint=one.name in (APPROVE, "cancel_run"),
                    ),
                )
                for one in self.desk.tools.values()
            ]
        )

    async def _call_tool(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            tool = self.desk.tools.get(params.name)
            if tool is None and params.name == APPROVE:
                raise AccessDenied(
                    "clients of this server do not answer what runs ask",
                    hint="A person answers with `artelier approve RUN`, or starts the server with"
                    " --approvals.",
                )
            if tool is None:
                raise NotFound(
                    "no such tool",
                    expected=f"one of {', '.join(self.desk.tools)}",
                    got=repr(params.name)[:80],
                )
            return _tool_result(await tool(**tool.validate(params.arguments or {})))
        except ArtelierError as error:
            return _tool_result({"error": marked_wire(error.to_wire())}, is_error=True)

    # Resources

    async def _list_resources(self, context: Context, params: Page) -> types.ListResourcesResult:
        cursor = params.cursor if params is not None else None
        return await _map_errors(lambda: page(self._artifacts, cursor))

    async def _list_templates(self, context: Context, params: Page) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=templates())

    async def _read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        return await _map_errors(lambda: read(self._artifacts, str(params.uri)))


def _instructions() -> str:
    place = files("artelier.server.mcp") / "templates" / "instructions-2.md"
    return place.read_text("utf-8").strip()


def _tool_result(answer: object, *, is_error: bool = False) -> types.CallToolResult:
    """The value twice: for clients that read data, and for those that only read text; media behind it."""
    value, media = (answer.value, answer.media) if isinstance(answer, MediaAnswer) else (answer, ())
    raw = msgspec.json.encode(value)
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=raw.decode()), *map(_block, media)],
        structured_content=msgspec.json.decode(raw),
        is_error=is_error,
    )


def _block(medium: ShownMedium) -> types.ContentBlock:
    """Return the piece of a result that shows a medium; where it is too large, its address."""
    kind = MEDIA_TYPES[medium.media_type]
    if medium.content is None:
        return types.ResourceLink(
            type="resource_link",
            uri=uri_of(medium.ref),
            name=medium.ref,
            mime_type=medium.media_type,
            size=medium.size_bytes,
        )
    data = base64.b64encode(medium.content).decode()
    if kind == "image":
        return types.ImageContent(type="image", data=data, mime_type=medium.media_type)
    if kind == "audio":
        return types.AudioContent(type="audio", data=data, mime_type=medium.media_type)
    resource = types.BlobResourceContents(uri=uri_of(medium.ref), blob=data, mime_type=medium.media_type)
    return types.EmbeddedResource(type="resource", resource=resource)


def _refusal(code: int, error: ArtelierError) -> MCPError:
    wire = marked_wire(error.to_wire())
    return MCPError(code, wire["message"], wire)


async def _map_errors(work: Callable[[], Awaitable[T]]) -> T:
    """Our errors as errors of the protocol, their shape in `data`."""
    try:
        return await work()
    except (NotFound, Refused) as error:
        raise _refusal(RESOURCE_NOT_FOUND, error) from None
    except InvalidRequest as error:
        raise _refusal(types.INVALID_PARAMS, error) from None
    except ArtelierError as error:
        raise _refusal(types.INTERNAL_ERROR, error) from None


RESOURCE_NOT_FOUND = -32002
"""The protocol's code; also for what is not to be read, so that only our `code` tells the difference."""
