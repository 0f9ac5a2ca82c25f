"""Workspaces for the tests: small, random by a fixed seed, and unlike each other. Missing cells are None."""

from __future__ import annotations

import csv
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

Row = dict[str, Any]


@dataclass
class World:
    """The rows of every table, as plain Python values."""

    tables: dict[str, list[Row]] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, table: str) -> list[Row]:
        return self.tables[table]

    def write(self, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        for name, rows in self.tables.items():
            with (root / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(rows[0])
                writer.writerows([_text(value) for value in row.values()] for row in rows)
        for name, text in self.files.items():
            (root / name).write_text(text, encoding="utf-8")

    def joined(self, left: str, right: str, on: str) -> list[Row]:
        """Rows of the left table with the columns of their only partner on the right."""
        partners = {row[on]: row for row in self[right]}
        return [{**partners.get(row[on], {}), **row} for row in self[left]]


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _table(columns: str, rows: Sequence[Sequence[Any]]) -> list[Row]:
    return [dict(zip(columns.split(), row, strict=True)) for row in rows]


def weather() -> World:
    """Two years of readings of five stations, with gaps."""
    draw = random.Random(101)
    stations = [
        ("S01", "Alder Ridge", "mountain", 1820),
        ("S02", "Harbour Point", "coast", 4),
        ("S03", "Mill Valley", "valley", 310),
        ("S04", "Dune Bay", "coast", 7),
        ("S05", "Pine Summit", "mountain", 2410),
    ]
    readings = []
    for offset in range(731):
        day = date(2023, 1, 1) + timedelta(days=offset)
        for station in stations:
            if draw.random() < 0.6:
                continue
            mean = 12 - station[3] / 300 + 9 * math.sin((offset - 110) / 58.1)
            readings.append(
                (
                    day,
                    station[0],
                    None if draw.random() < 0.03 else round(mean + draw.gauss(0, 3), 1),
                    round(max(0.0, draw.gauss(-1, 5)), 1),
                    draw.choice([None, "NE", "SW", "W"]),
                    draw.randrange(20, 100),
                )
            )
    return World(
        {
            "stations": _table("station_id name terrain elevation_m", stations),
            "readings": _table("date station_id temperature_c rainfall_mm wind_direction humidity", readings),
        }
    )


def library() -> World:
    """Loans of one year, with members, books and a policy in prose."""
    draw = random.Random(202)
    members = [
        (1, "Ada Berg", "student", date(2019, 4, 2)),
        (2, "Ben Okafor", "adult", date(2020, 1, 15)),
        (3, "Cleo Ruiz", "adult", date(2018, 9, 30)),
        (4, "Dov Stein", "senior", date(2021, 6, 1)),
        (5, "Eva Lund", "student", date(2022, 2, 11)),
        (6, "Finn Hall", "adult", date(2022, 12, 24)),
        (7, "Gil Moss", "senior", date(2023, 3, 9)),
    ]
    books = [
        (100, "The Glass Shore", "M. Ito", "Fiction", 312),
        (101, "Iron Rivers", "P. Novak", "History", 508),
        (102, "Small Gods of Rain", "M. Ito", "Fiction", 276),
        (103, "Bread and Salt", "L. Amari", "Cooking", 190),
        (104, "Night Maps", "R. Cole", "Sci-Fi", 421),
        (105, "Far Orchard", "R. Cole", "Sci-Fi", 389),
        (106, "Quiet Engines", "R. Cole", "Sci-Fi", 240),
    ]
    loans = []
    for number in range(1, 401):
        day = date(2024, 1, 1) + timedelta(days=draw.randrange(366))
        back = day + timedelta(days=draw.randrange(3, 40))
        loans.append(
            (
                number,
                draw.choices(books[:6], [5, 2, 3, 1, 4, 2])[0][0],
                draw.choices(members[:6], [3, 4, 2, 6, 1, 2])[0][0],
                day,
                day + timedelta(days=21),
                None if draw.random() < 0.1 else back,
                draw.random() < 0.3,
            )
        )
    policy = (
        "# Library policy\n\nMembers may borrow up to five books at once.\n\n## Fees\n\n"
        "Late returns cost 20 cents per day. The fee for a lost book is its price plus five euros.\n\n"
        "- Students pay no reservation fee.\n- Renewals are free.\n"
    )
    return World(
        {
            "members": _table("member_id full_name category joined_on", members),
            "books": _table("book_id title author genre pages", books),
            "loans": _table("loan_id book_id member_id loan_date due_date return_date renewed", loans),
        },
        {"policy.md": policy},
    )


def shop() -> World:
    """Two years of orders and their customers; one customer never ordered."""
    draw = random.Random(303)
    customers = [
        (1, "Orchid GmbH", "Berlin", "Germany"),
        (2, "Pelican Ltd", "London", "UK"),
        (3, "Quartz SA", "Paris", "France"),
        (4, "Raven AG", "Berlin", "Germany"),
        (5, "Sable Inc", "Leeds", "UK"),
        (6, "Teal BV", "Utrecht", "Netherlands"),
        (7, "Umber Oy", "Turku", "Finland"),
    ]
    orders = []
    for number in range(1000, 1450):
        orders.append(
            (
                number,
                draw.choices(customers[:6], [6, 5, 4, 3, 2, 1])[0][0],
                date(2023, 1, 1) + timedelta(days=draw.randrange(730)),
                draw.choice(["Widget", "Gadget", "Gizmo"]),
                draw.choice(["shipped", "cancelled", "pending", "returned"]),
                draw.randrange(1, 9),
                None if draw.random() < 0.04 else round(draw.uniform(5, 900), 2),
            )
        )
    return World(
        {
            "customers": _table("customer_id name city country", customers),
            "orders": _table("order_id customer_id order_date product status quantity amount", orders),
        }
    )


def staff() -> World:
    """One flat table of employees, camel-case names."""
    draw = random.Random(405)
    firsts, lasts = ["Ann", "Bob", "Cid", "Dee"], ["Ash", "Birch", "Cedar", "Elm", "Fir"]
    rows = []
    for number in range(140):
        rows.append(
            (
                f"E{number:03d}",
                f"{draw.choice(firsts)} {draw.choice(lasts)}",
                draw.choice(["Engineering", "Sales", "Support", "Finance", "Legal"]),
                draw.choice(["Oslo", "Lima", "Kyoto"]),
                None if draw.random() < 0.06 else draw.randrange(30000, 120000, 10),
                draw.randrange(21, 66),
                date(2012, 1, 1) + timedelta(days=draw.randrange(4500)),
                draw.random() < 0.2,
                draw.choice(["F", "M", None]),
                draw.choice([1, 2, 3, 4, 5, None]),
            )
        )
    columns = "employeeId fullName department office salary age hireDate isManager gender performanceRating"
    return World({"employees": _table(columns, rows)})


def tickets() -> World:
    """Support tickets with timestamps, and the teams of the agents."""
    draw = random.Random(505)
    agents = [
        ("Priya", "Alpha", "India"),
        ("Tom", "Beta", "Ireland"),
        ("Uma", "Alpha", "India"),
        ("Vic", "Beta", "Spain"),
    ]
    rows = []
    for number in range(260):
        opened = datetime.fromisoformat("2024-01-01") + timedelta(minutes=draw.randrange(525_000))
        closed = opened + timedelta(hours=draw.randrange(1, 200))
        rows.append(
            (
                f"T-{number:04d}",
                opened,
                None if draw.random() < 0.15 else closed,
                draw.choice(["low", "medium", "high", "urgent"]),
                draw.choices(["Priya", "Tom", "Uma", "Vic"], [4, 3, 2, 1])[0],
                draw.choice(["billing", "login", "bug report"]),
                draw.choice([1, 2, 3, 4, 5, None]),
                round(draw.uniform(0.2, 9), 1),
            )
        )
    columns = "ticket_id opened_at closed_at priority agent category satisfaction hours_spent"
    return World({"agents": _table("agent team country", agents), "tickets": _table(columns, rows)})


def meters() -> World:
    """Consumption by year and month numbers, without a date column; seasons as years beside it."""
    draw = random.Random(606)
    buildings = [
        ("Town Hall", "Centre", 3200, "gas"),
        ("Library", "Centre", 1800, "district heat"),
        ("Pool", "West", 2600, "gas"),
        ("Depot", "Harbour", 5200, "oil"),
    ]
    rows = [
        (
            building[0],
            year,
            month,
            None if draw.random() < 0.06 else draw.randrange(500, 9000),
            round(draw.uniform(100, 2000), 2),
        )
        for building in buildings
        for year in (2023, 2024)
        for month in range(1, 13)
    ]
    matches = [
        (
            season,
            team,
            venue,
            draw.randrange(5),
            draw.randrange(4),
            draw.choice([0, 1, 3]),
            draw.randrange(2000, 40000),
        )
        for season in (2021, 2022, 2023)
        for team in ("Rovers", "Wanderers", "United", "Athletic")
        for venue in ("home", "away")
        for _ in range(6)
    ]
    return World(
        {
            "buildings": _table("building district floor_area_m2 heating", buildings),
            "consumption": _table("building year month kwh cost_eur", rows),
            "matches": _table("season team venue goals goals_against points attendance", matches),
        }
    )


def flights() -> World:
    """Flights with two columns of the same cities, and airlines by code."""
    draw = random.Random(707)
    airlines = [("AZ", "Azure Wings", "Malta"), ("BR", "Breeze Air", "Norway"), ("CO", "Comet", "Kenya")]
    rows = []
    for number in range(400):
        origin, destination = draw.sample(["Oslo", "Rome", "Cairo", "Lima", "Delhi"], 2)
        rows.append(
            (
                f"F{number:04d}",
                draw.choice(airlines)[0],
                origin,
                destination,
                datetime.fromisoformat("2025-01-01") + timedelta(minutes=draw.randrange(525_000)),
                draw.choice([0, 0, 5, 12, 30, 75, None]),
                draw.randrange(40, 220),
                draw.choice(["on time", "delayed", "cancelled"]),
            )
        )
    columns = "flight_no airline_code origin destination departure delay_min passengers status"
    return World(
        {"airlines": _table("airline_code airline country", airlines), "flights": _table(columns, rows)}
    )


CLAIMS = "Expense Claims 2024"


def claims() -> World:
    """Names with spaces, brackets, quotes and a question mark; cells with quotes and signs."""
    draw = random.Random(808)
    names = ["Claim No", "Claim Date", "Employee Name", "Cost Centre", "Amount (EUR)", "Approved?"]
    rows = [
        dict(
            zip(
                [*names, 'Grade "x"'],
                (
                    number,
                    date(2024, 1, 1) + timedelta(days=draw.randrange(366)),
                    draw.choice(["Lea O'Neil", 'Max "Mo" Roe', "Zoë Brandt"]),
                    draw.choice(["R&D", "Sales / Ops", "HR | Legal"]),
                    round(draw.uniform(1, 500), 2),
                    draw.choice(["yes", "no"]),
                    draw.choice(["A", "B", "C"]),
                ),
                strict=True,
            )
        )
        for number in range(1, 181)
    ]
    return World({CLAIMS: rows})


WORLDS: dict[str, Callable[[], World]] = {
    "weather": weather,
    "library": library,
    "shop": shop,
    "staff": staff,
    "tickets": tickets,
    "meters": meters,
    "flights": flights,
    "claims": claims,
}
