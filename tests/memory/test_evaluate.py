"""The evaluation: what it counts, on conversations small enough to count by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest

from artelier.errors import InvalidRequest
from artelier.memory import Weights, evaluate
from artelier_lab.bench.memory.talks import made_up_conversations


def turn(id_: str, speaker: str, text: str, **more: str) -> dict[str, Any]:
    return {"dia_id": id_, "speaker": speaker, "text": text, **more}


def talk(*qa: dict[str, Any]) -> dict[str, Any]:
    return {
        "conversation": {
            "speaker_a": "Ann",
            "speaker_b": "Ben",
            "session_1_date_time": "1:00 pm on 8 May, 2023",
            "session_1": [
                turn("D1:1", "Ann", "I adopted a tortoise."),
                turn("D1:2", "Ben", "Good for you."),
                turn("D1:3", "Ann", ""),
                turn("D1:4", "Ben", "", blip_caption="a photo of a trombone"),
            ],
            "session_2_date_time": "2:00 pm on 9 June, 2023",
            "session_2": [turn(f"D2:{n}", "Ben", f"Nothing new, number {n}.") for n in range(1, 15)]
            + [turn("D2:15", "Ann", "My tortoise ate the zucchini.")],
        },
        "qa": list(qa),
    }


def asked(question: str, *evidence: str, category: int = 1) -> dict[str, Any]:
    return {"question": question, "category": category, "evidence": list(evidence)}


def test_found_first_is_all_points() -> None:
    found = evaluate([talk(asked("What was adopted?", "D1:1"), asked("trombone", "D1:4"))])

    assert (found["r_at_1"], found["r_at_10"], found["ndcg_at_10"], found["mrr"]) == (100,) * 4
    assert found["questions"] == 2
    assert found["entries"] == 18, "a turn without text and picture is no entry"


def test_recall_is_the_share_of_the_evidence() -> None:
    found = evaluate([talk(asked("zucchini", "D2:15", "D1:2"))])

    assert found["r_at_1"] == found["r_at_10"] == 50.0
    assert found["ndcg_at_10"] == pytest.approx(100 / (1 + 1 / math.log2(3)), abs=0.01)
    assert found["mrr"] == 100.0


def test_what_is_not_found_counts_as_zero() -> None:
    found = evaluate([talk(asked("xylophone", "D1:1"))])

    assert (found["r_at_1"], found["r_at_10"], found["ndcg_at_10"], found["mrr"]) == (0,) * 4


def test_questions_about_the_wrong_person_stand_apart() -> None:
    found = evaluate([talk(asked("What did Ben adopt?", "D1:1", category=5))])

    assert found["adversarial_r_at_10"] == 100.0
    assert (found["questions"], found["adversarial_questions"]) == (0, 1)


def test_questions_without_known_evidence_are_left_out_and_joined_ids_are_read() -> None:
    found = evaluate([talk(asked("a", category=3), asked("b", "D9:9"), asked("tortoise", "D1:1; D2:15"))])

    assert found["questions"] == 1
    assert found["r_at_10"] == 100.0


def test_each_question_is_asked_of_its_own_conversation() -> None:
    other = talk(asked("tortoise", "D1:2"))
    other["conversation"]["session_1"][0]["text"] = "I adopted nobody."
    other["conversation"]["session_1"][1]["text"] = "A tortoise would be nice."
    other["conversation"]["session_2"] = []

    found = evaluate([talk(asked("adopted", "D1:1")), other])

    assert found["r_at_1"] == 100.0 and found["conversations"] == 2


def test_weights_and_embedder_matter() -> None:
    talks = made_up_conversations()
    usual = evaluate(talks)
    silly = evaluate(talks, weights=Weights(words=-9.0, near=-9.0, bm25=-9.0, context=-9.0))

    assert usual["r_at_10"] > 95 > silly["r_at_10"]
    assert usual["questions"] == usual["adversarial_questions"] == 48
    with pytest.raises(InvalidRequest, match="no such embedder"):
        evaluate(talks, embedder="nobody")


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"conversation": {}},
        {"conversation": {}, "qa": [{}]},
        {"conversation": [], "qa": []},
        {"conversation": {"session_1": [{"text": "no id"}]}, "qa": []},
        {"conversation": {"session_1": ["a"]}, "qa": []},
        {"conversation": {}, "qa": [{"question": 1}]},
    ],
    ids=repr,
)
def test_another_shape_is_refused(broken: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="no conversation with questions"):
        evaluate([broken])


def test_no_conversations_give_no_figures() -> None:
    assert evaluate([])["questions"] == 0
