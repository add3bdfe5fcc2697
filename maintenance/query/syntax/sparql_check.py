"""The check that pyoxigraph accepts a text as SPARQL 1.1, with its errors traced back to the query as written."""

import re
from dataclasses import replace
from itertools import pairwise

import pyoxigraph as ox

from freshkeeper.maintenance.query.syntax.cursor import describe_token
from freshkeeper.maintenance.query.syntax.query_errors import QuerySyntaxError
from freshkeeper.maintenance.query.syntax.source_map import SourceMap, Weaver
from freshkeeper.maintenance.query.syntax.tokens import Token, TokenKind, Tokens, tokenize

_EMPTY = ox.Store()

_PLACE = re.compile(r"error at (\d+):(\d+): expected (.*)", re.DOTALL)
_QUOTED = re.compile(r'"((?:\\.|[^"\\])*)"')
_GAP = " " * 40
"""Longer than any SPARQL keyword: pyoxigraph reports the end of the keyword it tried, not where it tried it."""
_WORDS = """
BASE PREFIX SELECT DISTINCT REDUCED AS CONSTRUCT DESCRIBE ASK FROM NAMED WHERE GROUP BY HAVING ORDER ASC DESC LIMIT
OFFSET VALUES UNDEF GRAPH OPTIONAL SERVICE SILENT BIND MINUS UNION FILTER A IN NOT EXISTS TRUE FALSE WINDOW SEPARATOR
COUNT SUM MIN MAX AVG SAMPLE GROUP_CONCAT STR LANG LANGMATCHES DATATYPE BOUND IRI URI BNODE RAND ABS CEIL FLOOR ROUND
CONCAT STRLEN UCASE LCASE ENCODE_FOR_URI CONTAINS STRSTARTS STRENDS STRBEFORE STRAFTER YEAR MONTH DAY HOURS MINUTES
SECONDS TIMEZONE TZ NOW UUID STRUUID MD5 SHA1 SHA256 SHA384 SHA512 COALESCE IF STRLANG STRDT SAMETERM ISIRI ISURI
ISBLANK ISLITERAL ISNUMERIC REGEX SUBSTR REPLACE ADJUST LATERAL TRIPLE ISTRIPLE SUBJECT PREDICATE OBJECT HASLANG
HASLANGDIR LANGDIR STRLANGDIR
"""
_KEYWORDS = frozenset(_WORDS.split())
_TERMS = (TokenKind.VAR, TokenKind.IRI, TokenKind.PNAME, TokenKind.STRING, TokenKind.NUMBER, TokenKind.BLANK)
_GROUPED = "beside an aggregate or with GROUP BY, only grouped variables and (aggregates AS ?names) can be selected"
_PHRASES = {
    "The SELECT contains a variable that is unbound": _GROUPED,
    "The SELECT contains an expression with a variable that is unbound": _GROUPED,
}


def check_sparql(rewritten: SourceMap, expression: SourceMap, source: str) -> None:
    """Raise QuerySyntaxError at its place in the source if pyoxigraph does not accept the rewritten text."""
    complaint = _complaint(rewritten.text)
    if complaint is None:
        return
    tokens = tokenize(rewritten.text)
    token, expected = _find(tokens, complaint)
    place = len(source.rstrip())
    if token.kind is not TokenKind.END:
        place = expression.origin(rewritten.origin(token.start))
    # A WINDOW block is a GRAPH block to pyoxigraph.
    if token.is_word("GRAPH") and source[place:].upper().startswith("WINDOW"):
        named = token._replace(text="WINDOW")
        tokens = replace(tokens, items=tuple(named if one is token else one for one in tokens.items))
        token = named
    problem, remedy = _explain(token, expected, tokens)
    raise QuerySyntaxError(problem, source, place, remedy)


def _complaint(text: str) -> str | None:
    """Return pyoxigraph's error for a text, which it parses but does not evaluate, or None.

    It has no call for parsing alone; two arguments that exclude each other make it stop between parsing and planning,
    so that no SERVICE is called, no function is missed, and no long pattern is planned.
    """
    try:
        _EMPTY.query(text, use_default_graph_as_union=True, default_graph=ox.DefaultGraph())
    except SyntaxError as error:
        return str(error)
    except ValueError:  # the two arguments exclude each other: the text was parsed without an error
        return None
    return None


