"""Tables of the workspace: what is found, with which types, what is left out and why, and queries."""

from __future__ import annotations

import datetime
import os
import sqlite3
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from artelier.errors import InvalidArguments, ToolFailed
from artelier.tools.worker.tables import columns_from, identifier, make_unique
from artelier.tools.workspace.files import WorkspaceFolder
from artelier.tools.workspace.tables import WorkspaceTables

from .conftest import Call


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> WorkspaceTables:
    """One table `t` with one row, for tests that must leave it as it is."""
    root = tmp_path_factory.mktemp("workspace")
    (root / "t.csv").write_text("a\n1\n")
    return WorkspaceTables(WorkspaceFolder(root))


def columns(call: Call, table: str) -> dict[str, str]:
    for found in call("describe_tables")["tables"]:
        if found["name"] == table:
            return {column["name"]: column["type"] for column in found["columns"]}
    raise AssertionError(f"no table {table}: {call('describe_tables')}")


def rows(call: Call, sql: str) -> list[list[Any]]:
    return call("query_sql", sql=sql)["rows"]


def make_sqlite(path: Path, *statements: str) -> None:
    db = sqlite3.connect(path)
    for statement in statements:
        db.execute(statement)
    db.commit()
    db.close()


def make_parquet(path: Path, sql: str) -> None:
    db = duckdb.connect()
    db.execute(f"COPY ({sql}) TO '{path}' (FORMAT parquet)")
    db.close()


def test_every_kind_of_file_becomes_tables(call: Call, root: Path):
    (root / "data").mkdir()
    (root / "data" / "Sales Q2.csv").write_text("region,amount\nnorth,1.50\nsouth,2\n")
    (root / "tabs.tsv").write_text("a\tb\n1\thello, world\n")
    make_parquet(root / "numbers.parquet", "SELECT i::INTEGER AS n FROM range(3) r(i)")
    make_sqlite(root / "one.db", "CREATE TABLE orders(id INTEGER)", "INSERT INTO orders VALUES (7)")
    make_sqlite(root / "two.sqlite", "CREATE TABLE b(x)", "CREATE TABLE a(x)")

    described = call("describe_tables")

    assert described["skipped"] == []
    assert [(table["name"], table["source"], table["rows"]) for table in described["tables"]] == [
        ("sales_q2", "data/Sales Q2.csv", 2),
        ("numbers", "numbers.parquet", 3),
        ("one", "one.db#orders", 1),
        ("tabs", "tabs.tsv", 1),
        ("two_a", "two.sqlite#a", 0),
        ("two_b", "two.sqlite#b", 0),
    ]
    assert rows(call, "SELECT region, amount FROM sales_q2 ORDER BY amount") == [
        ["north", 1.5],
        ["south", 2.0],
    ]
    assert rows(call, "SELECT b FROM tabs") == [["hello, world"]]
    assert rows(call, "SELECT sum(n) FROM numbers") == [[3]]
    assert rows(call, "SELECT id FROM one") == [[7]]


FORMS = [
    (["1", "-20", "0"], "BIGINT"),
    (["1", "", "3"], "BIGINT"),
    ([" 1 ", "2"], "BIGINT"),
    (["1.5", "-0.25", "3"], "DOUBLE"),
    (["1e3", ".5"], "DOUBLE"),
    (["true", "FALSE"], "BOOLEAN"),
    (["2026-01-31", "2025-12-01"], "DATE"),
    (["2026-01-31 10:00", "2026-01-31T10:00:01.5"], "TIMESTAMP"),
    # What a guess would damage stays text.
    (["00123", "00124"], "VARCHAR"),
    (["+491701234", "+491701235"], "VARCHAR"),
    (["12345678901234567890"], "VARCHAR"),
    (["1,234"], "VARCHAR"),
    (["1.234,56", "n/a"], "VARCHAR"),
    (["1.234,56", "1,234.56"], "VARCHAR"),
    (["5 €", "5 $"], "VARCHAR"),
    (["01/02/2026"], "VARCHAR"),
    (["13/02/2026", "02/13/2026"], "VARCHAR"),
    (["31.02.2026"], "VARCHAR"),
    (["2026-02-30"], "VARCHAR"),
    (["1", "n/a"], "VARCHAR"),
    (["yes", "no"], "VARCHAR"),
    (["nan", "inf"], "VARCHAR"),
    (["", ""], "VARCHAR"),
    (["0.1234567890123456789"], "VARCHAR"),
    (["-"], "VARCHAR"),
    (["."], "VARCHAR"),
]


