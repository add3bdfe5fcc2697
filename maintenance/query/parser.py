"""The parser: it detects the dialect of a text, reads the text into a shell, and lowers the shell to a Query object."""

from collections.abc import Callable, Sequence

from freshkeeper.maintenance.base.errors import ConfigError, nearest
from freshkeeper.maintenance.query import cqels, csparql, rspql, sparqlstream
from freshkeeper.maintenance.query.dialect import Dialect
from freshkeeper.maintenance.query.lowering import lower
from freshkeeper.maintenance.query.model import Query
from freshkeeper.maintenance.query.shell import Shell
from freshkeeper.maintenance.query.syntax.cursor import Cursor
from freshkeeper.maintenance.query.syntax.prologue import DEFAULT_BASE
from freshkeeper.maintenance.query.syntax.tokens import Token, Tokens, check_size, tokenize

DIALECTS: dict[str, Dialect] = {
    "rspql": rspql.DIALECT,
    "cqels": cqels.DIALECT,
    "csparql": csparql.DIALECT,
    "sparqlstream": sparqlstream.DIALECT,
}
"""Dialects by the names that callers and files give them."""
NAMES = " or ".join(", ".join(DIALECTS).rsplit(", ", 1))
"""The names of dialects, for help texts and references."""


def parse(text: str, dialect: str | None = None, base: str = DEFAULT_BASE, streams: Sequence[str] = ()) -> Query:
    """Read a continuous query and return it.

    Without `dialect` the dialect is detected from how the windows are written. `streams` are the streams that exist,
    for CQELS-QL's `STREAM ?s`, which means all of them. Relative names are resolved against the query's own BASE,
    or else against `base`. QuerySyntaxError gives the place of a mistake and its remedy.
    """
    tokens = tokenize(text)
    check_size(tokens)  # before anything recursive sees the text
    chosen = detect_dialect(tokens) if dialect is None else dialect_of(dialect)
    if streams and chosen is cqels.DIALECT:
        tokens = tokenize(cqels.over_streams(tokens, streams))
    return lower(Shell(Cursor(tokens), chosen, base))


def dialect_of(name: str) -> Dialect:
    """Return the dialect with this name, short (cqels) or long (CQELS-QL), in any letter case."""
    plain = name.lower().replace("-", "")
    for key, dialect in DIALECTS.items():
        if plain in (key, dialect.name.lower().replace("-", "")):
            return dialect
    raise ConfigError(f"no dialect {name!r}: {nearest(name, list(DIALECTS))}")


def detect_dialect(tokens: Tokens) -> Dialect:
    """Return the dialect whose sign comes first in the text, or RSP-QL."""
    items = tokens.items
    for index, token in enumerate(items):
        if not token.is_word("WINDOW", "STREAM"):
            continue
        before = items[max(index - 1, 0)]
        for is_sign, dialect in DIALECT_SIGNS:
            if is_sign(before, token, items[index + 1 : index + 4]):
                return dialect
    return rspql.DIALECT


def _is_window(before: Token, token: Token, after: tuple[Token, ...]) -> bool:
    """Detect FROM [NAMED] WINDOW, or WINDOW <w> {."""
    group = len(after) > 1 and after[1].is_mark("{")
    return token.is_word("WINDOW") and (before.is_word("FROM", "NAMED") or group)


def _is_now_window(before: Token, token: Token, after: tuple[Token, ...]) -> bool:
    """Detect FROM [NAMED] STREAM <s> [NOW ..., and FROM NAMED STREAM with any extent."""
    if not (token.is_word("STREAM") and before.is_word("FROM", "NAMED")):
        return False
    return before.is_word("NAMED") or (len(after) > 2 and after[1].is_mark("[") and after[2].is_word("NOW", "FROM"))


def _is_from_stream(before: Token, token: Token, _: tuple[Token, ...]) -> bool:
    return token.is_word("STREAM") and before.is_word("FROM")


def _is_stream_block(before: Token, token: Token, after: tuple[Token, ...]) -> bool:
    """Detect STREAM <s> [ or STREAM [ in the pattern."""
    opening = after[0].is_mark("[") or (len(after) > 1 and after[1].is_mark("["))
    return token.is_word("STREAM") and not before.is_word("FROM", "NAMED", "ON", "REGISTER") and opening


# The order counts: NOW and NAMED tell SPARQLstream from C-SPARQL, which also writes FROM STREAM.
DIALECT_SIGNS: tuple[tuple[Callable[[Token, Token, tuple[Token, ...]], bool], Dialect], ...] = (
    (_is_window, rspql.DIALECT),
    (_is_now_window, sparqlstream.DIALECT),
    (_is_from_stream, csparql.DIALECT),
    (_is_stream_block, cqels.DIALECT),
)
"""The signs of dialects: tests of a keyword, the token before it, and up to three tokens after it."""
