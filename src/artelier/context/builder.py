"""The builder: from what an agent is and knows to the sections of one prompt, most stable first.

Subclass it and override `sections`, or hand it `extra_sections`; the loop stays as it is. Whatever a section
takes from outside goes through `context.read`, so that a replay sees what was seen.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, cast

import msgspec

from artelier.context.assembly import Section, Source
from artelier.errors import InvalidRequest
from artelier.kernel import RangePart
from artelier.kernel.prompt.manifest import fence
from artelier.ports.memory import MemoryStore, seen_in

# --------------------------------------------------------------------------- context
# The information that a builder has when it makes the sections of one prompt. All of it is journaled.


Read = Callable[[str, Callable[[], Awaitable[Any]]], Awaitable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The moment before one model call of an agent."""

    run_id: str
    tenant_id: str
    agent_id: str
    model: str
    cycle: int
    """Number of the cycle that this prompt begins, from 1."""
    window_tokens: int
    """Of the model: prompt and reply together."""
    task: str
    """What the run was asked to do."""
    task_kept: str = ""
    """Where all of it is kept, if it was too long to be shown."""
    conversation: RangePart | None = None
    """The messages that are shown verbatim."""
    summary: str = ""
    """What stands for the messages before them."""
    summary_trust: str = "trusted"
    summary_from: str = "log"
    """The receipt of the compaction that made it, as `<run>:<step>`."""
    query: str = ""
    """The newest words of the conversation: what a retrieval would look for."""
    skills: Mapping[str, Any] | None = None
    """The recorded listing of skills."""
    loaded: Sequence[Mapping[str, Any]] = ()
    """What `load_skill` returned for the skills whose loading is no longer among the messages."""
    reader: Read | None = field(default=None, repr=False)

    async def read(self, key: str, read: Callable[[], Awaitable[Any]]) -> Any:
        """A JSON value from outside, journaled: a replay gets what was read then, and calls nothing.

        It is recorded only when it differs from the last reading under this key. None means nothing there.
        Errors: what `read` raises.
        """
        return await self.read_own(f"own {key}", read)

    async def read_own(self, name: str, read: Callable[[], Awaitable[Any]]) -> Any:
        """Do the same as `read`, under the names of the shipped builder, which no other reading can take."""
        assert self.reader is not None, "a context outside a run reads nothing"
        return await self.reader(name, read)


# --------------------------------------------------------------------------- shipped texts
# The shipped texts of prompts: files with a version, loaded once.


@lru_cache(maxsize=128)
def shipped_text(package: str, name: str, *, folder: str = "templates") -> str:
    """A text that a package ships, such as `summarise-1` of `artelier.context`."""
    return (files(package) / folder / f"{name}.md").read_text("utf-8").strip()


template = partial(shipped_text, "artelier.context")
"""The text of a template of this package."""


# --------------------------------------------------------------------------- builder


Order = Literal["cache", "seed"]
Extra = Callable[[Context], Any] | Section | str
"""A section, text (becomes a volatile one), or a function that gives such, a list or None; may be async."""

RULES_BYTES_MAX = 64 * 1024
"""Of one file of rules."""

EXTRAS_MAX = 64
RECALL_LIMIT = 5
RECALLED_TOKENS_MAX = 800

_ORDERS: dict[str, tuple[str, ...]] = {
    "cache": ("identity", "rules", "skills", "loaded_skills", "memory"),
    "seed": ("identity", "memory", "rules", "skills", "loaded_skills"),
}