def test_column_gets_a_type_only_if_every_value_has_its_form(call: Call, root: Path):
    for number, (values, _) in enumerate(FORMS):
        lines = "".join(f'{n},"{value}"\n' for n, value in enumerate(values))
        (root / f"t{number}.csv").write_text(f"id,v\n{lines}")

    tables = {table["name"]: table["columns"] for table in call("describe_tables")["tables"]}

    for number, (values, kind) in enumerate(FORMS):
        assert tables[f"t{number}"][1] == {"name": "v", "type": kind}, values
        if kind == "VARCHAR":
            found = rows(call, f"SELECT v FROM t{number} ORDER BY id")
            assert found == [[value or None] for value in values]


def test_late_value_decides_and_not_a_sample(call: Call, root: Path):
    (root / "t.csv").write_text("v\n" + "1\n" * 50_000 + "x\n")

    assert columns(call, "t") == {"v": "VARCHAR"}
    assert rows(call, "SELECT count(*), count(DISTINCT v) FROM t") == [[50_001, 2]]


DELIMITED = [
    ("a;b\r\n1;x\r\n", [{"a": 1, "b": "x"}]),
    ("a|b\n1|x\n", [{"a": 1, "b": "x"}]),
    ('a,b\n1,"x, ""y""\nz"\n', [{"a": 1, "b": 'x, "y"\nz'}]),
    ("\ufeffa,b\n1,x", [{"a": 1, "b": "x"}]),
    ("a,A,,a\n1,2,3,4\n", [{"a": 1, "A_2": 2, "column_3": 3, "a_3": 4}]),
    (" a , b \n1,2\n", [{"a": 1, "b": 2}]),
    ("naïve,日本\n1,é\n", [{"naïve": 1, "日本": "é"}]),
    ("a,b\n", []),
    ('"a""; DROP TABLE t; --",b\n1,2\n', [{'a"; DROP TABLE t; --': 1, "b": 2}]),
    ("it's,b\n1,2\n", [{"it's": 1, "b": 2}]),
    # What DuckDB's own reader refuses or drops is read all the same.
    ("a,b\n1,x\r\n2,y\n", [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]),
    ('a,b\nx"x, "\n1,2\n', [{"a": 'x"x', "b": ' "'}, {"a": "1", "b": "2"}]),
    ("a\n1\n\n3\n", [{"a": 1}, {"a": None}, {"a": 3}]),
    ("a,b\n1,2\n\n3,4\n", [{"a": 1, "b": 2}, {"a": 3, "b": 4}]),
]


def test_delimited_text_is_read_as_it_is_written(call: Call, root: Path):
    for number, (text, _) in enumerate(DELIMITED):
        (root / f"t{number}.csv").write_text(text, encoding="utf-8", newline="")

    assert call("describe_tables")["skipped"] == []
    for number, (text, expected) in enumerate(DELIMITED):
        found = call("query_sql", sql=f"SELECT * FROM t{number}")
        records = [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]]
        assert records == expected, text