def _find(tokens: Tokens, complaint: str) -> tuple[Token, list[str]]:
    """Return the token at which pyoxigraph failed, and what it expected instead.

    Parsed again with every gap widened, the reported place lies behind the failing token and before the next one.
    """
    wide = _widened(tokens)
    again = _complaint(wide.text) or complaint
    match = _PLACE.match(again)
    if match is None:
        return tokens.items[0], [again]
    line, column = int(match[1]), int(match[2])
    start = sum(len(text) + 1 for text in wide.text.split("\n")[: line - 1])
    # columns count bytes, offsets characters
    before = wide.text[start:].encode()[: column - 1].decode(errors="ignore")
    expected = _expected(match[3])
    offset = wide.origin(start + len(before))
    # a mistake of a SELECT is reported behind its group
    if any(" SELECT " in f" {phrase} " for phrase in expected):
        return _select_before(tokens, offset), expected
    tried = [token for token in tokens.items if token.start <= offset] or [tokens.items[0]]
    return next((token for token in tried if _is_strange(token)), tried[-1]), expected


def _widened(tokens: Tokens) -> SourceMap:
    """Return the text with long gaps where there were gaps, and around group brackets."""
    weaver = Weaver(tokens.text)
    for token, after in pairwise(tokens.items):
        weaver.copy(token.start, token.end)
        if after.start > token.end or token.is_mark("{", "}") or after.is_mark("{", "}"):
            weaver.add(_GAP, token.start)
    return weaver.finish()


def _expected(listed: str) -> list[str]:
    """Return the readable part of the expected alternatives: marks, keywords and phrases, no classes of characters."""
    marks = [mark.replace("\\", "") for mark in _QUOTED.findall(listed)]
    words = re.sub(r"\[[^\]]*\]", "", _QUOTED.sub("", listed.removeprefix("one of "))).split(",")
    return marks + [word.strip() for word in words if word.strip() and not word.strip().startswith("<")]


def _select_before(tokens: Tokens, offset: int) -> Token:
    """Return the SELECT whose group ends at the offset."""
    last = [index for index, token in enumerate(tokens.items) if token.start <= offset]
    open_here = {i for i, close in tokens.closing.items() if last and i < last[-1] <= close}
    for index in reversed(last):
        outside = {i for i, close in tokens.closing.items() if i < index <= close}
        if tokens.items[index].is_word("SELECT") and outside <= open_here:
            return tokens.items[index]
    return tokens.items[0]


def _explain(token: Token, expected: list[str], tokens: Tokens) -> tuple[str, str]:
    """Return the problem at this token, and the remedy."""
    phrases = [phrase for phrase in expected if " " in phrase]
    if phrases:
        return f"SPARQL: {phrases[0].rstrip('.')}", _PHRASES.get(phrases[0], "")
    if token.kind is TokenKind.END:
        return "the query ends too early", ""
    if _is_strange(token):
        remedy = f"a variable is written ?{token.text}, a name prefix:{token.text}"
        return f"{describe_token(token)} is not a SPARQL keyword", remedy
    # Where keywords were tried, only the longest of them is reported: not worth showing.
    marks = sorted(mark for mark in expected if mark and not mark.isalpha() and "_" not in mark)
    remedy = _guess_remedy(token, tokens)
    if not remedy and len(marks) == len(expected) and 0 < len(marks) <= 8:
        remedy = f"expected: {' '.join(marks)}"
    return f"SPARQL does not accept {describe_token(token)} here", remedy


def _is_strange(token: Token) -> bool:
    return token.kind is TokenKind.WORD and token.text.upper() not in _KEYWORDS


def _guess_remedy(token: Token, tokens: Tokens) -> str:
    """Return a remedy if the surrounding tokens look like a common mistake, or an empty string."""
    index = tokens.items.index(token)
    before = tokens.items[max(index - 1, 0)]
    opening = next((start for start, close in tokens.closing.items() if close == index), index)
    group = tokens.items[opening:index]
    if token.is_mark("}") and any(t.is_word("BIND") for t in group):
        return "what BIND sets must not occur before it in its group"
    if token.is_mark("}") and len(group) > 1 and group[1].is_word("SELECT"):
        return _GROUPED
    if before.is_word("FILTER"):
        return "FILTER takes an expression in parentheses, a function call, or EXISTS { ... }"
    if token.kind in _TERMS and (before.kind in _TERMS or before.is_mark("]", ")")):
        return "perhaps a full stop is missing before it"
    return ""
