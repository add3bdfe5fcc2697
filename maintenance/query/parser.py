"""parse(text): which dialect it is, then text → shell → query object."""

from collections.abc import Callable, Sequence

from freshkeeper.maintenance.base.errors import ConfigError, nearest
from freshkeeper.maintenance.query import cqels, csparql, rspql, sparqlstream
from freshkeeper.maintenance.query.dialect import Dialect
from freshkeeper.maintenance.query.model import Query
from freshkeeper.maintenance.query.syntax.cursor import Cursor
from freshkeeper.maintenance.query.syntax.lowering import lower
from freshkeeper.maintenance.query.syntax.prologue import DEFAULT_BASE
from freshkeeper.maintenance.query.syntax.shell import Shell
from freshkeeper.maintenance.query.syntax.tokens import Token, Tokens, check_size, tokenize

DIALECTS: dict[str, Dialect] = {
    "rspql": rspql.DIALECT,
    "cqels": cqels.DIALECT,
    "csparql": csparql.DIALECT,
    "sparqlstream": sparqlstream.DIALECT,
}
"""Every dialect by the name that callers and files give it."""
NAMES = " or ".join(", ".join(DIALECTS).rsplit(", ", 1))
"""The same, as help and references tell them."""


def parse(text: str, dialect: str | None = None, base: str = DEFAULT_BASE, streams: Sequence[str] = ()) -> Query:
    """Read a continuous query; without a dialect it is guessed from how the windows are written.

    `streams` says which there are, for CQELS-QL's `STREAM ?s`; it means all of them.

    QuerySyntaxError says where the text is no query and what would be right. Relative names are resolved against the
    query's own BASE, or else against `base`.
    """
    tokens = tokenize(text)
    check_size(tokens)
    chosen = dialect_of(dialect) if dialect is not None else guess(tokens)
    if streams and chosen is cqels.DIALECT:
        tokens = tokenize(cqels.over_streams(tokens, streams))
    return lower(Shell(Cursor(tokens), chosen, base))


def dialect_of(name: str) -> Dialect:
    """The dialect of this name, short (cqels) or long (CQELS-QL), in any letter case."""
    wanted = name.lower().replace("-", "")
    for key, dialect in DIALECTS.items():
        if wanted in (key, dialect.name.lower().replace("-", "")):
            return dialect
    raise ConfigError(f"no dialect {name!r}: {nearest(name, list(DIALECTS))}")


def guess(tokens: Tokens) -> Dialect:
    """The first sign that is found decides; without any it is RSP-QL."""
    items = tokens.items
    for index, token in enumerate(items):
        if not token.is_word("WINDOW", "STREAM"):
            continue
        before = items[index - 1] if index else token
        for sign, dialect in SIGNS:
            if sign(before, token, items[index + 1 : index + 4]):
                return dialect
    return rspql.DIALECT


def _is_window(before: Token, token: Token, after: tuple[Token, ...]) -> bool:
    """FROM [NAMED] WINDOW, or WINDOW <w> {."""
    group = len(after) > 1 and after[1].is_mark("{")
    return token.is_word("WINDOW") and (before.is_word("FROM", "NAMED") or group)


def _is_now_window(before: Token, token: Token, after: tuple[Token, ...]) -> bool:
    """FROM [NAMED] STREAM <s> [NOW ..., and FROM NAMED STREAM whatever its extent."""
    if not (token.is_word("STREAM") and before.is_word("FROM", "NAMED")):
        return False
    return before.is_word("NAMED") or (len(after) > 2 and after[1].is_mark("[") and after[2].is_word("NOW", "FROM"))


def _is_from_stream(before: Token, token: Token, _: tuple[Token, ...]) -> bool:
    return token.is_word("STREAM") and before.is_word("FROM")


def _is_stream_block(before: Token, token: Token, after: tuple[Token, ...]) -> bool:
    """STREAM <s> [ or STREAM [ in the pattern."""
    opening = after[0].is_mark("[") or (len(after) > 1 and after[1].is_mark("["))
    return token.is_word("STREAM") and not before.is_word("FROM", "NAMED", "ON", "REGISTER") and opening


SIGNS: tuple[tuple[Callable[[Token, Token, tuple[Token, ...]], bool], Dialect], ...] = (
    (_is_window, rspql.DIALECT),
    (_is_now_window, sparqlstream.DIALECT),
    (_is_from_stream, csparql.DIALECT),
    (_is_stream_block, cqels.DIALECT),
)
"""How each dialect gives itself away."""
