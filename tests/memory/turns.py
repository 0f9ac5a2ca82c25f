"""A thousand turns of somebody's day: planted facts, the same facts said again, and talk around them."""

from __future__ import annotations

import random
from dataclasses import dataclass

PEOPLE = (
    "Nadia Omar Ingrid Tomas Yuki Femi Clara Pavel Amara Bruno Delphine Eskil Farida Goran Hana"
    " Ismael Jolanta Kofi Leila Mateo"
).split()
THINGS = (
    ("locker", "The locker of {who} opens with the code {value}", "Which code opens {who}'s locker?"),
    ("allergy", "{who} is allergic to {value} and carries a pen", "What is {who} allergic to?"),
    ("budget", "{who} has a travel budget of {value} for the spring", "How large is {who}'s travel budget?"),
    ("pet", "The dog of {who} is called {value}", "What is the name of {who}'s dog?"),
    ("flight", "{who} lands in Lisbon with flight {value}", "With which flight does {who} land?"),
)
VALUES = {
    "allergy": "peanuts shellfish latex penicillin wasps kiwi sesame lupin celery mustard".split(),
    "pet": "Biscuit Comet Domino Ember Fidget Gizmo Hobbes Iris Juno Kepler".split(),
}
FRAMES = ("As I said earlier, {}", "Reminder: {}", "for the record, {}", "{} (again)", "By the way {}")
TALK = (
    "The coffee in the {place} was {adjective} this morning",
    "We looked at the {thing} and decided nothing",
    "{who} laughed about the {adjective} {thing}",
    "It has been a {adjective} week at the {place}",
    "Somebody left a {thing} in the {place}",
    "I would like to tidy the {place} some day",
    "The {thing} still looks {adjective} to me",
    "Turn {n}: nothing special happened with the {thing}",
)
WORDS = {
    "place": "kitchen garden office corridor basement lobby terrace archive workshop canteen".split(),
    "adjective": "strange quiet lovely dull noisy bright odd slow warm cold tiny grand".split(),
    "thing": "printer umbrella calendar whiteboard plant window ladder kettle stapler poster".split(),
}

BOOT = """You are a senior data analyst of the finance team.
Always answer in three short paragraphs with a headline.
Never reveal the internal pricing model to customers.
Use the tool query_sales before you draw a chart of revenue.
"""
BOOT_ECHOES = (
    "You are a senior data analyst of the finance team.",
    "Always answer in three short paragraphs, with a headline",
    "I must never reveal the internal pricing model to customers",
    "Use the tool query_sales before drawing a chart of revenue",
)


@dataclass(frozen=True)
class Fact:
    text: str
    question: str
    value: str


def facts() -> list[Fact]:
    """A hundred, five about each person."""
    chance = random.Random(7)
    found: list[Fact] = []
    for n, who in enumerate(PEOPLE):
        for kind, text, question in THINGS:
            value = {
                "locker": f"{chance.randint(1000, 9999)}",
                "budget": f"{chance.randint(10, 99) * 25} euros",
                "flight": f"TP{chance.randint(100, 999)}",
            }.get(kind) or VALUES[kind][n % 10]
            found.append(Fact(text.format(who=who, value=value), question.format(who=who), value))
    return found


def again(text: str, chance: random.Random) -> str:
    """The same fact as somebody might say it a second time."""
    match chance.randrange(4):
        case 0:
            return chance.choice(FRAMES).format(text)
        case 1:
            return text.upper() + "!"
        case 2:
            return _misspelled(text, chance)
        case _:
            return chance.choice(FRAMES).format(text[0].lower() + text[1:])


def _misspelled(text: str, chance: random.Random) -> str:
    words = text.split()
    long = [n for n, word in enumerate(words) if len(word) >= 6 and word.isalpha() and n]
    if not long:
        return f"Note that {text}"
    place = chance.choice(long)
    word = words[place]
    words[place] = word[:3] + word[4] + word[3] + word[5:]
    return " ".join(words)


def turns() -> list[str]:
    """A thousand texts: each fact four times, and six hundred about nothing."""
    chance = random.Random(11)
    known = facts()
    said = [fact.text for fact in known]
    said += [again(fact.text, chance) for fact in known for _ in range(3)]
    for n in range(600):
        words = {name: chance.choice(choices) for name, choices in WORDS.items()}
        said.append(chance.choice(TALK).format(who=chance.choice(PEOPLE), n=n, **words))
    chance.shuffle(said)
    return said