BROKEN = [
    ("csv", b"", "the file is empty"),
    ("csv", b"\n \n", "the file is empty"),
    ("csv", b",,\n1,2,3\n", "the header is empty"),
    ("csv", b"a,b\n1,2\n3\n", "line 3 has 1 values, the header has 2"),
    ("csv", b"a,b\n1,2,3\n", "line 2 has 3 values, the header has 2"),
    ("csv", b'a,b\n1,"x\n2,y\n', "line 3: unexpected end of data"),
    ("csv", b'a,b\n1,"x"y\n', "line 2: "),
    ("csv", "имя,город\nИван,Москва\n".encode("cp1251"), "its encoding is unknown"),
    ("csv", "名前\n山田太郎\n".encode("shift-jis"), "its encoding is unknown"),
    ("csv", b"\0\1\2\3", "binary"),
    ("csv", b"a," * 2_000 + b"a", "2001 columns"),
    ("csv", b"a" * 300_000, "too long for a header"),
    ("parquet", b"PAR1 nothing more", "the file"),
    ("parquet", b"", "the file"),
    ("db", b"no database", "not an SQLite database"),
    ("db", b"SQLite format 3\0" + b"x" * 500, "SQLite: "),
    ("sqlite3", b"", "not an SQLite database"),
    ("json", b"", "the file is empty"),
    ("json", b'[{"a": 1}, {"a": 2]', "line 1, character 19: not JSON"),
    ("json", b"[]", "the file holds no table"),
    ("json", b"[" * 100_000, "nested too deeply"),
    ("json", b"[{" + b",".join(b'"k%d":1' % n for n in range(1_001)) + b"}]", "1001 fields"),
    ("jsonl", b'{"a": 1}\n{"a": \n', "line 2, character 7: not JSON"),
    ("jsonl", b"\xff\xfe\x00", "binary"),
    ("xlsx", b"no workbook", "not a workbook"),
    ("xlsx", b"PK\x03\x04 nor this", "not a workbook"),
    ("xlsx", b"", "not a workbook"),
    ("log", b"\0\1", "binary"),
]


def test_file_that_cannot_be_read_is_skipped_with_its_reason(call: Call, root: Path):
    for number, (kind, content, _) in enumerate(BROKEN):
        (root / f"t{number:02}.{kind}").write_bytes(content)
    (root / "good.csv").write_text("a\n1\n")

    described = call("describe_tables")

    assert [table["name"] for table in described["tables"]] == ["good"]
    for (kind, content, reason), skipped in zip(BROKEN, described["skipped"], strict=True):
        assert reason in skipped["reason"], (kind, content[:20], skipped)
        assert "/dev/fd" not in skipped["reason"]
        assert len(skipped["reason"]) <= 200


def test_links_and_hidden_files_are_no_tables(call: Call, root: Path):
    (root.parent / "outside.csv").write_text("secret\n1\n")
    (root / ".hidden.csv").write_text("secret\n1\n")
    (root / "artelier-out").mkdir()
    (root / "artelier-out" / "old.csv").write_text("secret\n1\n")
    (root / "folder.csv").mkdir()
    os.symlink("../outside.csv", root / "link.csv")
    os.mkfifo(root / "fifo.csv")

    assert call("describe_tables") == {"tables": [], "skipped": []}


def test_glob_characters_in_a_name_match_only_that_file(call: Call, root: Path):
    (root / "*.csv").write_text("a\n1\n")
    (root / "[x].csv").write_text("a\n2\n")
    (root / "other.csv").write_text("a\n3\n")
    (root / "it's.csv").write_text("a\n4\n")

    tables = call("describe_tables")["tables"]

    assert [(table["source"], table["rows"]) for table in tables] == [
        ("*.csv", 1),
        ("[x].csv", 1),
        ("it's.csv", 1),
        ("other.csv", 1),
    ]
    assert rows(call, "SELECT a FROM table_") == [[1]]


def test_names_are_identifiers_that_need_no_quotes(call: Call, root: Path):
    for name in ("Sales 2025", "sales-2025", "order", "2024", "Ünïcode", "---"):
        (root / f"{name}.csv").write_text("a\n1\n")

    names = [table["name"] for table in call("describe_tables")["tables"]]

    assert sorted(names) == sorted(["table_", "t_2024", "sales_2025", "order_", "sales_2025_2", "ünïcode"])
    for name in names:
        assert rows(call, f"SELECT count(*) FROM {name}") == [[1]]


def test_no_keyword_becomes_a_table_name_that_needs_quotes():
    db = duckdb.connect()
    keywords = [row[0] for row in db.execute("SELECT keyword_name FROM duckdb_keywords()").fetchall()]

    for keyword in keywords:
        name = identifier(keyword)
        db.execute(f'CREATE OR REPLACE TABLE "{name}"(a INTEGER)')
        db.execute(f"SELECT count(*) FROM {name}")
    db.close()


