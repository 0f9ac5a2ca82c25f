"""The permissions of a fork, and of every run below it, to act outside, and the place of its artifacts.

Under `recorded`, a side-effecting call that equals one of the origin's returns that call's outcome, and each
recorded call is used once. Used calls are named in the fork's own events, so that none is used again after a
crash. See docs/decisions/0029-forks.md.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

from artelier.artifacts.queries import artifact_exists, find_kind
from artelier.artifacts.ref import substitute
from artelier.errors import ArtelierError, InvalidRequest, MissingKey, NotFound, ToolFailed
from artelier.ids import MAIN_SPACE
from artelier.kernel import events as ev
from artelier.kernel.history.fork_lineage import OPEN_END, Place, changes_of, lineage
from artelier.kernel.history.step_history import ForkEffects, RecordedCall
from artelier.kernel.prompt.renderer import Renderer
from artelier.kernel.queries.content import shown_json
from artelier.kernel.queries.runs import run_row, tree_below
from artelier.kernel.queries.steps import calls_below, find_step, oldest_open_tool
from artelier.kernel.run.services import Services
from artelier.kernel.steps.step_keys import id_part
from artelier.log import EventData, run_stream
from artelier.log.queries import stream_events
from artelier.ports.tool import ToolPort
from artelier.tokens import canonical_name

RECORD = "record"
"""As `settled_by`: the outcome is that of a recorded call, and nothing was dispatched."""


OWN_NAMES = frozenset(("model", "steering"))
"""What a fork changes that is no ref."""


def check_effects(effects: object) -> ev.Effects:
    """Return a valid mode. Errors: `InvalidRequest`."""
    if effects not in ev.EFFECTS:
        raise InvalidRequest(
            "what a fork may do outside", expected=f"one of: {', '.join(ev.EFFECTS)}", got=repr(effects)[:80]
        )
    return effects


def acts_outside(tool: ToolPort) -> bool:
    """Return True if a call changes something beyond this store.

    Delegation leaves events here, and the run below is held to the fork's mode itself. A memory belongs to
    its agent and outlives the run, so that writing to it counts as any other effect.
    """
    return tool.side_effect and not getattr(tool, "acts_in_store", False)


def stub_result(name: str) -> ToolFailed:
    """Return what a model reads instead of a result under `stub`."""
    return ToolFailed(
        f"{name!r} was not called: this run is a fork that does nothing outside",
        expected="a way to go on without it",
    )


def refs_of(changes: Mapping[str, Any]) -> dict[str, str]:
    """Return the refs among what a fork changes. Errors: `InvalidRequest` for one that is no text."""
    refs: dict[str, str] = {}
    for old, new in changes.items():
        if old in OWN_NAMES:
            continue
        if not isinstance(new, str) or not new or not old:
            raise InvalidRequest(
                "a fork replaces one ref by another",
                expected="REF=REF, both as text",
                got=f"{old[:80]!r}: {new!r}"[:160],
            )
        refs[plain_ref(old)] = plain_ref(new)
    return refs


def plain_ref(ref: str) -> str:
    """Return a ref as code asks for it: manifests say `skill:NAME` and `profile:ID@VERSION`."""
    for prefix in ("skill:", "profile:"):
        ref = ref.removeprefix(prefix)
    return ref


FORKS = "forks/"
"""The start of the ids of artifacts that forks have written."""


def fork_folder(run_id: str) -> str:
    """Return what ids of a fork's artifacts begin with."""
    return f"{FORKS}{id_part(run_id)}"


async def fork_folders(services: Services, tenant: str, run_id: str) -> list[str]:
    """Return the folders of the forks that a run is part of, its own first; none for a run of no fork."""
    found: list[str] = []
    name: str | None = run_id
    while name and (fork := await effects_of(services, tenant, name)) is not None:
        found.append(fork.folder)
        name = (await run_row(services.store, tenant, fork.run_id)).origin
    return [folder for folder in found if folder]


async def effects_of(services: Services, tenant: str, run_id: str) -> ForkEffects | None:
    """Return what holds for a run: what the nearest fork at or above it says; None if there is none."""
    name: str | None = run_id
    while name is not None:
        row = await run_row(services.store, tenant, name)
        if row.origin is not None:
            found = services.fork_effects.get((tenant, name))
            if found is None:
                forked = await _read_fork_event(services, tenant, name)
                # One from before there were folders was made when nobody resolved refs.
                changes = await changes_of(services, await lineage(services, tenant, name))
                found = ForkEffects(
                    services.store,
                    tenant,
                    name,
                    read_unused=partial(_read_unused_calls, services, tenant, name),
                    forked=forked,
                    replaced=refs_of(changes) if forked.folder else {},
                )
                services.fork_effects[tenant, name] = found
            return found
        name = row.parent
    return None


