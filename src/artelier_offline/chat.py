"""Talk: greetings, and short replies in character that take up what was said, the scene and the notes of
the prompt.

Nothing is made up: what stands in a reply was said, or stands in the prompt. Asked what it is, the model
says so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from zlib import crc32

from artelier.ports.model import ChatMessage, ModelRequest
from artelier_offline.conversation import asked_at, chars_max, question_of, system_texts
from artelier_offline.memory import is_personal
from artelier_offline.words import LABEL, flat

SYSTEM_CHARS_MAX = 20_000
SAID_CHARS_MAX = 4_000
QUOTE_CHARS_MAX = 90
NOTE_CHARS_MAX = 160
NOTES_MAX = 2
REPLY_CHARS_MAX = 1_200
UNDERSTOOD = "Understood. I have not stored it; it stays in this conversation as far as that is kept."
SELF = LABEL.strip("*").removeprefix("Written by ").rstrip(".")

_GREETING = re.compile(
    r"(?:hi|hello|hey|good (?:morning|afternoon|evening|day)|greetings)(?: there| all| everybody)?", re.I
)
_THANKS = re.compile(
    r"(?:thanks|thank you|great|perfect|ok(?:ay)?|good|nice)(?: (?:a lot|very much|so much))?", re.I
)
_BYE = re.compile(r"(?:bye|goodbye|see you|good night)(?: later| soon)?", re.I)
_HELP = re.compile(r"(?:who|what) are you|what can you do|what do you do|help", re.I)
_TALKS = re.compile(r"You are (?P<name>[^\n]{1,200}?), (?:talking|in a conversation) with [^\n]{1,200}")
_NAMED = re.compile(r"You are (?P<name>[^\n.,:#]{1,80})\.")
_ROLE = re.compile(
    r"(?i)\W*You are (?P<article>an?\b|the\b)?[ ]*(?P<name>(?:(?:Dr|Mrs?|Ms|Prof|St)\. )?[^\s.,:;#!?]{1,40}"
    r"(?: (?!(?:who|that|which|with|and|in|from|for|to|of|on|at)\b)[^\s.,:;#!?]{1,40}){0,3})"
)
_NAMELESS = "the assistant"
_WORK = re.compile(
    r"(?i)\s*You work on one goal\b|\W*(?:task:|(?:please )?"
    r"(?:shorten|summari[sz]e|condense|extract|rewrite|rephrase|classify|merge|list)\b)"
)
"""How the system text of a piece of work begins, which is no conversation."""
_SKILLS = re.compile(r"^#{1,3} (?:loaded )?skills[ \t]*$", re.I | re.M)
_ANALYST = re.compile(
    r"\b(?:analy(?:st|sis|[sz]es?)|tables?|databases?|data ?sets?|sql|tools?|files?|workspace)\b", re.I
)
_DATA = re.compile(
    r"(?i)\b(?:how (?:many|much)|totals?|averages?|mean|median|sums?|counts?|rows?|columns?|tables?|"
    r"files?|data|sales|reports?|compare|analy[sz]e|most|least|highest|lowest|largest|smallest|best|worst)\b"
)
_CONTINUES = "Go on with your last message"
_FICTION = re.compile(
    r"\bfictional (?:chat|conversation)|\brole-?play|\bin character\b|'s next reply\b", re.I
)
_ABOUT = re.compile(r"^# ([^\n]{1,200})$", re.M)
_IDENTITY = re.compile(
    r"(?i)\b(?:what|who)(?: exactly)? are you\b|\bare you (?:really )?(?:an? )?(?:ai|human|person|robot|bot|"
    r"machine|(?:language )?model|program|llm|chatbot|real)\b|\b(?:which|what) (?:ai |language )?model\b"
)
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")
_HEADING = re.compile(r"^#{1,6}[ \t]+[^\n]*$", re.M)
_FIELD = re.compile(
    r"^[ \t]*(?:[-*][ \t]*)?(location|place|time|mood)[ \t]*:[ \t]*([^\n]{1,80})$", re.I | re.M
)

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


def small_talk(text: str) -> str:
    """Return a brief answer to a greeting, thanks, or a question about the model; empty for anything else."""
    plain = " ".join(text[:200].split()).strip(" .!?,")
    if len(text) > 200:
        return ""
    if _GREETING.fullmatch(plain):
        return "Hello. Ask me about the data or the files that my tools can read."
    if _HELP.fullmatch(plain):
        told = "I answer questions about tables and texts with the tools I am given"
        return f"I am {SELF}. {told}, and I keep what you ask me to remember."
    if _THANKS.fullmatch(plain) or _BYE.fullmatch(plain):
        return "You are welcome." if _THANKS.fullmatch(plain) else "Goodbye."
    return ""


def is_wanted(request: ModelRequest) -> bool:
    """Return True if a request is a turn of a conversation in a role: no tools, no form for the reply."""
    if request.tools or request.output_schema is not None or not system_texts(request.messages[:1]):
        return False
    if _to_continue(request):
        return True
    asked = question_of(request.messages)[:500]
    if asked_at(request.messages) < 0:
        return False
    if _name(request.messages):
        return True
    system = request.messages[0].text[:SYSTEM_CHARS_MAX]
    is_work = _WORK.match(system) or any(_SKILLS.search(text) for text in system_texts(request.messages))
    return not (is_work or is_personal(asked) or (_ANALYST.search(system) and _DATA.search(asked)))


def reply(request: ModelRequest, known: Sequence[str] = ()) -> str:
    """Return what the character says. `known`: what answers a question about the person."""
    name = _name(request.messages) or _role(request.messages)
    asked = flat(question_of(request.messages)[:SAID_CHARS_MAX], SAID_CHARS_MAX)
    room = max(1, min(REPLY_CHARS_MAX, chars_max(request) or REPLY_CHARS_MAX))
    if last := _to_continue(request):
        return _further(name, last)[:room]
    if _IDENTITY.search(asked[:500]):
        return f"I am {SELF}. In this conversation I stand in for {name}."
    if greeting := small_talk(asked):
        parting = greeting if greeting.startswith(("Goodbye", "You are welcome")) else ""
        return _begun(f"{name}: {parting or 'Good to have you here.'}")[:room]
    turn = crc32(f"{len(request.messages)}\0{asked}".encode(errors="replace"))
    told = known[0].partition("\n")[0] if known else ""
    first = f"{name} remembers what you said: {told}" if known else _taken_up(name, asked, turn)
    sentences = [_begun(first), *_scene(request), *_noted(request)]
    if asked.rstrip()[-1:] != "?":
        sentences.append(_BACK[turn // 7 % len(_BACK)])
    text = sentences[0][:room]
    for sentence in sentences[1:]:
        if len(text) + len(sentence) + 1 > room:
            break
        text = f"{text} {sentence}"
    return text


def _name(messages: Sequence[ChatMessage]) -> str:
    """Return the character that the prompt gives the model to be; empty if it gives none."""
    text = messages[0].text[:SYSTEM_CHARS_MAX]
    if (found := _TALKS.match(text)) is not None:
        return found["name"].strip()
    name = about[1].strip() if (about := _ABOUT.search(text)) else ""
    is_fiction = _FICTION.search(text) and _NAMED.match(text) is None
    return name if is_fiction or text.startswith(f"You are {name}.") else ""


def _role(messages: Sequence[ChatMessage]) -> str:
    """Return what to call somebody whom the prompt does not name: `the poet`."""
    found = _ROLE.match(messages[0].text[:SYSTEM_CHARS_MAX])
    if found is None:
        return _NAMELESS
    if found["article"]:
        return f"the {found['name']}"
    return found["name"] if found["name"][0].isupper() else _NAMELESS


def _to_continue(request: ModelRequest) -> str:
    """Return the last reply, if the prompt asks behind it to go on with it; else nothing."""
    is_asked = False
    for message in reversed(request.messages):
        if message.role != "system":
            return message.text if is_asked and message.role == "assistant" else ""
        is_asked = is_asked or any(
            line.startswith(_CONTINUES) for line in message.text[-SYSTEM_CHARS_MAX:].splitlines()
        )
    return ""


def _further(name: str, last: str) -> str:
    """Return one more sentence, which the last reply does not have yet, to stand right behind it."""
    forms = [_begun(one.format(name=name)) for one in _ON]
    start = crc32(last.encode(errors="replace")) % len(forms)
    turned = [*forms[start:], *forms[:start]]
    gap = "" if last[-1:].isspace() else " " if last[-1:] in '.!?…”"*)' else " … "
    return gap + next((one for one in turned if one not in last), turned[0])


def _begun(text: str) -> str:
    """Return a text that may begin with `the poet` as a sentence begins."""
    return f"The {text[4:]}" if text.startswith("the ") else text


def _taken_up(name: str, asked: str, turn: int) -> str:
    quote = _clipped(next((one.strip() for one in _SENTENCE.findall(asked) if one.strip()), asked))
    forms = _UNKNOWN if asked.rstrip().endswith("?") else _TAKING
    return forms[turn % len(forms)].format(name=name, said=quote.rstrip(" ,;:"))


def _scene(request: ModelRequest) -> list[str]:
    """Return one sentence about where and when it is, as far as the prompt's notes say so."""
    found: dict[str, str] = {}
    for text in system_texts(request.messages):
        for field, value in _FIELD.findall(text[:SYSTEM_CHARS_MAX]):
            plain = " ".join(str(value).split()).strip(" .,;\"'")
            if plain and plain.lower() not in ("unknown", "none", "null", "here"):
                found["place" if field.lower() == "location" else field.lower()] = plain
    place = f"at {found['place']}" if "place" in found else ""
    lead = f"We are {place}" if place else ""
    if "time" in found:
        lead = f"It is {found['time']} {place or 'here'}"
    if mood := found.get("mood", ""):
        lead = f"{lead}, and the mood is {mood}" if lead else f"The mood is {mood}"
    return [f"{lead}."] if lead else []


def _noted(request: ModelRequest) -> list[str]:
    """Return what notes behind the newest words say: their first sentence each, as it is."""
    notes: list[str] = []
    for message in request.messages[asked_at(request.messages) + 1 :]:
        text = message.text[:SYSTEM_CHARS_MAX]
        if message.role != "system" or _FIELD.search(text) or text.startswith("Write the next message "):
            continue  # the scene is told already, and who speaks is no note
        lines = [one.strip(" []\t") for one in _HEADING.sub("", text).splitlines()]
        first = next((one for line in lines for one in _SENTENCE.findall(line) if len(one) > 3), "")
        if first.startswith("- "):
            notes.append(f"Said before: “{_clipped(first[2:])}”")
        elif first:
            notes.append(_clipped(first, NOTE_CHARS_MAX))
    return notes[:NOTES_MAX]


def _clipped(text: str, most: int = QUOTE_CHARS_MAX) -> str:
    line = flat(text, SAID_CHARS_MAX).replace("“", "").replace("”", "")
    return line if len(line) <= most else line[: most - 1].rsplit(" ", 1)[0] + "…"