def test_naming_is_stable():
    assert identifier("") == "table_"
    assert identifier("a" * 500) == "a" * 60
    assert make_unique("a", {"a", "a_2"}) == "a_3"
    assert columns_from(["a", "A", "", "a_2"]) == ["a", "A_2", "column_3", "a_2_2"]


def test_sqlite_types_follow_the_values(call: Call, root: Path):
    db = sqlite3.connect(root / "shop.db")
    db.execute("CREATE TABLE t(n INTEGER, r REAL, s TEXT, b BLOB, mixed, void, e TEXT)")
    db.executemany(
        "INSERT INTO t VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            (1, 0.1, 'a "quoted", text\r\nsecond line', b"\x00\xff", 1, None, ""),
            (-(2**63), 1e300, "\x1e \\N 'é'", b"", "two", None, None),
            (2**63 - 1, None, None, None, None, None, "\x1f"),
        ],
    )
    db.execute("CREATE VIEW v AS SELECT * FROM t")
    db.execute("CREATE TRIGGER x AFTER INSERT ON t BEGIN SELECT 1; END")
    db.commit()
    db.close()

    assert columns(call, "shop") == {
        "n": "BIGINT",
        "r": "DOUBLE",
        "s": "VARCHAR",
        "b": "BLOB",
        "mixed": "VARCHAR",
        "void": "VARCHAR",
        "e": "VARCHAR",
    }
    assert rows(call, "SELECT * FROM shop ORDER BY r NULLS LAST") == [
        [1, 0.1, 'a "quoted", text\r\nsecond line', "00ff", "1", None, ""],
        [-(2**63), 1e300, "\x1e \\N 'é'", "", "two", None, None],
        [2**63 - 1, None, None, None, None, None, "\x1f"],
    ]


def test_sqlite_names_that_try_to_break_out_are_only_names(call: Call, root: Path):
    make_sqlite(
        root / "x.db",
        'CREATE TABLE "a""; DROP TABLE b; --"("c""; --" INTEGER, "c""; -- " TEXT)',
        'INSERT INTO "a""; DROP TABLE b; --" VALUES (1, \'x\')',
        "CREATE TABLE b(x)",
    )

    described = call("describe_tables")

    assert [table["rows"] for table in described["tables"]] == [1, 0]
    assert described["skipped"] == []


def test_sqlite_written_by_another_program_is_seen_at_once(call: Call, root: Path):
    db = sqlite3.connect(root / "live.db")
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("CREATE TABLE t(x)")
    db.execute("INSERT INTO t VALUES (1)")
    db.commit()
    assert rows(call, "SELECT count(*) FROM live") == [[1]]

    db.execute("INSERT INTO t VALUES (2)")
    db.commit()

    assert rows(call, "SELECT count(*) FROM live") == [[2]]
    db.close()


