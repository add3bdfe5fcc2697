"""Every case file: the listings of the seeds and one query per construct are read, explained and printed back."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from freshkeeper.maintenance.query.explain import explain_text
from freshkeeper.maintenance.query.parser import DIALECTS, detect_dialect, parse
from freshkeeper.maintenance.query.printing import to_dialect
from freshkeeper.maintenance.query.syntax.query_errors import QuerySyntaxError
from freshkeeper.maintenance.query.syntax.tokens import tokenize

Golden = Callable[[Path, str, str], None]


def volatile_of(text: str) -> dict[str, list[str]]:
    """What a case says about its sources: `# volatile <endpoint> <predicate> ...`."""
    lines = re.findall(r"^# volatile <([^>]*)>(.*)$", text, re.MULTILINE)
    return {endpoint: re.findall(r"<([^>]*)>", predicates) for endpoint, predicates in lines}


def test_an_accepted_query_is_explained_as_its_golden_file_says(accepted: Path, golden: Golden) -> None:
    text = accepted.read_text(encoding="utf-8")
    golden(accepted, "explain", explain_text(parse(text), volatile_of(text)))


def test_the_dialect_is_detected_and_an_explicit_one_reads_the_same(accepted: Path) -> None:
    text, dialect = accepted.read_text(encoding="utf-8"), accepted.suffix[1:]
    assert detect_dialect(tokenize(text)) is DIALECTS[dialect]
    assert parse(text, dialect) == parse(text)


def test_printing_as_rspql_and_parsing_is_the_identity(accepted: Path) -> None:
    query = parse(accepted.read_text(encoding="utf-8"))
    assert parse(to_dialect(query), "rspql") == query


def test_printing_in_its_own_dialect_and_parsing_is_the_identity(accepted: Path) -> None:
    query, dialect = parse(accepted.read_text(encoding="utf-8")), accepted.suffix[1:]
    assert parse(to_dialect(query, dialect), dialect) == query


def test_a_rejected_query_is_told_where_what_and_how(rejected: Path, golden: Golden) -> None:
    text = rejected.read_text(encoding="utf-8")
    with pytest.raises(QuerySyntaxError) as caught:
        parse(text, rejected.suffix[1:])
    error = caught.value
    assert error.source_line == text.split("\n")[error.line - 1]
    golden(rejected, "error", f"{error}\n")


def test_rewriting_copies_what_it_does_not_change_and_knows_from_where(accepted: Path) -> None:
    query = parse(accepted.read_text(encoding="utf-8"))
    expression = query.expression
    source = expression.head + expression.where + expression.tail
    rewritten = query.rewritten
    ends = [here for here, _, _ in rewritten.pieces[1:]] + [len(rewritten.text)]
    for (here, origin, copied), end in zip(rewritten.pieces, ends, strict=True):
        assert rewritten.origin(here) == origin
        if copied:
            assert rewritten.text[here:end] == source[origin : origin + end - here]
