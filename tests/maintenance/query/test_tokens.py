"""Strings, IRIs, comments and names are told apart as SPARQL does; brackets have partners."""

import pytest

from freshkeeper.maintenance.query.syntax.query_errors import QuerySyntaxError
from freshkeeper.maintenance.query.syntax.tokens import TokenKind, tokenize


def kinds(text: str) -> list[tuple[str, str]]:
    return [(item.kind.name, item.text) for item in tokenize(text).items[:-1]]


@pytest.mark.parametrize(
    "text",
    ['"a"', "'a'", '"""a"b""c"""', "'''a\n'b''c'''", r'"\" \\"', r"'\''", '""', "''", '""""""', r'"\u00e9"'],
)
def test_a_string_in_each_of_the_four_quotes_is_one_token(text: str) -> None:
    assert kinds(text) == [("STRING", text)]


@pytest.mark.parametrize("text", ['"a', "'a\n'", '"""a""', "'''a'", '"\\"'])
def test_a_string_that_is_never_closed_is_an_error_at_its_quote(text: str) -> None:
    with pytest.raises(QuerySyntaxError, match="never closed") as caught:
        tokenize(f"?x {text}")
    assert (caught.value.line, caught.value.column) == (1, 4)


def test_an_iri_and_a_comparison_are_told_apart() -> None:
    assert kinds("?a <b> ?c") == [("VAR", "?a"), ("IRI", "<b>"), ("VAR", "?c")]
    assert ("MARK", "<") in kinds("(?a < ?b && ?c > ?d)")
    assert [text for _, text in kinds("(?a<?b&&(?c>?d))")].count("<") == 1
    assert kinds("(?x <http://e/?a=1> ?y)")[2] == ("IRI", "<http://e/?a=1>")
    assert kinds('("x" <a> <b>)')[2:4] == [("IRI", "<a>"), ("IRI", "<b>")]
    assert not any(kind == "IRI" for kind, _ in kinds("(?a<=?b||?b>?c) (?a<3&&?b>2) (?a<'x'||?b>'y')"))


def test_comments_end_with_the_line_and_do_not_start_inside_iris_or_strings() -> None:
    assert kinds("<a#b> '#' # ' \" { <\n?x#") == [("IRI", "<a#b>"), ("STRING", "'#'"), ("VAR", "?x")]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("ex:a.b. ex:", ["ex:a.b", ".", "ex:"]),
        (":a:b :%20x :\\,y", [":a:b", ":%20x", ":\\,y"]),
        ("a.b-c:é", ["a.b-c:é"]),
        ("_:b1 _:b2.", ["_:b1", "_:b2", "."]),
        (":p?/^:q*|:r+", [":p", "?", "/", "^", ":q", "*", "|", ":r", "+"]),
        ("1 1.5 .5 1e3 1.e-3 1.", ["1", "1.5", ".5", "1e3", "1.e-3", "1", "."]),
        ('"a"@en-GB "b"^^ex:t', ['"a"', "@en-GB", '"b"', "^^", "ex:t"]),
        ("?x $y", ["?x", "$y"]),
        ("10m PT0.5S", ["10", "m", "PT0", ".5", "S"]),
    ],
)
def test_names_numbers_and_marks(text: str, names: list[str]) -> None:
    assert [item for _, item in kinds(text)] == names


def test_every_opening_bracket_knows_its_closing_one() -> None:
    tokens = tokenize("{ ( [ ] ) }")
    assert dict(tokens.closing) == {0: 5, 1: 4, 2: 3}


@pytest.mark.parametrize(
    ("text", "message", "column"),
    [("{ (", "never closed", 3), ("{ ( }", "} where ) is missing", 5), (") {", "closes nothing", 1)],
)
def test_a_bracket_without_a_partner_is_an_error_at_the_bracket(text: str, message: str, column: int) -> None:
    with pytest.raises(QuerySyntaxError) as caught:
        tokenize(text)
    assert message in caught.value.problem
    assert caught.value.column == column


def test_half_a_surrogate_pair_is_an_error() -> None:
    with pytest.raises(QuerySyntaxError, match="surrogate"):
        tokenize("SELECT \ud800")


def test_tokens_and_gaps_make_up_the_text() -> None:
    text = "PREFIX a: <b> # c\nSELECT ?x { ?x a:y 'z' }"
    items = tokenize(text).items
    assert all(text[item.start : item.end] == item.text for item in items)
    assert items[-1].kind is TokenKind.END
