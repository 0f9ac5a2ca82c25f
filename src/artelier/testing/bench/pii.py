"""How well personal data is found: what is found in a made-up corpus, and what is marked wrongly."""

from __future__ import annotations

from artelier.pii.detectors import find_all, shipped
from artelier.testing.bench.figures import Target, rounded
from artelier.testing.pii_corpus import judge

FINDING_TARGETS = {
    "recall_least": Target(at_least=0.98),
    "false_alarms_per_1000": Target(at_most=5),
}

FINDING_UNITS = {
    "recall": "part of the values that was found whole and under its kind, over all kinds",
    "recall_least": "the same for the kind of which the least was found",
    "false_alarms_per_1000": "texts without a value, of 1,000, in which anything was marked",
}


def bench_finding(*, quick: bool) -> dict[str, float]:
    """`recall` and `false_alarms_per_1000`, over all and for each kind: 500 values and look-alikes of each.

    `quick`: 100 of each. The figures mean the same, with less certainty.
    """
    marks = judge(find_all, shipped(), count=100 if quick else 500)
    figures = {
        "recall": marks.recall_total,
        "recall_least": min(marks.recall.values()),
        "false_alarms_per_1000": marks.false_alarms_total,
    }
    figures |= {f"recall_{kind.lower()}": part for kind, part in marks.recall.items()}
    figures |= {
        f"false_alarms_per_1000_{kind.lower()}": wrong for kind, wrong in marks.false_alarms.items()
    }
    return {name: rounded(value) for name, value in figures.items()}