def test_parquet_keeps_its_types(call: Call, root: Path):
    make_parquet(
        root / "t.parquet",
        "SELECT 1::TINYINT AS i, 1.10::DECIMAL(10,2) AS d, DATE '2026-01-01' AS day, "
        "TIMESTAMPTZ '2026-01-01 12:00:00+02' AS at, [1, 2] AS l, {'k': 'v'} AS s, NULL::VARCHAR AS n",
    )

    assert columns(call, "t") == {
        "i": "TINYINT",
        "d": "DECIMAL(10,2)",
        "day": "DATE",
        "at": "TIMESTAMP",
        "l": "INTEGER[]",
        "s": "STRUCT(k VARCHAR)",
        "n": "VARCHAR",
    }
    assert rows(call, "SELECT * FROM t") == [
        [1, 1.1, "2026-01-01", "2026-01-01T10:00:00", [1, 2], {"k": "v"}, None]
    ]
    assert call("describe_tables")["tables"][0]["note"] == "at: times in UTC"


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("42", 42),
        ("1::HUGEINT << 100", str(1 << 100)),
        ("9223372036854775807::UBIGINT + 1", str(2**63)),
        ("0.1::DOUBLE", 0.1),
        ("'nan'::DOUBLE", "nan"),
        ("'-inf'::DOUBLE", "-inf"),
        ("1.10::DECIMAL(10,2)", 1.1),
        ("12345678901234567.89::DECIMAL(20,2)", "12345678901234567.89"),
        ("TRUE", True),
        ("NULL", None),
        ("DATE '2026-01-31'", "2026-01-31"),
        ("TIMESTAMP '2026-01-31 10:00:00.5'", "2026-01-31T10:00:00.500000"),
        ("TIME '10:00'", "10:00:00"),
        ("INTERVAL 3 DAY", str(datetime.timedelta(days=3))),
        ("'\\xAA\\x00'::BLOB", "aa00"),
        ("[1, NULL]", [1, None]),
        ("{'a': {'b': 1.5}}", {"a": {"b": 1.5}}),
        ("MAP {1: 'x'}", {"1": "x"}),
        ("'00000000-0000-0000-0000-000000000001'::UUID", "00000000-0000-0000-0000-000000000001"),
        ("'é\u2028'", "é\u2028"),
    ],
)
def test_values_are_json_data(shared: WorkspaceTables, expression: str, value: Any):
    (row,) = shared.query(f"SELECT {expression} AS v", rows_max=10).rows

    assert row == [value]
    assert type(row[0]) is type(value)


def test_result_names_columns_and_types_and_says_when_it_was_cut(call: Call):
    sql = "SELECT i AS a, i * 0.5 AS a FROM range(5) r(i) ORDER BY i"

    assert call("query_sql", sql=sql, max_rows=2) == {
        "columns": ["a", "a"],
        "types": ["BIGINT", "DECIMAL(21,1)"],
        "rows": [[0, 0.0], [1, 0.5]],
        "row_count": 2,
        "truncated": True,
    }
    assert call("query_sql", sql=sql, max_rows=5)["truncated"] is False


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1",
        "WITH a AS (SELECT 1 AS x) SELECT x FROM a",
        "FROM range(1)",
        "VALUES (1)",
        "DESCRIBE t",
        "SHOW TABLES",
        "SUMMARIZE t",
        "SELECT 1;",
        "-- a comment\nSELECT 1 /* and another */",
    ],
)
def test_reading_statements_are_accepted(shared: WorkspaceTables, sql: str):
    assert shared.query(sql, rows_max=10).row_count == 1


