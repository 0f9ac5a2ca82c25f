"""When a schedule is due: cron lines on the clock of the wall, intervals from an anchor."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artelier.agents.schedules.recurrence import (
    EVERY_S_MAX,
    LAST_US,
    MISSED_MAX,
    SECOND_US,
    Timing,
    checked_timing,
    compact,
    interval,
    seconds_of,
)
from artelier.errors import InvalidRequest
from tests.schedules.stage import us, utc

BERLIN = "Europe/Berlin"


def times(timing: Timing, after: str, count: int) -> list[str]:
    found: list[str] = []
    at = us(after)
    for _ in range(count):
        following = timing.after(at)
        assert following is not None and following > at
        at = following
        found.append(utc(at))
    return found


def cron(line: str, zone: str = "UTC") -> Timing:
    return checked_timing(cron=line, every=None, zone=zone, now_us=us("2026-01-01T00:00:00"))


def test_a_fixed_time_that_the_clock_leaves_out_is_due_right_after_it() -> None:
    found = times(cron("30 2 * * *", BERLIN), "2026-03-28T00:00:00", 3)

    assert found == ["2026-03-28T01:30:00", "2026-03-29T01:00:00", "2026-03-30T00:30:00"]


def test_a_fixed_time_that_comes_twice_is_due_once() -> None:
    found = times(cron("30 2 * * *", BERLIN), "2026-10-24T12:00:00", 2)

    assert found == ["2026-10-25T00:30:00", "2026-10-26T01:30:00"]


def test_in_the_second_pass_of_an_hour_no_time_of_the_first_comes_again() -> None:
    second_pass = "2026-10-25T01:20:00"  # 2:20 in Berlin, for the second time

    found = times(cron("30 2 * * *", BERLIN), second_pass, 1)

    assert found == ["2026-10-26T01:30:00"]


def test_a_line_for_every_hour_goes_on_through_both_changes() -> None:
    spring = times(cron("0 * * * *", BERLIN), "2026-03-28T23:30:00", 4)
    autumn = times(cron("0 * * * *", BERLIN), "2026-10-24T23:30:00", 4)

    assert [one[11:16] for one in spring] == ["00:00", "01:00", "02:00", "03:00"]
    assert [one[11:16] for one in autumn] == ["00:00", "01:00", "02:00", "03:00"]


def test_a_cron_line_means_the_wall_of_its_zone() -> None:
    assert times(cron("0 9 * * 1-5", "Asia/Tokyo"), "2026-01-02T01:00:00", 1) == ["2026-01-05T00:00:00"]


def test_intervals_never_drift() -> None:
    timing = checked_timing(cron=None, every="7m", zone=None, now_us=us("2026-01-01T00:00:30") + 9)
    late = us("2026-01-01T00:00:30") + 3 * 420 * SECOND_US + 100 * SECOND_US

    due = timing.due(us("2026-01-01T00:07:30"), late)

    assert (utc(due.due_us), due.missed) == ("2026-01-01T00:21:30", 2)
    assert utc(due.next_us) == "2026-01-01T00:28:30"


@given(every=st.integers(1, 100_000), first=st.integers(1, 1_000), later_s=st.integers(0, 10_000_000))
def test_of_an_interval_the_newest_time_is_found_whenever_one_looks(
    every: int, first: int, later_s: int
) -> None:
    timing = Timing(every_s=every, anchor_us=us("2026-01-01T00:00:00"))
    first_us = timing.anchor_us + first * every * SECOND_US

    due = timing.due(first_us, now_us := first_us + later_s * SECOND_US)

    assert due.due_us <= now_us < (due.next_us or 0) == due.due_us + every * SECOND_US
    assert (due.due_us - timing.anchor_us) % (every * SECOND_US) == 0
    assert due.missed == min(MISSED_MAX, (due.due_us - first_us) // (every * SECOND_US))
    assert timing.after(due.due_us) == due.next_us


@given(
    line=st.sampled_from(
        ["* * * * *", "*/5 * * * *", "30 2 * * *", "0 */6 * * *", "15 2,3 * * 0", "0 0 29 2 *"]
    ),
    zone=st.sampled_from(["UTC", BERLIN, "America/New_York", "Australia/Lord_Howe"]),
    start_s=st.integers(0, 3 * 365 * 86_400),
    later_s=st.integers(0, 400 * 86_400),
)
def test_of_a_cron_line_the_newest_time_is_found_whenever_one_looks(
    line: str, zone: str, start_s: int, later_s: int
) -> None:
    timing = cron(line, zone)
    first_us = timing.after(us("2025-06-01T00:00:00") + start_s * SECOND_US)
    assert first_us is not None

    due = timing.due(first_us, now_us := first_us + later_s * SECOND_US)

    assert first_us <= due.due_us <= now_us
    assert due.next_us is not None and due.next_us > now_us
    assert timing.after(due.due_us) == due.next_us, "there is none between them"


def test_after_years_of_absence_the_newest_time_is_found_and_the_count_ends() -> None:
    every_minute, yearly = cron("* * * * *"), cron("0 0 1 1 *")

    minute = every_minute.due(us("2026-01-01T00:00:00"), us("2031-05-05T05:05:30"))
    year = yearly.due(us("1026-01-01T00:00:00"), us("2031-05-05T05:05:30"))

    assert (utc(minute.due_us), minute.missed) == ("2031-05-05T05:05:00", MISSED_MAX)
    assert utc(minute.next_us) == "2031-05-05T05:06:00"
    assert (utc(year.due_us), utc(year.next_us)) == ("2031-01-01T00:00:00", "2032-01-01T00:00:00")


def test_times_ascend_through_a_whole_year_of_changes() -> None:
    timing = cron("*/30 * * * *", "Australia/Lord_Howe")  # its clock changes by half an hour

    found = [us(one) for one in times(timing, "2026-01-01T00:00:00", 17_600)]

    assert all(after - before == 1_800 * SECOND_US for before, after in pairwise(found))


@pytest.mark.parametrize(
    ("zone", "forward", "back"),
    [
        ("America/New_York", "2026-03-08", "2026-11-01"),
        ("America/Santiago", "2026-09-06", "2026-04-05"),  # at midnight: the day has no 0:30
        ("Africa/Casablanca", "2026-03-22", "2026-02-15"),  # the other way around, for Ramadan
        ("Europe/Dublin", "2026-03-29", "2026-10-25"),  # its winter is the exception in the tables
        ("Australia/Lord_Howe", "2026-10-04", "2026-04-05"),  # by half an hour
        ("Asia/Kathmandu", "2026-03-29", "2026-10-25"),  # never, but +05:45
    ],
)
@pytest.mark.parametrize("line", ["30 0 * * *", "15 1 * * *", "30 2 * * *", "45 3 * * *"])
def test_a_daily_time_comes_once_a_day_whichever_way_the_clock_jumps(
    zone: str, forward: str, back: str, line: str
) -> None:
    for day in (forward, back):
        middle = datetime.fromisoformat(day)
        start = (middle - timedelta(days=2)).isoformat()
        found = times(cron(line, zone), f"{start[:10]}T12:00:00", 3)
        walls = [datetime.fromtimestamp(us(one) / 1e6, UTC).astimezone(ZoneInfo(zone)) for one in found]

        assert [later.toordinal() - one.toordinal() for one, later in pairwise(walls)] == [1, 1]
        minute, hour = (int(part) for part in line.split()[:2])
        kept = [(wall.hour, wall.minute) == (hour, minute) for wall in walls]
        assert kept.count(False) <= 1, "only the time that the clock leaves out is another"


# At the end of time, and beyond what is sensible


@pytest.mark.parametrize("line", ["* * * * *", "30 2 * * *", "0 0 1 1 *", "0 0 29 2 *"])
@pytest.mark.parametrize("zone", ["UTC", BERLIN, "Asia/Tokyo", "Pacific/Kiritimati", "Etc/GMT+12"])
@pytest.mark.parametrize("year", [9_930, 9_998, 9_999])
def test_at_the_end_of_the_calendar_there_is_no_next_time(line: str, zone: str, year: int) -> None:
    timing, at = cron(line, zone), us(f"{year}-12-30T23:59:30")

    while (following := timing.after(at)) is not None and year > 9_990 and line != "* * * * *":
        assert following > at
        at = following

    assert timing.after(LAST_US) is None
    assert timing.due(at, LAST_US * 100).due_us <= LAST_US


def test_an_interval_ends_with_the_calendar_too() -> None:
    timing = Timing(every_s=86_400, anchor_us=0)

    assert timing.after(LAST_US) is None
    assert timing.due(0, LAST_US * 100) == (LAST_US, MISSED_MAX, None)
    with pytest.raises(InvalidRequest, match="beyond the year 9999"):
        compact(LAST_US + SECOND_US)


_FIELD = st.text(alphabet="0123456789*/,-#LW?JANMON ", max_size=8)


@given(
    line=st.one_of(
        st.lists(_FIELD, min_size=5, max_size=5).map(" ".join),
        st.text(max_size=40),
        st.lists(
            st.sampled_from(
                ["*", "*/7", "0", "59", "1-5", "29", "31", "2", "L", "LW", "5L", "1#5", "*/29", "12", "7"]
            ),
            min_size=5,
            max_size=5,
        ).map(" ".join),
    ),
    zone=st.sampled_from(["UTC", BERLIN, "America/Santiago"]),
    at_s=st.integers(-62_000_000_000, 253_402_300_799),
)
def test_any_text_is_a_line_with_ascending_times_or_refused(line: str, zone: str, at_s: int) -> None:
    try:
        timing = checked_timing(cron=line, every=None, zone=zone, now_us=0)
    except InvalidRequest:
        return
    at: int | None = at_s * SECOND_US
    for _ in range(3):
        assert at is not None
        following = timing.after(at)
        if following is None:
            break
        assert at < following <= LAST_US
        assert compact(following)
        at = following


@given(every=st.one_of(st.text(max_size=30), st.integers(), st.floats(), st.binary(max_size=5)))
def test_anything_is_an_interval_of_some_seconds_or_refused(every: object) -> None:
    try:
        assert 1 <= seconds_of(every) <= EVERY_S_MAX
    except InvalidRequest as error:
        assert "not an interval" in str(error)


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("5m", 300), ("1h30m", 5_400), ("1w", 604_800), (90, 90)]
)
def test_an_interval_can_be_said_in_several_ways(text: str | int, seconds: int) -> None:
    assert seconds_of(text) == seconds
    assert seconds_of(interval(seconds)) == seconds


@pytest.mark.parametrize(
    "every", ["", "0s", "-5m", "5", "m", "1.5h", "5 m", "11y", "99999999w", 0, -1, True, 1.5, "٣m"]
)
def test_what_is_no_interval_is_refused(every: object) -> None:
    with pytest.raises(InvalidRequest, match="not an interval"):
        checked_timing(cron=None, every=every, zone=None, now_us=0)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "* * * *",
        "* * * * * *",
        "61 * * * *",
        "* 24 * * *",
        "a b c d e",
        "0 0 31 2 *",
        "@daily",
        "* * * * *\n* * * * *",
        "٣ * * * *",
        "*" * 500,
        5,
        "0 0 * * 8",
    ],
)
def test_what_is_no_cron_line_is_refused(line: object) -> None:
    with pytest.raises(InvalidRequest, match="cron line"):
        checked_timing(cron=line, every=None, zone=None, now_us=us("2026-01-01T00:00:00"))


@pytest.mark.parametrize(
    "zone",
    [
        "",
        "Mars",
        "../etc/passwd",
        "/etc/passwd",
        "Europe",
        5,
        "a\0b",
        "posixrules",
        "localtime",
        "right/UTC",
        "posix/UTC",
        "Factory",
        "\ud800",
        "E" * 5_000,
        "europe/berlin\n",
    ],
)
def test_what_is_no_zone_is_refused(zone: object) -> None:
    with pytest.raises(InvalidRequest, match="unknown time zone"):
        checked_timing(cron="0 0 * * *", every=None, zone=zone, now_us=0)


def test_a_schedule_has_one_way_of_being_due() -> None:
    with pytest.raises(InvalidRequest, match="either a cron line or an interval"):
        checked_timing(cron=None, every=None, zone=None, now_us=0)
    with pytest.raises(InvalidRequest, match="either a cron line or an interval"):
        checked_timing(cron="0 0 * * *", every="1h", zone=None, now_us=0)
    with pytest.raises(InvalidRequest, match="an interval knows no time zone"):
        checked_timing(cron=None, every="1h", zone=BERLIN, now_us=0)