class ContextBuilder:
    """Makes the sections of an agent's prompts.

    `identity`: who the agent is. `rules`: texts that always stand in the prompt, or files with such texts
    (`Path("AGENTS.md")`). `memory_store`: core memory in the prompt, and tools to change it.
    `progressive_skills`: one line a skill instead of all schemas; `native_tools` then offers a loaded skill
    as a tool of its own, at the price of the cached prefix. `skills`: more sources of skills (folders,
    servers, artifacts). `order`: `cache` puts what changes least first; `seed` is identity, memory, skills,
    history.
    """

    def __init__(
        self,
        *,
        identity: str = "",
        personality: str = "",
        rules: str | Path | Iterable[str | Path] = (),
        memory_store: MemoryStore | None = None,
        recall_limit: int = RECALL_LIMIT,
        progressive_skills: bool = False,
        native_tools: bool = False,
        skills: Iterable[Any] = (),
        extra_sections: Iterable[Extra] = (),
        order: Order = "cache",
    ) -> None:
        """Errors: `InvalidRequest` for an order that is none, or too many extra sections."""
        self.identity = identity
        self.personality = personality
        self.rules = (rules,) if isinstance(rules, str | Path) else tuple(rules)
        self.memory_store = memory_store
        self.recall_limit = recall_limit
        self.progressive_skills = progressive_skills
        self.native_tools = native_tools
        self.skills = tuple(skills)
        self.extra_sections = tuple(extra_sections)
        self.order: Order = order
        _check_arguments(identity, personality, memory_store, recall_limit, self.extra_sections)
        if order not in _ORDERS:
            raise InvalidRequest("order", expected="'cache' or 'seed'", got=repr(order)[:80])
        if len(self.extra_sections) > EXTRAS_MAX:
            raise InvalidRequest(
                "too many extra sections", expected=f"at most {EXTRAS_MAX}", got=len(self.extra_sections)
            )

    # What a builder is, so that another process can make it again

    @property
    def skill_paths(self) -> list[str] | None:
        """Folders of skills that another process can open too; None if some come from code."""
        paths: list[str] = []
        for source in self.skills:
            path = source if isinstance(source, str | Path) else getattr(source, "path", None)
            if path is None:
                return None
            paths.append(str(Path(path).absolute()))
        return paths

    @property
    def comes_from_code(self) -> bool:
        """True if another process could not rebuild it from stored settings."""
        return bool(self.extra_sections) or type(self).sections is not ContextBuilder.sections

    def settings(self) -> dict[str, Any]:
        """JSON data from which `restored` makes an equal builder, if it does not come from code."""
        return {
            "identity": self.identity,
            "personality": self.personality,
            "rules": [{"path": str(r)} if isinstance(r, Path) else r for r in self.rules],
            "memory": self.memory_store.settings() if self.memory_store is not None else None,
            "recall_limit": self.recall_limit,
            "progressive": self.progressive_skills,
            "native": self.native_tools,
            "order": self.order,
            "skills": self.skill_paths,
            "code": self.comes_from_code,
        }

    @staticmethod
    def from_stored(
        settings: Mapping[str, Any], *, memory_store: MemoryStore | None = None
    ) -> ContextBuilder:
        """The builder of a recorded run, with a memory store of this process.

        Errors: `InvalidRequest` if a folder of skills is gone.
        """
        skills: list[str] = settings.get("skills") or []
        stored: list[Any] = settings.get("rules") or []
        rules = [Path(str(r["path"])) if not isinstance(r, str) else r for r in stored]
        return ContextBuilder(
            identity=settings.get("identity", ""),
            personality=settings.get("personality", ""),
            rules=rules,
            memory_store=memory_store,
            recall_limit=settings.get("recall_limit", RECALL_LIMIT),
            progressive_skills=bool(settings.get("progressive")),
            native_tools=bool(settings.get("native")),
            skills=skills,
            order=settings.get("order", "cache"),
        )

    # Sections

    async def sections(self, context: Context) -> list[Section]:
        """The sections of one prompt, in order; `volatile` ones are moved to its end by the assembly.

        Override it and add to what `super().sections(context)` gives.
        """
        made = {
            "identity": self._identity(),
            "rules": await self._rules(context),
            "skills": self._skills(context),
            "loaded_skills": self._loaded_skills(context),
            "memory": await self._memory(context),
        }
        sections = [section for tag in _ORDERS[self.order] for section in made[tag]]
        extras = await self._extras(context)
        sections += [extra for extra in extras if extra.stability in ("fixed", "slow")]
        sections += self._history(context)
        sections += await self._recall(context)
        sections += [extra for extra in extras if extra.stability not in ("fixed", "slow")]
        return sections

    def _identity(self) -> list[Section]:
        sections = [Section(tag="identity", text=self.identity, pinned=True, sources=("agent",))]
        if self.personality:
            sections.append(
                Section(tag="personality", text=self.personality, pinned=True, sources=("agent",))
            )
        return sections

    async def _rules(self, context: Context) -> list[Section]:
        sections: list[Section] = []
        for rule in self.rules:
            source, text = "agent", rule
            if isinstance(rule, Path):
                source, text = rule.name, await context.read_own(f"rules:{rule}", _reader(rule))
            if text:
                sections.append(
                    Section(
                        tag="rules",
                        text=str(text),
                        pinned=True,
                        stability="slow",
                        sources=(Source(ref=source, why="pinned rules"),),
                    )
                )
        return sections

    def _skills(self, context: Context) -> list[Section]:
        if context.skills is None:
            return []
        from artelier.tools.skills import Listing, section_text

        listing = msgspec.convert(context.skills, Listing)
        text = section_text(listing)
        return [Section(tag="skills", text=text, stability="slow", priority=90, sources=("skills",))]

    def _loaded_skills(self, context: Context) -> list[Section]:
        if not context.loaded:
            return []
        from artelier.tools.skills import skill_text

        texts = [skill_text(value) for value in context.loaded]
        sources = tuple(
            Source(ref=f"skill:{value.get('skill')}", why=f"loaded, {str(value.get('hash'))[:12]}")
            for value in context.loaded
        )
        return [
            Section(
                tag="loaded_skills",
                text="\n\n".join([template("loaded-1"), *texts]),
                stability="slow",
                priority=80,
                sources=sources,
                label="untrusted" if any(one.get("trust") == "untrusted" for one in context.loaded) else "",
            )
        ]

    async def _memory(self, context: Context) -> list[Section]:
        store = self.memory_store
        if store is None:
            return []

        async def read() -> object:
            memory = await seen_in(store.for_agent(context.tenant_id, context.agent_id), context.run_id)
            return [
                {"label": b.label, "text": b.text, "limit": b.limit_chars, "ref": b.ref}
                for b in await memory.blocks()
            ]

        blocks: list[dict[str, Any]] = await context.read_own("memory", read) or []
        texts = [template("memory-1")]
        for block in blocks:
            size = f"{len(block['text']):,} of {block['limit']:,} characters"
            inside = fence(block["text"], source=block["ref"]) if block["text"] else "(empty)"
            texts.append(f"### {block['label']} ({size})\n{inside}")
        sources = tuple(Source(ref=block["ref"], why="core memory") for block in blocks if block["text"])
        return [
            Section(
                tag="memory",
                text="\n\n".join(texts),
                stability="slow",
                priority=85,
                sources=sources,
                trust="untrusted",
                is_fenced=True,
                truncation="middle",
            )
        ]

    def _history(self, context: Context) -> list[Section]:
        sections: list[Section] = []
        if context.task:
            sections.append(
                Section(
                    tag="task",
                    text=context.task,
                    role="user",
                    pinned=True,
                    cut="middle" if context.task_kept else "",
                    sources=(Source(ref=context.task_kept, why="all of it"),) if context.task_kept else (),
                )
            )
        if context.summary:
            text = f"Past Events Summary: {fence(context.summary, source='past events')}"
            sections.append(
                Section(
                    tag="summary",
                    text=text,
                    stability="slow",
                    pinned=True,
                    trust=context.summary_trust,
                    is_fenced=True,
                    sources=(Source(ref=context.summary_from, why="compacted"),),
                )
            )
        sections.append(
            Section(
                tag="conversation",
                range=context.conversation,
                stability="append_only",
                priority=70,
                truncation="start",
            )
        )
        return sections

    async def _recall(self, context: Context) -> list[Section]:
        store = self.memory_store
        if store is None or self.recall_limit <= 0 or not context.query.strip():
            return []

        async def read() -> object:
            memory = await seen_in(store.for_agent(context.tenant_id, context.agent_id), context.run_id)
            hits = await memory.recall(context.query, limit=self.recall_limit)
            return [{"id": hit.id, "text": hit.text} for hit in hits] or None

        hits: list[dict[str, Any]] | None = await context.read_own("recalled", read)
        if not hits:
            return []
        lines = "\n".join(f"- [{hit['id']}] {hit['text']}" for hit in hits)
        return [
            Section(
                tag="recalled",
                text=f"{template('recalled-1')}\n\n{fence(lines, source='memory')}",
                stability="volatile",
                priority=30,
                max_tokens=RECALLED_TOKENS_MAX,
                trust="untrusted",
                is_fenced=True,
                sources=tuple(Source(ref=hit["id"], why="recalled") for hit in hits),
            )
        ]

    async def _extras(self, context: Context) -> list[Section]:
        found: list[Section] = []
        for index, extra in enumerate(self.extra_sections):
            made: Any = extra(context) if callable(extra) else extra
            if inspect.isawaitable(made):
                made = await made
            found.extend(_as_sections(made, name=getattr(extra, "__name__", f"extra{index}")))
        return found