HOSTILE = (
    # More or less than one reading statement
    *("", ";", "--", "SELECT 1; SELECT 2", "SELECT 1; DROP TABLE t"),
    # Writing
    *("DROP TABLE t", "INSERT INTO t VALUES (9)", "UPDATE t SET a = 9", "DELETE FROM t"),
    *("CREATE TABLE x(a INT)", "CREATE VIEW x AS SELECT 1", "ALTER TABLE t ADD b INT", "TRUNCATE t"),
    *("CREATE TEMP TABLE x AS SELECT 1", "CREATE MACRO f(x) AS x", "CREATE SCHEMA s"),
    "WITH a AS (INSERT INTO t VALUES (9) RETURNING *) SELECT * FROM a",
    "WITH a AS (DELETE FROM t RETURNING *) SELECT * FROM a",
    "WITH a AS (UPDATE t SET a = 9 RETURNING *) SELECT * FROM a",
    # Leaving
    *("COPY t TO '/tmp/x.csv'", "COPY (SELECT 1) TO 'x'", "EXPORT DATABASE '/tmp/x'"),
    *("ATTACH '/tmp/x.db'", "ATTACH ':memory:' AS m", "IMPORT DATABASE '/tmp/x'", "USE memory.main"),
    *("INSTALL httpfs", "LOAD httpfs", "FORCE INSTALL x FROM 'http://127.0.0.1'"),
    # Configuration and control
    *("SET threads = 8", "SET enable_external_access = true", "RESET memory_limit", "PRAGMA version"),
    *(
        "CALL pragma_version()",
        "BEGIN",
        "COMMIT",
        "ROLLBACK",
        "CHECKPOINT",
        "VACUUM",
        "PREPARE p AS SELECT 1",
    ),
    *("EXECUTE p", "EXPLAIN SELECT 1", "EXPLAIN ANALYZE SELECT 1"),
    # Files and network from inside a SELECT
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM read_blob('/etc/passwd')",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_csv_auto('/etc/passwd')",
    "SELECT * FROM read_json('/etc/passwd')",
    "SELECT * FROM read_parquet('/etc/passwd')",
    "SELECT * FROM sniff_csv('/etc/passwd')",
    "SELECT * FROM parquet_metadata('/etc/passwd')",
    "SELECT * FROM glob('/*')",
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM '/proc/self/environ'",
    "SELECT * FROM '/dev/fd/3'",
    "SELECT * FROM read_text('/dev/fd/3')",
    "SELECT * FROM 'secret.csv'",
    "SELECT * FROM read_text('http://127.0.0.1/')",
    "SELECT * FROM query('SELECT * FROM read_text(''/etc/passwd'')')",
    "SELECT * FROM query('DROP TABLE t')",
    "SELECT * FROM duckdb_secrets()",
    "SELECT * FROM duckdb_extensions()",
    "SELECT getenv('HOME')",
    "SELECT getvariable('x') FROM nothing",
    # Variables of the process that runs the query
    *("SELECT * FROM sql", "SELECT * FROM message", "SELECT * FROM sources", "SELECT * FROM self"),
    # Mistakes
    *("SELECT", "SELECT (", "SELECT missing FROM t", "SELECT * FROM nothing", "SELECT error('x')"),
    *("SELECT 'x'::INT", "SELECT 1 FROM t WHERE", "\x00", "SELECT '\x00", "é"),
)


@pytest.mark.parametrize("sql", HOSTILE, ids=lambda sql: repr(sql[:40]))
def test_anything_but_reading_the_tables_is_refused_and_changes_nothing(shared: WorkspaceTables, sql: str):
    with pytest.raises(ToolFailed) as caught:
        shared.query(sql, rows_max=10)

    text = str(caught.value)
    assert "root:" not in text
    assert len(text) < 1_000
    assert shared.query("SELECT a FROM t", rows_max=10).rows == [[1]]
    tables = shared.query("SELECT table_name FROM duckdb_tables()", rows_max=10).rows
    assert tables == [["t"]]


def test_settings_show_no_place_of_the_host(call: Call, root: Path):
    found = call("query_sql", sql="SELECT name, value FROM duckdb_settings()", max_rows=1_000)

    text = repr(found["rows"])
    assert os.path.expanduser("~") + "/" not in text
    assert str(root) not in text


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM range(100000) a, range(100000) b, range(100000) c",
        "WITH RECURSIVE a(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM a) SELECT count(*) FROM a",
        "SELECT list(i) FROM range(1000000000) r(i)",
        "SELECT repeat('x', 3000000000)",
        "SELECT lpad('x', 2000000000, 'y')",
        "SELECT list_sum(list_transform(range(100000000), lambda x: x + 1))",
        "SELECT * FROM range(100000000) a ORDER BY hash(a.range)",
    ],
    ids=lambda sql: sql[:40],
)
def test_query_that_takes_all_time_or_memory_is_stopped(root: Path, sql: str):
    """The second query proves that what was left of the first is gone."""
    (root / "t.csv").write_text("a\n1\n")
    tables = WorkspaceTables(WorkspaceFolder(root), query_s=0.5)
    tables.describe()

    with pytest.raises(ToolFailed, match=r"longer than|too much memory|its memory"):
        tables.query(sql, rows_max=10)

    assert tables.query("SELECT a FROM t", rows_max=10).rows == [[1]]


def test_huge_values_and_results_are_bounded(call: Call):
    with pytest.raises(ToolFailed, match="a value has 200000 characters"):
        call("query_sql", sql="SELECT repeat('x', 200000)")

    result = call("query_sql", sql="SELECT repeat('x', 50000) FROM range(100)", max_rows=100)
    assert result["truncated"] is True
    assert result["row_count"] < 21


