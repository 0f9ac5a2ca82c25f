"""What an output costs to judge grows with its size, whatever it is made of.

The inputs are so large that a rule which looks at each place twice would not come to an end.
"""

from __future__ import annotations

import pytest

from artelier.missions.task.output_lint import SEARCHES_MAX, TEXT_CHARS_MAX, Grounds, Judged, faults_of

MORE = 4_000_000
BLANK = ("\n", " \n", "\t\n", " ", "\u00a0\n", "#\n", "1 ", "1. \n")


def judged(text: str, *shown: str) -> dict[str, tuple[str, ...]]:
    """What is found wrong with an output, by rule."""
    output = Judged(ref="m/o@1", media="markdown", text=text)
    return {one.rule: one.found for one in faults_of([output], Grounds(asked=[], shown=shown))}


@pytest.mark.parametrize("blank", BLANK)
def test_an_output_of_nothing_much_is_judged(blank: str) -> None:
    filler = blank * ((TEXT_CHARS_MAX - 20) // len(blank))

    assert "unfounded_figure" not in judged(f"Oslo{filler}\n4711", "Oslo sold 4711.")
    assert judged(f"Oslo\n4712\n{filler}", "Oslo sold 4711.")["unfounded_figure"] == ("4712",)


def test_numbers_of_lists_are_no_figures() -> None:
    text = "# Oslo\n\n  13. It sold 4711.\n\n## 14) And\n\n\t15. nothing else\n16.\n4711\n"

    assert judged(text, "4711") == {}
    assert judged(f"{text}17 more", "4711") == {"unfounded_figure": ("17",)}


def test_as_many_figures_as_fit_on_one_line_are_looked_up() -> None:
    figures = " ".join(str(100_000 + number) for number in range(19_000))
    text = f"{figures} " * 3

    assert judged(f"{text} 99", figures)["unfounded_figure"] == ("99",)


def test_figures_are_worked_out_from_those_beside_them_up_to_a_bound() -> None:
    sums = [f"Of {400 + n} and {7_000 + n}, in all {7_400 + 2 * n}." for n in range(2, 90)]
    shown = " ".join(f"{400 + n} {7_000 + n}" for n in range(2, 90))
    lines = [" ".join(str(10_000 + 97 * n + line) for n in range(16)) for line in range(3_000)]
    crowded = "\n".join(f"{line} {7_777_777 + n}" for n, line in enumerate(lines))

    assert judged("\n\n".join(sums), shown) == {}
    assert judged("From 80 to 100 it is 25 %, a share of 55.6 %, 20 more.", "80 100") == {}
    assert judged(crowded, *lines)["unfounded_figure"][0] == "7777777"


def test_as_many_names_as_fit_are_looked_for_in_sources_of_any_size() -> None:
    names = [f"a{number}.csv" for number in range(20_000)]
    listed = ", ".join(f"`data/{name}`" for name in names)
    shown = "y" * MORE + " " + listed

    assert "unknown_source" not in judged(listed, shown)
    assert "unknown_source" not in judged(listed.replace("data/", ""), shown)
    assert judged(f"{listed} {names[7]} b.csv", shown)["unknown_source"] == ("b.csv",)
    assert judged(listed, "y" * MORE)["unknown_source"][0] == f"data/{names[0]}"


def test_names_that_are_parts_of_those_in_sources_are_known_up_to_a_bound() -> None:
    pages = [f"https://stats.example.org/{number}" for number in range(SEARCHES_MAX + 1)]
    shown = " ".join(f"{page}.page" for page in pages)

    assert "unknown_source" not in judged("\n".join(pages[:-1]), shown)
    assert judged("\n".join(pages), shown)["unknown_source"] == (pages[-1],)


def test_words_of_the_task_that_look_unfinished_are_looked_for_up_to_a_bound() -> None:
    marks = [f"{{{{ field_{number} }}}}" for number in range(20_000)]
    text = " and ".join(marks)

    assert "placeholder" not in judged(" and ".join(marks[:SEARCHES_MAX]), text)
    assert judged(text, "y" * MORE + text)["placeholder"][0] == marks[SEARCHES_MAX]