async def _read_fork_event(services: Services, tenant: str, run_id: str) -> ev.RunForked:
    began = (await services.store.read(run_stream(tenant, run_id), limit=1))[0].decode()
    assert isinstance(began, ev.RunForked)
    return began


# The record


async def _read_unused_calls(services: Services, tenant: str, run_id: str) -> list[RecordedCall]:
    """Return the calls behind the branch that are not used yet, the nearest origin's first, oldest first.

    Calls that an origin itself might still return belong to them, if it is a fork that does not act.
    """
    places = await lineage(services, tenant, run_id)
    before = (await services.store.read(places[0].stream, limit=1))[0].position
    used: set[tuple[str, str]] = set()
    found: dict[tuple[str, str], RecordedCall] = {}
    is_record = True
    for place in places:
        for one in await _calls(services, tenant, place):
            id_ = (one.call.run_id, one.call.key)
            if one.is_shared and one.is_returned:
                used.add(id_)
            elif not one.is_shared and is_record and one.position < before:
                found.setdefault(id_, one.call)
        if place not in (places[0], places[-1]):
            is_record = (
                is_record and (await _read_fork_event(services, tenant, place.run_id)).effects != "live"
            )
    return [call for id_, call in found.items() if id_ not in used]


class _FoundCall(NamedTuple):
    position: int
    """Of the outcome, in the log."""
    is_shared: bool
    """Whether it is before the branch, or the fork's own."""
    is_returned: bool
    """Whether nothing was dispatched: a fork returned a recorded call."""
    call: RecordedCall


async def _calls(services: Services, tenant: str, place: Place) -> list[_FoundCall]:
    """Return the completed tool calls of a run of the lineage, and of all runs below it."""
    shared: dict[str, bool] = {}
    found: list[_FoundCall] = []
    for run, step, seq, asked_for, outcome in await calls_below(services.store, tenant, place.stream_id):
        request = asked_for.decode()
        if not isinstance(request, ev.ToolRequested) or request.undoes:
            continue
        end = outcome.decode()
        asked = (request.arguments, *([] if request.asked is None else [request.asked]))
        first = end.recorded if isinstance(end, ev.ToolCompleted) else None
        call = RecordedCall(
            run_id=run if first is None else first.run,
            key=request.key if first is None else first.key,
            step=request.key if step is None else "",
            name=request.name,
            asked=asked,
            result=getattr(end, "result", None),
            is_error=_is_error(end),
            artifact=getattr(end, "artifact", ""),
            preview=getattr(end, "preview", False),
            media=getattr(end, "media", ()),
        )
        if step is not None and step not in shared:
            shared[step] = await _is_shared(services, place, step)
        is_shared = seq <= place.upto if step is None else shared[step]
        found.append(_FoundCall(outcome.position, is_shared, first is not None, call))
    return found


def _is_error(end: object) -> bool:
    if isinstance(end, ev.ToolReconciled):
        return end.answer == "failed"
    return isinstance(end, ev.ToolCompleted) and end.is_error


async def _is_shared(services: Services, place: Place, step: str) -> bool:
    """Return True if a fork shares the outcome of the step that led to a child: it starts no other one."""
    if place.upto == OPEN_END:
        return True
    found = await find_step(services.store, place.stream_id, step)
    if found is None or found.status != "completed":
        return False
    return found.completed is not None and found.completed <= place.upto


# --------------------------------------------------------------------------- fork refs
# The refs that a fork replaces: each must be one that the origin's history used, by one that exists.

SKILL_TOOLS = frozenset(("load_skill", "use_skill", "unload_skill", "read_skill_file"))
"""Tools whose arguments name skills."""

ASSIGNED = frozenset(("agent", "task", "membrane", "steering"))
"""Kinds of artifacts that a run reads when it is started; what they said is in its settings."""

REF_CHARS_MAX = 300
"""Of a text in settings, arguments and results that may be a ref."""


INHERITED = 0
"""As the seq of a use: in the history that the run shares with the runs it was forked from."""


class Uses(NamedTuple):
    """The places in a run's own stream where a fork can begin, so that what it replaces is used after it."""

    first: int | None
    """The event before the first step that used any of it; None if no event of the run's own did."""
    last: dict[str, int]
    """By ref: the last event after which it was still used; 0 if only the shared history used it."""


