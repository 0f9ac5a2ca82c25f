"""Small made-up conversations for the memory benchmark, where no real ones are at hand.

They show that search works at all; figures of quality mean little on texts as regular as these.
"""

from __future__ import annotations

import random
from typing import Any

SESSIONS = 12
TURNS = 24
_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_FACTS = (
    ("adopted a {} from the shelter", "What did {} adopt?", ("puppy", "kitten", "parrot", "tortoise")),
    (
        "signed up for a {} class last week",
        "Which class did {} sign up for?",
        ("pottery", "salsa", "welding", "Japanese"),
    ),
    ("went on a trip to {} with my sister", "Where did {} travel?", ("Portugal", "Iceland", "Kyoto", "Oslo")),
    (
        "started to play the {} again",
        "Which instrument does {} play?",
        ("cello", "clarinet", "banjo", "harp"),
    ),
    ("got a new job as a {}", "What does {} do for work?", ("nurse", "carpenter", "translator", "baker")),
    ("lost my {} on the train", "What did {} lose?", ("umbrella", "passport", "wallet", "scarf")),
    (
        "baked a {} for the neighbours",
        "What did {} bake?",
        ("lemon pie", "walnut bread", "plum cake", "pizza"),
    ),
    ("ran a {} for charity", "Which race did {} run?", ("marathon", "relay", "half marathon", "night run")),
)
_SMALL_TALK = (
    "Wow, that sounds great! How did it feel?",
    "Thanks, that means a lot to me.",
    "It was a long week, but a good one.",
    "I hope the weather holds until the weekend.",
    "Tell me more when we meet!",
    "Same here, time flies.",
    "That is so kind of you.",
    "I could not agree more, one has to enjoy the small things.",
)


def made_up_conversations(seed: int = 7) -> list[dict[str, Any]]:
    """Two conversations with questions, in the shape of the data set."""
    draw = random.Random(seed)
    return [_conversation(draw, names) for names in (("Nora", "Felix"), ("Ida", "Tom"))]


def _conversation(draw: random.Random, names: tuple[str, str]) -> dict[str, Any]:
    conversation: dict[str, Any] = {"speaker_a": names[0], "speaker_b": names[1]}
    questions: list[dict[str, Any]] = []
    planted = [(fact, thing) for fact in _FACTS for thing in fact[2]]
    draw.shuffle(planted)
    for number in range(1, SESSIONS + 1):
        month = _MONTHS[number - 1]
        conversation[f"session_{number}_date_time"] = f"1:15 pm on {3 + number} {month}, 2024"
        turns: list[dict[str, Any]] = []
        places = set(draw.sample(range(TURNS), k=2))
        for place in range(TURNS):
            speaker, id_ = names[place % 2], f"D{number}:{place + 1}"
            text = draw.choice(_SMALL_TALK)
            if place in places and planted:
                (told, asked, _), thing = planted.pop()
                text = f"Guess what, I {told.format(thing)}."
                question = f"{asked.format(speaker)[:-1]} in {month} 2024?"
                questions += _asked(question, id_, speaker, names)
            turns.append({"speaker": speaker, "dia_id": id_, "text": text})
        conversation[f"session_{number}"] = turns
    return {"conversation": conversation, "qa": questions}


def _asked(question: str, id_: str, speaker: str, names: tuple[str, str]) -> list[dict[str, Any]]:
    """The question, and the same about the wrong person."""
    other = names[0] if speaker == names[1] else names[1]
    return [
        {"question": question, "category": 1, "evidence": [id_]},
        {"question": question.replace(speaker, other), "category": 5, "evidence": [id_]},
    ]