@pytest.mark.parametrize("max_rows", [0, -1, 100_000, "5", 1.5])
def test_max_rows_is_checked(call: Call, max_rows: Any):
    with pytest.raises(InvalidArguments, match="max_rows"):
        call("query_sql", sql="SELECT 1", max_rows=max_rows)


def test_tables_are_loaded_once_until_a_file_changes(root: Path):
    (root / "t.csv").write_text("a\n" + "1\n" * 10)
    tables = WorkspaceTables(WorkspaceFolder(root))
    first = tables._load()  # pyright: ignore[reportPrivateUsage]

    assert tables.query("SELECT count(*) FROM t", rows_max=1).rows == [[10]]
    assert tables._load() is first  # pyright: ignore[reportPrivateUsage]

    (root / "t.csv").write_text("a\n" + "1\n" * 11)
    assert tables.query("SELECT count(*) FROM t", rows_max=1).rows == [[11]]
    (root / "u.csv").write_text("b\n1\n")
    assert [table.name for table in tables.describe().tables] == ["t", "u"]
    (root / "t.csv").unlink()
    with pytest.raises(ToolFailed, match="t does not exist"):
        tables.query("SELECT count(*) FROM t", rows_max=1)


def test_number_of_files_is_bounded(call: Call, root: Path):
    for number in range(103):
        (root / f"f{number:03}.csv").write_text("a\n1\n")

    described = call("describe_tables")

    assert len(described["tables"]) == 100
    assert [item["reason"] for item in described["skipped"]] == ["more than 100 table files"] * 3


def test_huge_file_is_skipped_and_not_read(call: Call, root: Path):
    with open(root / "huge.csv", "wb") as file:
        file.truncate(10**12)

    (skipped,) = call("describe_tables")["skipped"]

    assert "1000000000000 bytes, more than" in skipped["reason"]


def test_sums_of_decimals_are_exact(call: Call, root: Path):
    make_parquet(root / "t.parquet", "SELECT 0.1::DECIMAL(10,2) AS x FROM range(10)")

    ((total,),) = rows(call, "SELECT sum(x) FROM t")

    assert Decimal(str(total)) == 1


def test_without_the_library_the_tool_says_so(
    call: Call, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "duckdb.py").write_text("raise ImportError")
    monkeypatch.syspath_prepend(tmp_path / "broken")
    (root / "t.csv").write_text("a\n1\n")

    for name, arguments in (("describe_tables", {}), ("query_sql", {"sql": "SELECT 1"})):
        with pytest.raises(ToolFailed, match="duckdb is not installed"):
            call(name, **arguments)


def test_helper_process_gets_no_environment(root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("SECRET_API_KEY", "sk-123")
    (root / "t.csv").write_text("a\n1\n")
    tables = WorkspaceTables(WorkspaceFolder(root))

    child = tables._load()  # pyright: ignore[reportPrivateUsage]
    environ = Path(f"/proc/{child._process.pid}/environ")  # pyright: ignore[reportPrivateUsage]

    if not environ.exists():
        pytest.skip("looks into /proc")
    assert b"SECRET" not in environ.read_bytes()


def test_a_placeholder_is_no_value_to_compare_with(call: Call, root: Path):
    """No row has it, and the 0 would be taken for a figure."""
    (root / "orders.csv").write_text("email\nana@example.com\n")

    with pytest.raises(ToolFailed, match="<EMAIL_7Q2FKX> stands for personal data") as refused:
        call("query_sql", sql="SELECT count(*) FROM orders WHERE email = '<EMAIL_7Q2FKX>'")

    assert "the same placeholder" in str(refused.value.hint)
    assert rows(call, "SELECT count(*) FROM orders WHERE email <> '<\\EMAIL_7Q2FKX>'") == [[1]]


@pytest.mark.parametrize("regex", [False, True])
def test_nor_is_it_searched_for(call: Call, root: Path, regex: bool):
    (root / "notes.md").write_text("ana@example.com called\n")

    with pytest.raises(ToolFailed, match="<EMAIL_7Q2FKX> stands for personal data"):
        call("search_text", query="<EMAIL_7Q2FKX>", regex=regex)
