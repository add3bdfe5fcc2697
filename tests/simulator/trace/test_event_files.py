"""Logs as people have them are read, or one line says which row is wrong."""

import csv
import gzip
import io
import itertools
import json
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from freshkeeper.maintenance.base.errors import InputError
from freshkeeper.simulator.trace.event_files import Events, NamedFile, read_events

BEGIN = 1_777_593_600_000
"""2026-05-01 in ms."""
ENCODINGS = ("utf-8", "utf-8-sig", "cp1252", "utf-16", "utf-16-le", "utf-16-be")
HEADERS = (
    None, ("at", "product"), ("t_ms", "sn"), ("Timestamp", "SKU"), ("one", "two"), ("product_id", "created_at"),
    ("#time", "key"),
)  # fmt: skip
KEYS = {
    "words": ["p1", "p2", "pen"],
    "numbers": ["1", "2", "17"],
    "umlauts": ["Äpfel", "é", "straße"],
    "quoted": ["a,b", "x;y", 'he said "hi"', "tab\tin", "line\nbreak"],
    "numbers of pandas": ["5.0", "7.0"],
    "pipes": ["a|b", "c|d"],
}


def utc(pattern: str, offset_h: int = 0) -> Callable[[int], str]:
    """Write times by a pattern."""

    def written(ms: int) -> str:
        moment = datetime.fromtimestamp(ms / 1000, UTC) + timedelta(hours=offset_h)
        return moment.strftime(pattern).replace("%f", f"{ms % 1000:03}")

    return written


