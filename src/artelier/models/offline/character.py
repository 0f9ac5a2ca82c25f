"""Talk in character: a short reply that takes up what was said, and the scene and notes of the prompt.

Nothing is made up: what stands in a reply was said, or stands in the prompt. Asked what it is, the model
says so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from zlib import crc32

from artelier.models.offline.chat import small_talk
from artelier.models.offline.fitting import limit_of
from artelier.models.offline.recollection import best, is_personal, known_in, told
from artelier.models.offline.report import LABEL
from artelier.models.offline.turns import asked_at, body_of, is_past
from artelier.ports.model import ChatMessage, ModelRequest

SYSTEM_CHARS_MAX = 20_000
SAID_CHARS_MAX = 4_000
QUOTE_CHARS = 90
NOTE_CHARS = 160
NOTES_MAX = 2

_TALKS = re.compile(r"You are (?P<name>[^\n]{1,200}?), (?:talking|in a conversation) with [^\n]{1,200}")
_NAMED = re.compile(r"You are (?P<name>[^\n.,:#]{1,80})\.")
_ROLE = re.compile(
    r"\W*You are (?P<article>an?\b|the\b)?[ ]*"
    r"(?P<name>(?:(?:Dr|Mrs?|Ms|Prof|St)\. )?[^\s.,:;#!?]{1,40}"
    r"(?: (?!(?:who|that|which|with|and|in|from|for|to|of|on|at)\b)[^\s.,:;#!?]{1,40}){0,3})",
    re.IGNORECASE,
)
_NAMELESS = "the assistant"
_AGENT = re.compile(r"\s*You work on one goal\b")
_SKILLS = re.compile(r"^#{1,3} (?:loaded )?skills[ \t]*$", re.IGNORECASE | re.MULTILINE)
"""What only an agent is shown."""
_TASK = re.compile(
    r"\W*(?:task:|(?:please )?(?:shorten|summari[sz]e|condense|extract|rewrite|rephrase|classify|merge|"
    r"list)\b)",
    re.IGNORECASE,
)
"""How the system text of a piece of work begins, which is no conversation."""
_WORKS = re.compile(
    r"\b(?:analy(?:st|sis|[sz]es?)|tables?|databases?|data ?sets?|sql|tools?|files?|workspace)\b", re.I
)
_DATA = re.compile(
    r"\b(?:how (?:many|much)|totals?|averages?|mean|median|sums?|counts?|rows?|columns?|tables?|files?|data|"
    r"sales|reports?|compare|analy[sz]e|most|least|highest|lowest|largest|smallest|best|worst)\b",
    re.IGNORECASE,
)
_CONTINUES = "Go on with your last message"
_FICTION = re.compile(
    r"\bfictional (?:chat|conversation)|\brole-?play|\bin character\b|'s next reply\b", re.IGNORECASE
)
_ABOUT = re.compile(r"^# ([^\n]{1,200})$", re.MULTILINE)
_SUMMARY = re.compile(r"\bsummar(?:y|i[sz]e|i[sz]ing)\b", re.IGNORECASE)
_IDENTITY = re.compile(
    r"\b(?:what|who)(?: exactly)? are you\b|\bare you (?:really )?(?:an? )?(?:ai|human|person|robot|bot|"
    r"machine|(?:language )?model|program|llm|chatbot|chatgpt|gpt|claude|real)\b|"
    r"\bwhich (?:ai |language )?model\b|\bwhat (?:ai |language )?model\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")
_HEADING = re.compile(r"^#{1,6}[ \t]+[^\n]*$", re.MULTILINE)
_FIELD = re.compile(
    r"^[ \t]*(?:[-*][ \t]*)?(location|place|time|mood)[ \t]*:[ \t]*([^\n]{1,80})$", re.I | re.M
)
_JSON_FIELD = re.compile(r'"(location|place|time|mood)"\s*:\s*"([^"\\\n]{1,80})"', re.IGNORECASE)

_TAKING = (
    "{name} takes that up: “{said}”",
    "“{said}”, {name} repeats slowly.",
    "{name} nods at your words: “{said}”",
    "{name} weighs it: “{said}”",
)
_UNKNOWN = (
    "“{said}” {name} has no answer to that which would be more than a guess.",
    "{name} thinks about it: “{said}” Nothing that was said so far answers it.",
)
_BACK = (
    "What do you do next?",
    "And then?",
    "Tell me more.",
    "How do you mean that?",
    "What should come of it?",
)
_ON = (
    "{name} waits for what you say to that.",
    "Then {name} is silent, and listens.",
    "{name} leaves the next step to you.",
    "So it stands, and the next word is yours.",
)


def is_wanted(request: ModelRequest) -> bool:
    """Return True if a request is the turn of a character, without tools to look anything up."""
    if not _is_open(request):
        return False
    if _to_continue(request):
        return True
    if asked_at(request.messages) < 0 or _SUMMARY.search(_asked(request)[:500]):
        return False
    return bool(_name(request.messages))


def is_talk(request: ModelRequest) -> bool:
    """Return True if a request that is no other work is a turn of a conversation, with whomever.

    A task is none, nor is a question on data to somebody who works with it: these are met or refused.
    """
    if not _is_open(request) or asked_at(request.messages) < 0:
        return False
    said = _asked(request)[:500]
    if is_personal(said):  # what is known of a person has its own answer
        return False
    system = request.messages[0].text[:SYSTEM_CHARS_MAX]
    if _AGENT.match(system) or _TASK.match(system):
        return False
    if any(_SKILLS.search(text) for text in _system_texts(request)):
        return False
    return not (_WORKS.search(system) and _DATA.search(said))


def reply(request: ModelRequest) -> str:
    """Return what the character says, in a few sentences."""
    name, said = _name(request.messages) or _role(request.messages), _asked(request)
    if last := _to_continue(request):
        return _further(name, last, request)
    if _IDENTITY.search(said[:500]):
        label = LABEL.strip("*").removeprefix("Written by ").rstrip(".")
        return f"I am {label}. In this conversation I stand in for {name}."
    greeting = small_talk(said)
    room = _room(request)
    if greeting is not None:
        opening = "Goodbye." if greeting == "Goodbye." else "Good to have you here."
        if greeting.startswith("You are welcome"):
            opening = greeting
        return _begun(f"{name}: {opening}")[:room]
    turn = crc32(f"{len(request.messages)}\0{said}".encode())
    sentences = [_taken_up(name, said, request, turn), *_scene(request), *_noted(request)]
    if said.rstrip()[-1:] != "?":
        sentences.append(_BACK[turn // 7 % len(_BACK)])
    return _within(sentences, room)


def _name(messages: Sequence[ChatMessage]) -> str:
    """The character that the prompt gives the model to be; empty if it gives none."""
    first = messages[0] if messages else None
    if first is None or first.role != "system" or is_past(first):
        return ""
    text = first.text[:SYSTEM_CHARS_MAX]
    if (found := _TALKS.match(text)) is not None:
        return found["name"].strip()
    about = _ABOUT.search(text)
    if about is not None and text.startswith(f"You are {about[1].strip()}."):
        return about[1].strip()
    if about is not None and _NAMED.match(text) is not None:
        return ""
    if about is not None and _FICTION.search(text):
        return about[1].strip()
    return ""


def _role(messages: Sequence[ChatMessage]) -> str:
    """Return what to call somebody whom the prompt does not name: `the poet`."""
    found = _ROLE.match(messages[0].text[:SYSTEM_CHARS_MAX])
    if found is None:
        return _NAMELESS
    if found["article"]:
        return f"the {found['name']}"
    return found["name"] if found["name"][0].isupper() else _NAMELESS


def _is_open(request: ModelRequest) -> bool:
    """Return True if a request has a system text, and neither tools nor a form for its reply."""
    first = request.messages[0] if request.messages else None
    if request.tools or request.output_schema is not None or first is None:
        return False
    return first.role == "system" and not is_past(first)


def _to_continue(request: ModelRequest) -> str:
    """The last reply, if the prompt asks behind it to go on with it; else nothing."""
    is_asked = False
    for message in reversed(request.messages):
        if message.role != "system":
            return message.text if is_asked and message.role == "assistant" else ""
        lines = message.text[-SYSTEM_CHARS_MAX:].splitlines()
        is_asked = is_asked or any(line.startswith(_CONTINUES) for line in lines)
    return ""


def _further(name: str, last: str, request: ModelRequest) -> str:
    """One more sentence, which the last reply does not have yet, to stand right behind it."""
    forms = [_begun(one.format(name=name)) for one in _ON]
    start = crc32(last.encode(errors="replace")) % len(forms)
    turned = [*forms[start:], *forms[:start]]
    sentence = next((one for one in turned if one not in last), turned[0])
    gap = "" if last[-1:].isspace() else " " if last[-1:] in '.!?…”"*)' else " … "
    return f"{gap}{sentence}"[: _room(request)]


def _room(request: ModelRequest) -> int:
    limit = limit_of(request)
    return max(1, min(1_200, limit if limit is not None else 1_200))


def _begun(text: str) -> str:
    """A text that may begin with `the poet` as a sentence begins."""
    return f"The {text[4:]}" if text.startswith("the ") else text


def _asked(request: ModelRequest) -> str:
    at = asked_at(request.messages)
    if at < 0:
        return ""
    return " ".join(body_of(request.messages[at].text)[:SAID_CHARS_MAX].split())


def _taken_up(name: str, said: str, request: ModelRequest, turn: int) -> str:
    if is_personal(said):
        known = best(said, known_in(request))
        if known is not None:
            return f"{name} remembers what you said: {told(known)}"
    quote = _clipped(next((one.strip() for one in _SENTENCE.findall(said) if one.strip()), said))
    forms = _UNKNOWN if said.rstrip().endswith("?") else _TAKING
    return _begun(forms[turn % len(forms)].format(name=name, said=quote.rstrip(" ,;:")))


def _scene(request: ModelRequest) -> list[str]:
    """One sentence about where and when it is, as far as the prompt's notes say so."""
    found: dict[str, str] = {}
    for text in _system_texts(request):
        for field, value in (*_FIELD.findall(text), *_JSON_FIELD.findall(text)):
            plain = " ".join(str(value).split()).strip(" .,;\"'")
            if plain and plain.lower() not in ("unknown", "none", "null", "here"):
                found["place" if field.lower() == "location" else field.lower()] = plain
    time, mood = found.get("time", ""), found.get("mood", "")
    place = f"at {found['place']}" if "place" in found else ""
    lead = f"It is {time} {place or 'here'}" if time else f"We are {place}" if place else ""
    if mood:
        lead = f"{lead}, and the mood is {mood}" if lead else f"The mood is {mood}"
    return [f"{lead}."] if lead else []


