"""JSON, workbooks and logs as tables; figures and dates as Europeans write them; other encodings."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pytest

from artelier.tools.workspace.files import WorkspaceFolder
from artelier.tools.workspace.tables import WorkspaceTables

from .conftest import Call

Sheets = Mapping[str, Sequence[Sequence[Any]]]


def make_workbook(path: Path, sheets: Sheets, *, sheet: str = "", merged: str = "") -> None:
    """A workbook as a spreadsheet program writes it, as small as it can be."""
    sheets = {"Sheet": []} if sheet else sheets
    names = {f"xl/worksheets/sheet{number}.xml": name for number, name in enumerate(sheets, start=1)}
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    relations = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    listed = "".join(
        f'<sheet name="{escape(name)}" sheetId="{n}" r:id="r{n}"/>' for n, name in enumerate(sheets, start=1)
    )
    linked = "".join(
        f'<Relationship Id="r{n}" Type="{relations}/worksheet" Target="worksheets/sheet{n}.xml"/>'
        for n in range(1, len(sheets) + 1)
    )
    package = "http://schemas.openxmlformats.org/package/2006"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr(
            "[Content_Types].xml",
            f'<Types xmlns="{package}/content-types"><Default Extension="xml" ContentType="application/xml"/>'
            '<Default Extension="rels"'
            ' ContentType="application/vnd.openxmlformats-package.relationships+xml"/></Types>',
        )
        packed.writestr(
            "_rels/.rels",
            f'<Relationships xmlns="{package}/relationships"><Relationship Id="r1"'
            f' Type="{relations}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        )
        packed.writestr(
            "xl/workbook.xml",
            f'<workbook xmlns="{main}" xmlns:r="{relations}"><sheets>{listed}</sheets></workbook>',
        )
        packed.writestr(
            "xl/_rels/workbook.xml.rels",
            f'<Relationships xmlns="{package}/relationships">{linked}</Relationships>',
        )
        for place, name in names.items():
            rows = "".join(_row(n, cells) for n, cells in enumerate(sheets[name], start=1)) or sheet
            more = f'<mergeCells><mergeCell ref="{merged}"/></mergeCells>' if merged else ""
            packed.writestr(
                place, f'<worksheet xmlns="{main}"><sheetData>{rows}</sheetData>{more}</worksheet>'
            )


def _row(number: int, cells: Sequence[Any]) -> str:
    found = ""
    for at, value in enumerate(cells):
        where = f"{chr(ord('A') + at)}{number}"
        if isinstance(value, str):
            found += f'<c r="{where}" t="inlineStr"><is><t xml:space="preserve">{escape(value)}</t></is></c>'
        elif value is not None:
            found += f'<c r="{where}"><v>{value}</v></c>'
    return f'<row r="{number}">{found}</row>'


def table(call: Call, name: str) -> dict[str, Any]:
    described = call("describe_tables")
    return next(one for one in described["tables"] if one["name"] == name)


def types(call: Call, name: str) -> dict[str, str]:
    return {column["name"]: column["type"] for column in table(call, name)["columns"]}


def rows(call: Call, sql: str) -> list[list[Any]]:
    return call("query_sql", sql=sql)["rows"]


# JSON


def test_json_records_are_a_table_with_the_types_that_json_says(call: Call, root: Path):
    records = [
        {"id": "007", "version": "1.10", "n": 3, "price": 1.50, "ok": True, "on": "2025-03-01", "left": None},
        {"id": "008", "version": "1.1", "n": 4, "price": 2, "ok": False, "on": "2025-03-02", "extra": "x"},
    ]
    (root / "people.json").write_text(json.dumps(records))
    (root / "same.jsonl").write_text("\n".join(map(json.dumps, records)) + "\n\n")

    for name in ("people", "same"):
        assert types(call, name) == {
            "id": "VARCHAR",
            "version": "VARCHAR",
            "n": "BIGINT",
            "price": "DOUBLE",
            "ok": "BOOLEAN",
            "on": "DATE",
            "left": "VARCHAR",
            "extra": "VARCHAR",
        }
        assert rows(call, f'SELECT id, n, price, ok, "left", extra FROM {name} ORDER BY id') == [
            ["007", 3, 1.5, True, None, None],
            ["008", 4, 2.0, False, None, "x"],
        ]


def test_nested_json_is_columns_and_lists_stay_json_that_sql_reads(call: Call, root: Path):
    order = {"no": 1, "to": {"name": "Ana", "address": {"city": "Porto"}}, "items": [{"sku": "a", "n": 2}]}
    (root / "orders.json").write_text(json.dumps([order]))

    assert types(call, "orders") == {
        "no": "BIGINT",
        "to_name": "VARCHAR",
        "to_address_city": "VARCHAR",
        "items": "JSON",
    }
    sql = 'SELECT unnest(from_json(items, \'[{"sku":"VARCHAR","n":"BIGINT"}]\')).n FROM orders'
    assert rows(call, sql) == [[2]]


def test_tables_inside_a_json_object_are_found_and_what_stands_beside_is_noted(call: Call, root: Path):
    document = {
        "currency": "EUR",
        "data": {"rows": [{"a": 1}, {"a": 2}]},
        "places": [{"city": "Porto"}],
        "empty": [],
    }
    (root / "export.json").write_text(json.dumps(document))
    (root / "by_id.json").write_text(json.dumps({"x1": {"n": 1}, "x2": {"n": 2}}))
    (root / "settings.json").write_text(json.dumps({"a": 1, "b": {"c": "d"}}))
    (root / "grid.json").write_text(json.dumps([["a", "b"], [1, 2], [3]]))

    found = {one["name"]: (one["source"], one["rows"]) for one in call("describe_tables")["tables"]}

    assert found == {
        "export_data_rows": ("export.json#data.rows", 2),
        "export_places": ("export.json#places", 1),
        "by_id": ("by_id.json", 2),
        "settings": ("settings.json", 1),
        "grid": ("grid.json", 2),
    }
    assert table(call, "export_data_rows")["note"] == "beside the rows: currency = EUR"
    assert rows(call, "SELECT n FROM by_id WHERE key = 'x2'") == [[2]]
    assert rows(call, "SELECT a, b_c FROM settings") == [[1, "d"]]
    assert rows(call, "SELECT a, b FROM grid ORDER BY a") == [[1, 2], [3, None]]


# Workbooks


def test_each_sheet_is_a_table_and_a_title_above_the_header_is_noted(call: Call, root: Path):
    sheets = {
        "Plan": [["Budget 2025"], [], ["team", "jan", "feb", "code"], ["Sales", 10, 20.5, "007"], []],
        "Notes & more": [["key", "value"], ["rate", "1.234,56"]],
        "Empty": [],
        "Only header": [["a", "b"]],
    }
    make_workbook(root / "book.xlsx", sheets)

    described = call("describe_tables")

    assert described["skipped"] == []
    assert [(one["name"], one["source"], one["rows"]) for one in described["tables"]] == [
        ("book_plan", "book.xlsx#Plan", 1),
        ("book_notes___more", "book.xlsx#Notes & more", 1),
    ]
    assert table(call, "book_plan")["note"] == "above the header: Budget 2025"
    assert types(call, "book_plan") == {
        "team": "VARCHAR",
        "jan": "BIGINT",
        "feb": "DOUBLE",
        "code": "VARCHAR",
    }
    assert rows(call, "SELECT jan + feb FROM book_plan") == [[30.5]]
    assert rows(call, "SELECT value FROM book_notes___more") == [[1234.56]]


def test_a_value_that_is_merged_over_rows_stands_in_each_of_them(call: Call, root: Path):
    cells = [["", ""], ["Region", "Units"], ["North", 1], ["", 2], ["South", 4]]
    make_workbook(root / "b.xlsx", {"S": [["", ""], *cells]}, merged="A4:A5")

    found = rows(call, "SELECT * FROM b ORDER BY 2")

    assert found == [["North", 1], ["North", 2], ["South", 4]]


ODD_DELIMITED = {
    "title " * 30_000 + "\nregion,units\nNorth,1\n": ([["North", 1]], f"above the header: {'title ' * 50}"),
    "sep=;\r\nregion;units\r\nNorth;1\r\n": ([["North", 1]], ""),
    "Report of the shops\nmade on 3 May\n\nregion;units\nNorth;1\n": (
        [["North", 1]],
        "above the header: Report of the shops | made on 3 May",
    ),
    "Umsatz\nOrt;Preis\nKöln;1,50\nBonn;2,50\n": (
        [["Köln", 1.5], ["Bonn", 2.5]],
        "above the header: Umsatz; Preis: numbers written as '1,50', with a decimal comma",
    ),
    "# made by a tool\nregion,units\nNorth,1\n": ([["North", 1]], "above the header: # made by a tool"),
    "region,units,\nNorth,1,\n,,\n ,,\nSouth,2,\n": (
        [["North", 1, None], ["South", 2, None]],
        "left out, rows without a value: 2",
    ),
}
"""What the rows are, and what the note says."""


@pytest.mark.parametrize("text", ODD_DELIMITED)
def test_what_a_spreadsheet_writes_beside_the_rows_is_no_row(call: Call, root: Path, text: str):
    (root / "t.csv").write_text(text, encoding="utf-8", newline="")
    expected, note = ODD_DELIMITED[text]

    found = rows(call, "SELECT * FROM t ORDER BY 2")

    assert found == expected
    assert table(call, "t").get("note", "") == note


def test_totals_below_a_sheet_are_no_row_of_it_but_are_noted(call: Call, root: Path):
    head = [["team", "spent"], ["Sales", 10], ["Legal", 20.5], ["IT", 3]]
    make_workbook(
        root / "book.xlsx", {"sums": [*head, ["Total", 33.5]], "name": [*head, ["Total", 12]], "text": head}
    )

    assert rows(call, "SELECT count(*), sum(spent) FROM book_sums") == [[3, 33.5]]
    assert table(call, "book_sums")["note"] == "left out, the totals of the last row: Total | 33.5"
    assert rows(call, "SELECT count(*), sum(spent) FROM book_name") == [[4, 45.5]]
    assert rows(call, "SELECT count(*) FROM book_text") == [[3]]


def test_a_sheet_that_is_parted_says_that_it_may_hold_several_tables(call: Call, root: Path):
    one, two = [["team", "spent"], ["Sales", 10]], [["office", "rent"], ["Rome", 7]]
    beside = [[*left, "", *right] for left, right in zip(one, two, strict=True)]
    make_workbook(root / "book.xlsx", {"below": [*one, ["", ""], *two], "beside": beside, "alone": one})

    for name in ("book_below", "book_beside"):
        assert "it may hold several tables" in table(call, name)["note"]
    assert "note" not in table(call, "book_alone")


def test_log_is_a_table_of_its_lines(call: Call, root: Path):
    (root / "access.log").write_bytes(b'10.0.0.1 "GET /a" 200 500\r\n10.0.0.2 "GET /b" 503 12\r\n')

    assert types(call, "access") == {"line": "BIGINT", "text": "VARCHAR"}
    assert rows(call, "SELECT line FROM access WHERE regexp_matches(text, '\" 5[0-9]{2} ')") == [[2]]


# Figures and dates


SPELLINGS = [
    (["1.234,56", "9.800", "12,5"], "DOUBLE", [1234.56, 9800, 12.5]),
    (["-0,5", "0,125"], "DOUBLE", [-0.5, 0.125]),
    (["1 234,50", "2,00"], "DOUBLE", [1234.5, 2]),
    (["1.234,56 €", "12 €"], "DOUBLE", [1234.56, 12]),
    (["1'234.50", "10"], "DOUBLE", [1234.5, 10]),
    (["$1,234.50", "$3"], "DOUBLE", [1234.5, 3]),
    (["12,5 %", "3 %"], "DOUBLE", [12.5, 3]),
    (["24.11.2026", "1.2.2026"], "DATE", ["2026-11-24", "2026-02-01"]),
    (["24.11.2026 13:45", "01.02.2026 08:00"], "TIMESTAMP", ["2026-11-24T13:45:00", "2026-02-01T08:00:00"]),
    (["24/11/2026", "01/02/2026"], "DATE", ["2026-11-24", "2026-02-01"]),
    (["11/24/2026", "01/02/2026"], "DATE", ["2026-11-24", "2026-01-02"]),
    (["2026-11-24", "24 November 2026", "Nov 24, 2026"], "DATE", ["2026-11-24"] * 3),
    (["2026-11-24T10:00:00Z", "2026-11-24T12:00:00+02:00"], "TIMESTAMP", ["2026-11-24T10:00:00"] * 2),
]


def test_figures_and_dates_in_other_spellings_are_read_and_the_note_says_how(call: Call, root: Path):
    for number, (values, _, _) in enumerate(SPELLINGS):
        lines = "".join(f"{n};{value}\n" for n, value in enumerate(values))
        (root / f"t{number}.csv").write_text(f"id;v\n{lines}", encoding="utf-8")

    for number, (values, kind, expected) in enumerate(SPELLINGS):
        assert types(call, f"t{number}")["v"] == kind, values
        assert [row[0] for row in rows(call, f"SELECT v FROM t{number} ORDER BY id")] == expected, values
        assert table(call, f"t{number}")["note"].startswith("v: "), values


def test_thousands_are_told_by_the_other_figures_of_the_file_and_never_guessed(call: Call, root: Path):
    (root / "alone.csv").write_text("id;v\n1;9.800\n2;12.500\n")
    (root / "beside.csv").write_text("v;price\n9.800;1,50\n12.500;2,00\n")
    (root / "points.csv").write_text("v;price\n9.800;1.5\n12.500;2.25\n")
    (root / "commas.csv").write_text("v,price\n9.800,1.5\n12.500,2.25\n")

    assert types(call, "alone")["v"] == "VARCHAR"
    assert "'12.500' may be thousands or decimals" in table(call, "alone")["note"]
    assert rows(call, "SELECT sum(v) FROM beside") == [[22300]]
    assert rows(call, "SELECT sum(v) FROM points") == rows(call, "SELECT sum(v) FROM commas") == [[22.3]]


NAMED = [
    (["01/02/2026", "03/04/2026"], "day or month first: it cannot be told which"),
    (["13/02/2026", "02/13/2026"], "some with the day first and some with the month"),
    (["24.11.2026", "31.02.2026"], "'31.02.2026' is none that is read here"),
    (["1,5"] * 9 + ["n/a 3"], "all but 1 are numbers, 'n/a 3' is not"),
    (["24.11.2026"] * 9 + ["week 3"], "all but 1 are dates, 'week 3' is not"),
    (["1.234,56", "1,234.56"], "decimal commas and with decimal points"),
    (["5,00 €", "5,00 $"], "several currencies"),
]


def test_column_that_cannot_be_read_in_one_way_stays_text_and_is_named(call: Call, root: Path):
    for number, (values, _) in enumerate(NAMED):
        (root / f"t{number}.csv").write_text(
            "id;v\n" + "".join(f"{n};{one}\n" for n, one in enumerate(values))
        )

    for number, (values, said) in enumerate(NAMED):
        assert types(call, f"t{number}")["v"] == "VARCHAR", values
        assert said in table(call, f"t{number}")["note"], values
        assert [row[0] for row in rows(call, f"SELECT v FROM t{number} ORDER BY id")] == values


def test_plain_columns_get_no_note(call: Call, root: Path):
    (root / "t.csv").write_text("name,n,on\nroom 12,1,2025-01-01\nroom 14,2,2025-01-02\n")

    assert "note" not in table(call, "t")


# Encodings


def test_other_encodings_are_read_or_named(call: Call, root: Path):
    (root / "west.csv").write_bytes("name;v\nJörg;1,5\n".encode("cp1252"))
    (root / "wide.csv").write_bytes("name,v\nJörg,1\n".encode("utf-16"))
    (root / "east.csv").write_bytes("имя,город\nИван,Москва\n".encode("cp1251"))
    (root / "notes.txt").write_bytes("Besuch bei Jörg am Montag".encode("cp1252"))
    (root / "east.txt").write_bytes("Иван едет в Москву".encode("cp1251"))

    described = call("describe_tables")

    assert rows(call, "SELECT name, v FROM west") == [["Jörg", 1.5]]
    assert table(call, "west")["note"].startswith("it is not UTF-8; read as Windows-1252")
    assert rows(call, "SELECT name FROM wide") == [["Jörg"]]
    assert [one["source"] for one in described["skipped"]] == ["east.csv"]
    assert call("read_file", path="notes.txt")["note"] == "it is not UTF-8; read as Windows-1252"
    found = call("search_text", query="jörg")
    assert ("notes.txt", 1) in {(hit["path"], hit["line"]) for hit in found["hits"]}
    named = {one["path"]: one["reason"] for one in found["skipped"]}
    assert "encoding is unknown" in named["east.txt"]


@pytest.mark.parametrize("regex", [False, True])
def test_search_quotes_each_place_of_a_long_line_with_its_column(call: Call, root: Path, regex: bool):
    line = "x" * 30_000 + "|depth=18|" + "y" * 30_000 + "|depth=19|"
    (root / "dump.txt").write_text(f"first\n{line}")

    hits = call("search_text", query="depth=", regex=regex)["hits"]

    assert [(hit["line"], "depth=18" in hit["text"], "depth=19" in hit["text"]) for hit in hits] == [
        (2, True, False),
        (2, False, True),
    ]
    for hit in hits:
        assert line[hit["column"] - 1 :].startswith(hit["text"])
        assert len(hit["text"]) <= 500


# Files that mean harm


def test_hostile_file_costs_only_itself(root: Path):
    """Each would take more memory or time than there is; the table beside them is read."""
    (root / "good.csv").write_text("a\n1\n")
    with zipfile.ZipFile(root / "bomb.xlsx", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("xl/workbook.xml", b" " * (600 * 1024 * 1024))
    cell = '<row r="{0}"><c r="{1}{0}"><v>1</v></c></row>'
    sparse = cell.format(1, "A") + cell.format(1_048_576, "XFD")
    make_workbook(root / "sparse.xlsx", {}, sheet=sparse)
    with open(root / "huge.json", "wb") as file:
        file.truncate(100 * 1024 * 1024)
    (root / "deep.json").write_bytes(b'{"a":' * 200_000)
    (root / "digits.json").write_bytes(b"[" + b"9" * 5_000_000 + b"]")
    tables = WorkspaceTables(WorkspaceFolder(root))

    described = tables.describe()

    reasons = {one.source: one.reason for one in described.skipped}
    assert "unpacks to" in reasons["bomb.xlsx"]
    assert "memory" in reasons["sparse.xlsx"] or "longer than" in reasons["sparse.xlsx"]
    assert "more than 67108864" in reasons["huge.json"]
    assert "nested too deeply" in reasons["deep.json"]
    assert tables.query("SELECT a FROM good", rows_max=1).rows == [[1]]


def test_file_that_takes_too_long_is_left_out_and_named(root: Path):
    """No process starts and reads so much in a tenth of a second."""
    (root / "slow.json").write_text("[" + ",".join(['{"a":{"b":{"c":[1,2,3]}}}'] * 400_000) + "]")
    tables = WorkspaceTables(WorkspaceFolder(root), file_s=0.01)

    described = tables.describe()

    assert [one.source for one in described.skipped] == ["slow.json"]
    assert "longer than 0.01 s" in described.skipped[0].reason
    assert tables.query("SELECT 7", rows_max=1).rows == [[7]]
