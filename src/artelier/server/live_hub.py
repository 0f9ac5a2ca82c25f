"""Live events for many readers: one reader of the log, bounded queues, streams with a heartbeat."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from artelier.app import Kernel
from artelier.clock import Clock
from artelier.errors import ArtelierError, QueueFull, StoreClosed, TooManyAtOnce
from artelier.log import Event
from artelier.server.event_encoder import Encoder, Filter, WireEvent
from artelier.server.graph.keeper import ANEW, GraphKeeper

LOOK_S = 1
"""How often a silent stream looks whether the server ends."""


async def beating(
    frames: AsyncGenerator[bytes], clock: Clock, *, is_over: Callable[[], bool]
) -> AsyncGenerator[bytes]:
    """The frames, and a comment whenever none came for `HEARTBEAT_S`; the end when `is_over`."""
    async with aclosing(frames):
        ahead = asyncio.ensure_future(anext(frames, b""))
        silent_s = 0
        try:
            while not is_over():
                look = asyncio.ensure_future(clock.sleep(LOOK_S))
                await asyncio.wait((ahead, look), return_when=asyncio.FIRST_COMPLETED)
                look.cancel()
                if not ahead.done():
                    silent_s += LOOK_S
                    if silent_s >= HEARTBEAT_S:
                        silent_s = 0
                        yield BEAT
                    continue
                if not (frame := ahead.result()):
                    return
                silent_s = 0
                yield frame
                ahead = asyncio.ensure_future(anext(frames, b""))
        finally:
            ahead.cancel()
            await asyncio.gather(ahead, return_exceptions=True)


logger = logging.getLogger("artelier.server")

HEARTBEAT_S = 15
BEAT = b": still here\n\n"
PAGE = 200
"""Events that are read from the store at once."""
PAGE_BYTES = 512 * 1024
"""A page of events, or a piece of a stream, ends at the event that reaches it."""
QUEUE_BYTES_MAX = 2 * PAGE_BYTES
"""What may wait for one client."""
DROPPED = (
    b'event: dropped\ndata: {"code":"too_slow","message":"This client did not keep up.",'
    b'"hint":"Connect again with Last-Event-ID."}\n\n'
)
"""The last frame for a client that did not keep up; a browser connects again by itself."""
ENCODERS_MAX = 32
"""Tenants whose encoded events are remembered though nobody listens."""

SCANNED_MAX = 10_000
"""Events that one page looks at."""


class StreamClient:
    """The queue of one stream; made by `Hub.stream`."""

    def __init__(self, wants: Filter, *, user: str, after: int, queue_max: int) -> None:
        self._wants = wants
        self.user = user
        self.tenant = wants.tenant
        self._after = after
        self._queue_max = queue_max
        self._queue: deque[bytes] = deque()
        self._queue_bytes = 0
        self._came = asyncio.Event()
        self.is_over = False
        """Dropped, or the server ends."""

    def join(self, feed: TenantFeed, *, after: int) -> None:
        """Add this client to the feed, which now offers it every event. It skips those it already has."""
        self._after = after
        feed.clients.add(self)

    def wants(self, event: Event) -> bool:
        return event.position > self._after and self._wants.holds(event)

    def push(self, frame: bytes) -> None:
        is_full = self._queue_bytes > 0 and self._queue_bytes + len(frame) > QUEUE_BYTES_MAX
        if is_full or len(self._queue) >= self._queue_max:
            self.end()
            return
        self._queue.append(frame)
        self._queue_bytes += len(frame)
        self._came.set()

    def end(self) -> None:
        """No more: what is queued is given up, the client asks for it again."""
        self.is_over = True
        self._queue.clear()
        self._queue_bytes = 0
        self._came.set()

    async def take(self) -> bytes:
        """Everything that is queued, as one piece; nothing at the end."""
        while not self._queue and not self.is_over:
            self._came.clear()
            await self._came.wait()
        taken = b"".join(self._queue)
        self._queue.clear()
        self._queue_bytes = 0
        return taken


class PageClient(StreamClient):
    """A page, which takes rows as they are by then: a frame that waits says that there are some."""

    def push(self, frame: bytes) -> None:
        if not self._queue:
            super().push(frame)


class TenantFeed:
    """Reads one tenant's events behind the log's end and hands them to its clients."""

    def __init__(self, encoder: Encoder, *, at: int) -> None:
        self.encoder = encoder
        self.position = at
        """Everything up to here was handed out."""
        self.clients: set[StreamClient] = set()
        self.readers = 0
        """Streams that use this feed, those included that still catch up."""
        self.woken = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    async def forever(self) -> None:
        """Until cancelled. What the store refuses ends all streams: they come back, and it is tried again."""
        try:
            while True:
                await self.woken.wait()
                self.woken.clear()
                await self._hand_out()
        except ArtelierError as error:
            logger.error("live events of a tenant stopped: %s", error.code)
            for client in tuple(self.clients):
                client.end()

    async def _hand_out(self) -> None:
        while events := await self.encoder.read(after=self.position, limit=PAGE):
            for event in events:
                if any(client.wants(event) for client in self.clients):
                    self._offer(event, (await self.encoder.encode(event)).frame())
                # At once: who joins meanwhile goes on from what was offered.
                self.position = event.position
            await asyncio.sleep(0)  # a long backlog leaves others their turn

    def _offer(self, event: Event, frame: bytes) -> None:
        for client in tuple(self.clients):
            if client.wants(event):
                client.push(frame)
            if client.is_over:
                self.clients.discard(client)


class Hub:
    """`start` it in the loop that serves; `stream` gives frames for one client."""

    def __init__(
        self,
        kernel: Kernel,
        *,
        clients_max: int,
        queue_max: int,
        user_clients_max: int,
        tenant_clients_max: int,
    ) -> None:
        self._kernel = kernel
        self._clients_max = clients_max
        self._user_clients_max = user_clients_max
        self._tenant_clients_max = tenant_clients_max
        self._queue_max = queue_max
        self._feeds: dict[str, TenantFeed] = {}
        self._encoders: OrderedDict[str, Encoder] = OrderedDict()
        self._graphs = GraphKeeper(kernel.store)
        self._beat: asyncio.Task[None] | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._open: set[StreamClient] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._unlisten = lambda: None
        self.is_closed = False
        self.dropped = 0
        """Clients that did not keep up, so far."""

    @property
    def encoded(self) -> int:
        """Events that were encoded for those who listen now; one costs one, however many they are."""
        return sum(feed.encoder.encoded for feed in self._feeds.values())

    def start(self, *, tenant: str = "") -> None:
        """Listen to the log, in this loop. `tenant` is whose page is likely to be opened first."""
        self._loop = asyncio.get_running_loop()
        self._unlisten = self._kernel.store.listen(self._on_commit)
        self._beat = self._loop.create_task(self._heartbeat())
        if tenant:
            self._graphs.graph(tenant, self._encoder(tenant))
        self._keeping = self._loop.create_task(self._keep_graphs())

    def close(self) -> None:
        """End every stream; clients come back to whoever serves next."""
        self.is_closed = True
        self._unlisten()
        for client in tuple(self._open):
            client.end()
        for task in (self._beat, self._keeping):
            if task is not None:
                task.cancel()
        for feed in self._feeds.values():
            if feed.task is not None:
                feed.task.cancel()

    def _on_commit(self, position: int, abroad: bool) -> None:
        """Wake the hub's loop, from the writer's thread; do nothing else there."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            try:
                loop.call_soon_threadsafe(self._wake)
            except RuntimeError:
                return  # the loop was closed in between

    def _wake(self) -> None:
        for feed in self._feeds.values():
            feed.woken.set()

    async def _heartbeat(self) -> None:
        while True:
            await self._kernel.services.clock.sleep(HEARTBEAT_S)
            for client in tuple(self._open):
                client.push(BEAT)

    async def _keep_graphs(self) -> None:
        """Keep the graphs of pages near the log's end, so that one that is opened begins at once."""
        while True:
            try:
                await self._graphs.keep_up()
            except ArtelierError as error:  # who asks for a graph is told, too
                logger.error("a graph cannot be kept: %s", error.code)
            await self._kernel.services.clock.sleep(HEARTBEAT_S)

    async def graph(self, tenant: str, *, at: int | None) -> bytes:
        """Return the JSON of what a tenant's page shows now, or showed after the event at a position."""
        return await self._graphs.graph(tenant, self._encoder(tenant)).read(at=at)

    async def _feed(self, tenant: str) -> TenantFeed:
        if (feed := self._feeds.get(tenant)) is None:
            at, _ = await self._kernel.store.root()
            feed = self._feeds.setdefault(tenant, TenantFeed(self._encoder(tenant), at=at))
        if feed.task is None or feed.task.done():
            feed.task = asyncio.get_running_loop().create_task(feed.forever())
            feed.woken.set()  # what was committed before anybody listened
        return feed

    def _encoder(self, tenant: str) -> Encoder:
        """Return the one that all who ask for a tenant's events share."""
        if (feed := self._feeds.get(tenant)) is not None:
            return feed.encoder
        encoder = self._encoders.setdefault(tenant, Encoder(self._kernel.store, tenant))
        self._encoders.move_to_end(tenant)
        if len(self._encoders) > ENCODERS_MAX:
            self._encoders.popitem(last=False)
        return encoder

    async def page(self, wants: Filter, *, after: int, limit: int) -> tuple[list[WireEvent], int | None, int]:
        """Stored events after a position, the position to go on from (None at the end), and the head.

        A page ends early when it is large, and when a filter finds little, so that each is answered soon.
        """
        encoder = self._encoder(wants.tenant)
        head, _ = await self._kernel.store.root()
        found: list[WireEvent] = []
        scanned = size_bytes = 0
        while scanned < SCANNED_MAX:
            count = PAGE if wants.is_narrow else min(PAGE, limit + 1 - len(found))
            events = await encoder.read(after=after, limit=count)
            for event in events:
                if len(found) == limit or size_bytes >= PAGE_BYTES:
                    return found, after, head
                if wants.holds(event):
                    found.append(await encoder.encode(event))
                    size_bytes += len(found[-1].body)
                after = event.position
            scanned += len(events)
            if len(events) < count:
                return found, None, head
            await asyncio.sleep(0)
        return found, after, head

    async def stream(self, wants: Filter, *, after: int, user: str = "") -> AsyncIterator[bytes]:
        """Frames of server-sent events after a position: first what is stored, then what comes.

        `user` is who listens; empty for the program itself, which is held by no cap of its own.
        Errors, before the first frame: `QueueFull` if too many clients are there, of all, of the tenant or of
        the user: nobody takes the places of everybody else.
        """
        self._check_room(wants.tenant, user)
        client = StreamClient(wants, user=user, after=after, queue_max=self._queue_max)
        return self._frames(client, lambda feed: self._read_events(feed, client, wants, after=after))

    async def stream_rows(self, tenant: str, *, after: int, user: str = "") -> AsyncIterator[bytes]:
        """Frames for a page that stands at a position: what has changed, at once and whenever something has.

        Each holds the events, and the rows of the graph that changed with them; the last may be `ANEW`.
        Errors: as of `stream`.
        """
        self._check_room(tenant, user)
        client = PageClient(Filter(tenant=tenant), user=user, after=0, queue_max=self._queue_max)
        return self._frames(client, lambda feed: self._read_rows(feed, client, after=after))

    def _check_room(self, tenant: str, user: str) -> None:
        here = sum(client.tenant == tenant for client in self._open)
        own = sum(client.user == user for client in self._open) if user else 0
        quota = self._kernel.services.quotas.of(tenant).streams_max
        for whose, count, most, kind in (
            ("of this user", own, self._user_clients_max, TooManyAtOnce),
            ("of this tenant", here, min(quota, self._tenant_clients_max), TooManyAtOnce),
            ("of this server", len(self._open), self._clients_max, QueueFull),
        ):
            if self.is_closed or count >= most:
                raise (QueueFull if self.is_closed else kind)(
                    f"too many live streams {whose}",
                    expected=f"at most {most}",
                    got=count,
                    hint="Close some, or ask for pages.",
                )

    async def _frames(
        self, client: StreamClient, read: Callable[[TenantFeed], AsyncGenerator[bytes]]
    ) -> AsyncIterator[bytes]:
        try:
            self._check_room(client.tenant, client.user)
        except QueueFull:
            return  # others have begun since; who comes back is told
        self._open.add(client)
        feed: TenantFeed | None = None
        try:
            feed = await self._feed(client.tenant)
            feed.readers += 1
            yield b"retry: 1000\n\n"
            async with aclosing(read(feed)) as found:
                async for frames in found:
                    yield frames
        except StoreClosed:
            return  # the server ends
        finally:
            self._open.discard(client)
            if client.is_over and not self.is_closed:
                self.dropped += 1
            if feed is not None:
                self._leave(feed, client, client.tenant)

    async def _read_rows(self, feed: TenantFeed, client: PageClient, *, after: int) -> AsyncGenerator[bytes]:
        graph = self._graphs.graph(client.tenant, feed.encoder)
        graph.readers += 1
        client.join(feed, after=0)
        try:
            position, frame = await graph.follow(after=after, upto=feed.position)
            erasures = graph.erasures
            yield frame
            while frame is not ANEW and await client.take():
                after = position
                position, frame = await graph.follow(after=after, upto=feed.position)
                if graph.erasures != erasures:
                    frame = ANEW  # the page has texts that are gone
                yield frame if frame is ANEW or position > after else BEAT
        finally:
            graph.readers -= 1

    async def _read_events(
        self, feed: TenantFeed, client: StreamClient, wants: Filter, *, after: int
    ) -> AsyncGenerator[bytes]:
        after = min(after, (await self._kernel.store.root())[0])  # of another database perhaps
        async for frames in self._read_stored(feed, client, wants, after=after):
            yield frames
        while frames := await client.take():
            yield frames
        if not self.is_closed:
            yield DROPPED

    async def _read_stored(
        self, feed: TenantFeed, client: StreamClient, wants: Filter, *, after: int
    ) -> AsyncIterator[bytes]:
        """Pages from the store until the client has joined the feed without a gap."""
        while not client.is_over:
            handed_out = feed.position
            page = await feed.encoder.read(after=after, limit=PAGE)
            piece, size_bytes = list[bytes](), 0
            for event in page:
                after = event.position
                if wants.holds(event):
                    piece.append((await feed.encoder.encode(event)).frame())
                    size_bytes += len(piece[-1])
                if size_bytes >= PAGE_BYTES:
                    yield b"".join(piece)
                    piece, size_bytes = [], 0
            if piece:
                yield b"".join(piece)
            # What was read contains all that was handed out before the reading began.
            if len(page) < PAGE and feed.position <= max(after, handed_out):
                client.join(feed, after=after)
                return

    def _leave(self, feed: TenantFeed, client: StreamClient, tenant: str) -> None:
        feed.clients.discard(client)
        feed.readers -= 1
        if feed.readers == 0 and self._feeds.get(tenant) is feed:
            del self._feeds[tenant]
            if feed.task is not None:
                feed.task.cancel()


TYPE = "text/event-stream"


class EventStream(Response):
    """Sends frames that are already encoded. A client that goes away ends the iterator at once."""

    media_type = TYPE

    def __init__(self, frames: AsyncIterator[bytes]) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self.frames = frames

    def map_frames(self, change: Callable[[AsyncIterator[bytes]], AsyncIterator[bytes]]) -> EventStream:
        """The same response with other frames."""
        self.frames = change(self.frames)
        return self

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        sending = asyncio.ensure_future(self._send(send))
        leaving = asyncio.ensure_future(_wait_disconnect(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, leaving):
                task.cancel()
            results = await asyncio.gather(sending, leaving, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result

    async def _send(self, send: Send) -> None:
        frames = self.frames
        try:
            async for frame in frames:
                await send({"type": "http.response.body", "body": frame, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            close = getattr(frames, "aclose", None)
            if close is not None:
                await close()


async def _wait_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