def _noted(request: ModelRequest) -> list[str]:
    """Return what notes behind the newest words say: their first sentence each, as it is."""
    at = asked_at(request.messages)
    notes: list[str] = []
    for message in request.messages[at + 1 :]:
        if message.role != "system":
            continue
        text = message.text[:SYSTEM_CHARS_MAX]
        if _FIELD.search(text) or _JSON_FIELD.search(text):
            continue  # the scene, which is told already
        lines = [one.strip(" []\t") for one in _HEADING.sub("", text).splitlines()]
        first = next((one for line in lines for one in _SENTENCE.findall(line) if len(one) > 3), "")
        if first.startswith("- "):
            notes.append(f"Said before: “{_clipped(first[2:])}”")
        elif first:
            notes.append(_clipped(first, NOTE_CHARS))
    return notes[:NOTES_MAX]


def _system_texts(request: ModelRequest) -> list[str]:
    return [
        one.text[:SYSTEM_CHARS_MAX] for one in request.messages if one.role == "system" and not is_past(one)
    ]


def _clipped(text: str, most: int = QUOTE_CHARS) -> str:
    flat = "".join(one if one.isprintable() else " " for one in text).replace("“", "").replace("”", "")
    if len(flat) <= most:
        return flat
    return flat[: most - 1].rsplit(" ", 1)[0] + "…"


def _within(sentences: Sequence[str], room: int) -> str:
    text = ""
    for sentence in sentences:
        longer = f"{text} {sentence}".strip()
        if len(longer) > room:
            break
        text = longer
    return text or sentences[0][:room]