async def check_refs(
    services: Services,
    tenant: str,
    places: Sequence[Place],
    refs: Mapping[str, str],
    given: Mapping[str, str],
) -> Uses:
    """Return where the replaced refs were used, and refuse a replacement that would do nothing.

    `given`: what the origin replaces itself, as a fork. Its record names what it used instead.
    Errors: `NotFound` for a ref that the origin, all of its history and the runs below it never used, and
    for one that does not exist; `InvalidRequest` for what the run was assigned when it began.
    Cost: O(the origin's history), if there are refs.
    """
    if not refs:
        return Uses(None, {})
    used = await _used(services, tenant, places)
    firsts: list[int] = []
    last: dict[str, int] = {}
    for old, new in refs.items():
        seqs = await _seqs(services, tenant, old, used)
        if not seqs:
            raise NotFound(
                f"run {places[0].run_id!r} never used {old!r}, so that a fork cannot replace it",
                expected="an artifact, skill, memory block, tool or model of its history",
                hint=f"`artelier runs steps {places[0].run_id}` and `artelier manifest show` name them.",
            )
        if old == new and "@" not in old:  # a version by itself pins it
            raise InvalidRequest(
                "a fork that replaces a ref by itself changes nothing", got=old, expected="another ref"
            )
        await _check_kind(services, tenant, old)
        if not await _exists(services, tenant, old, new, used):
            raise NotFound(f"there is no {new!r} to use in place of {old!r}")
        if old in given and old not in given.values():  # its code says so, and its record the other name
            seqs = seqs | await _seqs(services, tenant, given[old], used)
        own = sorted(seq for seq in seqs if seq != INHERITED)
        firsts += [seq for seq in own if seq != OPEN_END][:1]
        last[old] = max(1, own[-1] - 1) if own else 0
    if not firsts:
        return Uses(None, last)
    return Uses(await before_step(services, places[0], min(firsts)), last)


def compose_refs(given: Mapping[str, str], refs: Mapping[str, str]) -> dict[str, str]:
    """Return what a fork of a fork replaces: each name is looked up once in it, and never again.

    A name of the origin's record is what the origin used in place of another, and whatever led to it leads to
    the new one. A name that the origin replaced itself is a name of its code: the nearer word counts.
    """
    found: dict[str, str] = {}
    for old, one in given.items():
        new = substitute(one, refs)
        found[old] = new if new != one else refs.get(canonical_name(one), one)
    targets = set(given.values())
    return found | {old: new for old, new in refs.items() if old not in given or old not in targets}


async def before_step(services: Services, origin: Place, seq: int) -> int:
    """Return the event to begin after: one at which no call of a tool is under way."""
    at = max(1, seq - 1)
    while True:
        oldest = await oldest_open_tool(services.store, origin.stream_id, at)
        if oldest is None:
            return at
        at = max(1, oldest - 1)


def _seqs_by_text() -> defaultdict[str, set[int]]:
    return defaultdict(set)


class _Used:
    """The uses in a history by kind, each with the `seq` of the first event of every step that made it."""

    def __init__(self) -> None:
        self.models = _seqs_by_text()
        self.assigned_models = _seqs_by_text()
        """Those that a run was started with."""
        self.tools = _seqs_by_text()
        """Those that were called."""
        self.offered = _seqs_by_text()
        """Tools in prompts."""
        self.skills = _seqs_by_text()
        self.texts = _seqs_by_text()
        """What may be a ref of an artifact: sources of prompts, texts in arguments and settings."""
        self.known: set[str] = set()
        """Tools that a run had, whether or not it used them."""
        self.listed: set[str] = set()
        """Texts in recorded results: names of skills that were there to be used, among others."""


async def _used(services: Services, tenant: str, places: Sequence[Place]) -> _Used:
    found = _Used()
    seen: set[int] = set()
    for place in places:
        firsts: dict[str, int] = {}
        tree = await tree_below(services.store, tenant, place.stream_id)
        for stream, run_id, step in tree:  # the root's own events come first
            if stream in seen:
                continue
            seen.add(stream)
            renderer = await Renderer.open(services, tenant, run_id, forgiving=True)
            for row in await stream_events(services.store, stream, *_KINDS):
                data, seq = row.decode(), row.seq
                if stream == place.stream_id:
                    key: str = getattr(data, "key", "")
                    cycle = firsts.setdefault(key.partition("/")[0], seq)
                    seq = firsts.setdefault(key, seq)
                    # What a prompt shows, its cycle may have read in a step of its own.
                    seq = cycle if isinstance(data, ev.ContextAssembled) else seq
                else:
                    seq = firsts.get(step or "", 1)
                seq = seq if place is places[0] else INHERITED
                await _note(services, tenant, found, data, renderer, seq)
    return found


