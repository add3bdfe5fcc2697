"""Every example of docs/query-language.md is a query, and every error it shows is the one that is raised."""

import re
from pathlib import Path

import pytest

from maintenance.query import QuerySyntaxError, detect, parse

TEXT = (Path(__file__).parents[3] / "docs" / "query-language.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(rspql|cqels|csparql|sparqlstream)\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
WRONG = re.findall(r"^```rspql-wrong\n(.*?)^```\n\n```text\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(("dialect", "text"), BLOCKS, ids=[f"{d}-{n}" for n, (d, _) in enumerate(BLOCKS, 1)])
def test_an_example_is_a_query_of_its_dialect(dialect: str, text: str) -> None:
    assert parse(text, dialect)
    assert detect(text) == dialect


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_an_error_is_the_one_that_is_shown(text: str, message: str) -> None:
    with pytest.raises(QuerySyntaxError) as caught:
        parse(text)
    assert f"{caught.value}\n" == message


def test_there_are_examples_of_every_dialect() -> None:
    assert {dialect for dialect, _ in BLOCKS} == {"rspql", "cqels", "csparql", "sparqlstream"}
    assert len(WRONG) == 2