def _check_arguments(
    identity: object, personality: object, store: object, limit: object, extras: Sequence[object]
) -> None:
    """Errors: `InvalidRequest` that names the argument."""
    for name, value in (("identity", identity), ("personality", personality)):
        if not isinstance(value, str):
            raise InvalidRequest(name, expected="text", got=repr(value)[:80])
    if store is not None and not hasattr(store, "for_agent"):
        raise InvalidRequest(
            "memory_store", expected="SQLiteMemoryStore(...) or kernel.memory", got=repr(store)[:80]
        )
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 0:
        raise InvalidRequest("recall_limit", expected="a whole number from 0", got=repr(limit)[:80])
    for extra in extras:
        if not (callable(extra) or isinstance(extra, Section | str)):
            raise InvalidRequest(
                "extra_sections", expected="functions of the context, Sections or texts", got=repr(extra)[:80]
            )


def _reader(path: Path) -> Callable[[], Awaitable[str]]:
    async def read() -> str:
        try:
            content = path.read_bytes()
            text = content.decode()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidRequest(
                f"the rules in {str(path)!r} cannot be read",
                expected="a UTF-8 text file",
                got=str(error)[:200],
            ) from None
        if len(content) > RULES_BYTES_MAX:
            raise InvalidRequest(
                f"the rules in {str(path)!r} are too long",
                got=f"{len(content)} bytes",
                expected=f"at most {RULES_BYTES_MAX} bytes",
            )
        return text

    return read


def _as_sections(made: object, *, name: str) -> list[Section]:
    """Errors: `InvalidRequest` for anything that is no section."""
    if made is None:
        return []
    if isinstance(made, Section):
        return [made]
    if isinstance(made, str):
        return [Section(tag=name, text=made, stability="volatile")]
    if isinstance(made, list | tuple):
        items = cast("Sequence[object]", made)
        return [section for item in items for section in _as_sections(item, name=name)]
    raise InvalidRequest(
        f"the extra section {name!r} gave something else",
        expected="a Section, a list of them, text or None",
        got=type(made).__name__,
    )