async def _note(
    services: Services, tenant: str, found: _Used, data: EventData, renderer: Renderer, seq: int
) -> None:
    if isinstance(data, ev.ContextAssembled):
        manifest = await renderer.manifest(data.key)
        for part in manifest.parts:
            sources = {source.partition(" (")[0] for source in part.src}
            _add(found.skills, (plain_ref(one) for one in sources if one.startswith("skill:")), seq)
            _add(found.texts, map(plain_ref, sources), seq)
        if manifest.tools is not None:
            _add(found.offered, _names(await shown_json(services, tenant, manifest.tools)), seq)
    elif isinstance(data, ev.ModelRequested):
        found.models[data.model].add(seq)
    elif isinstance(data, ev.ToolRequested):
        found.tools[data.name].add(seq)
        texts = _texts(await shown_json(services, tenant, data.arguments))
        _add(found.skills if data.name in SKILL_TOOLS else found.texts, texts, seq)
    elif isinstance(data, ev.RunStarted):
        if data.model:
            found.assigned_models[canonical_name(data.model)].add(seq)
        found.known |= set(_names(await shown_json(services, tenant, data.tools)))
        texts = set(_texts(await shown_json(services, tenant, data.settings)))
        _add(found.texts, texts, seq)
        if seq != INHERITED:  # no event says where the last use of a setting is
            _add(found.texts, texts, OPEN_END)
    elif isinstance(data, ev.StepCompleted):
        found.listed |= set(_texts(await shown_json(services, tenant, data.result)))


def _add(to: defaultdict[str, set[int]], texts: Iterable[str], seq: int) -> None:
    for text in texts:
        to[text].add(seq)


def _names(tools: object) -> list[str]:
    """Return the names in a recorded list of tools; none of one that was erased."""
    listed = cast("list[dict[str, Any]]", tools) if isinstance(tools, list) else []
    return [str(one.get("name", "")) for one in listed]


def _texts(value: object) -> Iterator[str]:
    """Yield the short texts in JSON data."""
    left: list[Any] = [value]
    while left:
        one = left.pop()
        if isinstance(one, str) and len(one) <= REF_CHARS_MAX:
            yield one
        elif isinstance(one, dict):
            left.extend(cast("dict[str, Any]", one).values())
        elif isinstance(one, list):
            left.extend(cast("list[Any]", one))


async def _seqs(services: Services, tenant: str, old: str, used: _Used) -> set[int]:
    """Return where a ref was used; empty if nowhere."""
    model = canonical_name(old)
    for found, name in (
        (used.tools, old),
        (used.offered, old),
        (used.models, model),
        (used.assigned_models, model),
        (used.skills, old),
    ):
        if name in found:
            # Of a tool that was called, what counts is the calls, and not each prompt that offers it.
            return set(found[name])
    if not await artifact_exists(services.store, tenant, old):
        return set()
    # Some prompts name an artifact without its version: then it must at least have this one.
    id_, mark, _ = old.partition("@")
    named = {old, id_} if mark else {one for one in used.texts if one.partition("@")[0] == old}
    return {seq for one in named for seq in used.texts.get(one, ())}


async def _exists(services: Services, tenant: str, old: str, new: str, used: _Used) -> bool:
    """Return True if the new ref can stand for the old: a tool for a tool, a model for a model."""
    if old in used.tools or old in used.offered:
        return new in services.tools or new in used.known or new in used.tools
    if canonical_name(old) in used.models or canonical_name(old) in used.assigned_models:
        try:
            services.model(new)
        except MissingKey:
            return True  # its steps may be driven by a process that has the key
        except ArtelierError:
            return False
        return True
    if old in used.skills:
        return new in used.skills or new in used.listed
    return await artifact_exists(services.store, tenant, new)


async def _check_kind(services: Services, tenant: str, old: str) -> None:
    """Errors: `InvalidRequest` for what a run was assigned: a fork has it in its settings."""
    kind = await find_kind(services.store, tenant, MAIN_SPACE, old.partition("@")[0])
    if kind in ASSIGNED:
        raise InvalidRequest(
            f"{old!r} is what the run was assigned when it began",
            expected="a ref that it reads later",
            got=f"an artifact of kind {kind}",
            hint="Make a new task, or change its steering.",
        )


_KINDS = (
    "run.started",
    "context.assembled",
    "approval.requested",
    "model.requested",
    "tool.requested",
    "step.completed",
)
"""Events that can name an artifact."""