TIMES: dict[str, Callable[[int], str]] = {
    "s": lambda ms: str(ms // 1000),
    "s with fraction": lambda ms: f"{ms / 1000:.3f}",
    "ms": str,
    "ms as float": lambda ms: f"{ms}.0",
    "us": lambda ms: str(ms * 1000),
    "ns": lambda ms: str(ms * 1_000_000),
    "iso": utc("%Y-%m-%dT%H:%M:%S.%%fZ"),
    "iso without zone": utc("%Y-%m-%d %H:%M:%S.%%f"),
    "iso with offset": utc("%Y-%m-%dT%H:%M:%S.%%f+02:00", offset_h=2),
    "BigQuery": utc("%Y-%m-%d %H:%M:%S.%%f UTC"),
    "day first": utc("%d.%m.%Y %H:%M:%S.%%f"),
    "slashes": utc("%Y/%m/%d %H:%M:%S.%%f"),
}


def read(path: Path, written: str = "", **options: object) -> Events:
    return read_events(NamedFile.of(f"{path}{written}"), ("time", "key", "value"), **options)  # type: ignore[arg-type]


def rows_of(events: Events) -> list[tuple[int, str]]:
    return [(round(at), key) for at, key in zip(events.times, events.keys, strict=True)]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_every_encoding_header_unit_and_line_end_is_read_as_it_was_written(tmp_path: Path, delimiter: str) -> None:
    rng, path, tried = random.Random(delimiter), tmp_path / "log.csv", 0
    every = itertools.product(ENCODINGS, HEADERS, TIMES, KEYS, ("\n", "\r\n", "\r"), (False, True))
    for encoding, header, unit, kind, line_end, packed in every:
        unwritable = line_end == "\r" and kind == "quoted"  # Python's writer leaves the line break unquoted then
        if rng.random() > 0.05 or unwritable or (header == ("t_ms", "sn") and unit not in ("ms", "ms as float")):
            continue
        keys = KEYS[kind]
        rows = []
        for n in range(rng.choice([2, 3, 50, 300])):
            rows.append((BEGIN + n * 1000 + (0 if unit == "s" else n % 7 * 11), keys[n % len(keys)]))
        text = io.StringIO(newline="")
        writer = csv.writer(text, delimiter=delimiter, lineterminator=line_end)
        if header:
            writer.writerow(header)
        for at, key in rows:
            cells = (TIMES[unit](at), key)
            writer.writerow(cells[::-1] if header == ("product_id", "created_at") else cells)
        try:
            data = text.getvalue().encode(encoding)
        except UnicodeEncodeError:
            continue
        path.write_bytes(gzip.compress(data) if packed else data)
        said = f"{encoding} {header} {unit} {kind} {line_end!r} {len(rows)}"
        assert rows_of(read(path)) == [(at, key.removesuffix(".0")) for at, key in rows], said
        tried += 1
    assert tried > 300


def test_decimal_commas_are_read_where_semicolons_separate(tmp_path: Path) -> None:
    path = tmp_path / "excel.csv"
    path.write_text("sep=;\nZeit;Artikel\n1777593600,5;Äpfel\n1777593601,25;Birnen\n", "cp1252")
    events = read(path)
    assert rows_of(events) == [(BEGIN + 500, "Äpfel"), (BEGIN + 1250, "Birnen")]
    assert "Latin-1, separated by ';'" in events.note


def test_columns_are_named_by_name_or_by_number(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    path.write_text("level,seen,who,part\n3,2026-05-01,ann,wheel\n4,2026-05-02,bob,door\n")
    assert read(path, ":seen,part").keys == ["wheel", "door"]
    assert read(path, ":2,4").keys == ["wheel", "door"]
    assert read(path, ":seen,who,part").values == ["wheel", "door"]
    assert read(path, also=["part", "price"]).keys == ["wheel", "door"], "the column that the other file has too"
    path.write_text("3,2026-05-01,ann,wheel\n4,2026-05-02,bob,door\n")
    assert read(path, ":2,4").keys == ["wheel", "door"]


def test_rows_may_come_in_any_order_and_relative_times_are_seconds(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("time,key\n7,b\n3.5,a\n")
    assert rows_of(read(path)) == [(3500, "a"), (7000, "b")]
    path.write_text("t_ms,key\n7,b\n3,a\n")
    assert rows_of(read(path)) == [(3, "a"), (7, "b")]


@pytest.mark.parametrize("as_list", [False, True])
def test_json_is_read_as_lines_or_as_a_list(tmp_path: Path, as_list: bool) -> None:
    path = tmp_path / "log.json"
    rows = [
        {"at": BEGIN / 1000, "product": 5, "more": {"a": [1]}},
        {"more": None, "product": "pen", "at": BEGIN / 1000 + 1},
    ]
    path.write_text(json.dumps(rows) if as_list else "".join(json.dumps(row) + "\n\n" for row in rows))
    assert rows_of(read(path, ":at,product")) == [(BEGIN, "5"), (BEGIN + 1000, "pen")]
    assert rows_of(read(path)) == rows_of(read(path, ":at,product"))


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_timestamps_of_parquet_are_read(tmp_path: Path, unit: str) -> None:
    at = pa.array([BEGIN, BEGIN + 1500]).cast(pa.timestamp("ms", "Europe/Berlin")).cast(pa.timestamp(unit, "UTC"))
    parquet.write_table(pa.table({"product": [5, 7], "at": at}), tmp_path / "log.parquet")
    assert rows_of(read(tmp_path / "log.parquet")) == [(BEGIN, "5"), (BEGIN + 1500, "7")]


HEAD = "at,product\n2026-05-01T00:00:00Z,a\n2026-05-01T00:00:01Z,b\n"
WRONG: dict[str, tuple[str | bytes, str]] = {
    "NaN": (HEAD + "2026-05-01T00:00:02Z,NaN\n", "row 3 (line 4): product is 'NaN'; every row needs a key"),
    "no time": (HEAD + ",c\n", "row 3 (line 4): at is missing; every row needs a time"),
    "no date": (
        HEAD + "yesterday,c\n",
        "row 3 (line 4): at is 'yesterday'; it must be an ISO 8601 time such as 2026-05-01T12:00:00Z",
    ),
    "no day": (HEAD + "2026-02-30,c\n", "row 3 (line 4): at is '2026-02-30'; it must be an ISO 8601 time"),
    "too many": (HEAD + "2026-05-01T00:00:02Z,c,d\n", "row 3 (line 4): it has 3 columns; the header names 2"),
    "too few": (HEAD + "2026-05-01T00:00:02Z\n", "row 3 (line 4): it has 1 column; the header names 2"),
    "a quote": (HEAD + '2026-05-01T00:00:02Z,"c\n', "row at line 4: a quote is opened and not closed"),
    "blank lines count": (HEAD + "\n\n,c\n", "row 3 (line 6): at is missing"),
    "mixed units": (
        "at,product\n1777593600,a\n1777593601,b\n1777593602000,c\n",
        "row 3 (line 4): at is 1777593602000;",
    ),
    "a zero": ("at,product\n1777593600,a\n0,b\n1777593601,c\n", "row 2 (line 3): at is 0; the others count s since"),
    "infinity": ("at,product\n1777593600,a\n1777593600,a\ninf,b\n", "row 3 (line 4): at is inf;"),
    "before 1970": ("time,product\n3,a\n-4,b\n", "row 2 (line 3): time is before 1970;"),
    "a number in dates": (HEAD + "12,c\n", "row 3 (line 4): at is '12'; it must be an ISO 8601 time"),
    "American dates": ("at,product\n05/01/2026,a\n05/02/2026,b\n", "row 1 (line 2): at is '05/01/2026'; it must be"),
    "empty": ("", "is empty; it must have a row for every event"),
    "blank": (" \n\n", "is empty; it must have a row for every event"),
    "a header alone": ("at,product\n", "has no rows; it must have at least one"),
    "one column": ("at\n2026-05-01\n", "has 1 column; it must have 2: time, key"),
    "binary": (b"\x00\x01\x02\x00\xff" * 100, "is no text file"),
    "ZIP": (b"PK\x03\x04" + bytes(100), "is a ZIP file; unpack it, or pack it with gzip"),
    "half a gzip": (gzip.compress(HEAD.encode() * 500)[:80], "is cut off or no gzip file; write it again"),
    "no JSON": ('{"at": 1, "key": 2}\n{"at": 1\n', "row 2: no JSON: Expecting ',' delimiter"),
    "no object": ('{"at": 1, "key": 2}\n[1]\n', "row 2: '[1]' is no object; every line must be one object"),
    "a nested key": ('{"at": 1, "key": {"a": 2}}\n', "row 1: key is {'a': 2}; a key is text or a number"),
    "JSON without the field": ('{"at": 1, "key": 2}\n{"at": 2}\n', "row 2: key is missing; every row needs a key"),
    "Parquet": (b"PAR1 and no more", "is no Parquet file"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_read_is_one_line_with_the_row_and_what_is_wrong(tmp_path: Path, name: str) -> None:
    content, message = WRONG[name]
    path = tmp_path / "log.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError) as caught:
        read(path)
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_files_that_are_not_there_or_no_files_are_named(tmp_path: Path) -> None:
    for path, message in ((tmp_path / "no.csv", "does not exist"), (tmp_path, "is a directory")):
        with pytest.raises(InputError, match=message):
            read(path)
    path = tmp_path / "log.csv"
    path.write_text(HEAD)
    for columns, message in ((":at,produkt", "did you mean 'product'"), (":at", "2 columns must be named")):
        with pytest.raises(InputError, match=message):
            read(path, columns)
    path.write_text(HEAD.partition("\n")[2])
    with pytest.raises(InputError, match=r"has no header; name columns by their numbers: .*log.csv:1,2"):
        read(path, ":at,product")


def test_bad_rows_are_left_out_and_counted_on_request(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("at,product\n1777593600,a\nNaN,b\n1777593601,\n0,c\n1777593602,d,e,f\n1777593603,g\n")
    events = read(path, skip_bad_rows=True)
    assert rows_of(events) == [(BEGIN, "a"), (BEGIN + 3000, "g")]
    assert events.left_out == 4


def test_arbitrary_bytes_are_read_or_refused_in_one_line(tmp_path: Path) -> None:
    rng, path = random.Random(1), tmp_path / "log.csv"
    good = (HEAD * 3).encode()
    for _ in range(400):
        data = bytearray(good)
        for _ in range(rng.randint(1, 6)):
            place = rng.randrange(len(data))
            change = rng.choice([b"", b'"', b"\x00", b"\xff", b"\n", b";", b",", b"\r", b"{", "é".encode()])
            data[place : place + rng.randint(0, 4)] = change
        path.write_bytes(data)
        try:
            said = read(path).note
        except InputError as error:
            said = str(error)
        assert said.startswith(str(path)), data
        assert "\n" not in said, data
