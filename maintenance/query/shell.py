"""The continuous shell around SPARQL: registration, windows and report policy, and where SPARQL's own parts stand.

    prologue  REGISTER ... AS  prologue  SELECT|CONSTRUCT|ASK|DESCRIBE ...  FROM ...  REPORT ...  WHERE {...}  the rest

Clauses are only read here: `lowering` resolves IRIs and fills in defaults.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from freshkeeper.maintenance.query.dialect import CQELS, RSPQL, Declared, Dialect, Feature, unsupported
from freshkeeper.maintenance.query.model import Form, Operator, Report
from freshkeeper.maintenance.query.syntax.cursor import Cursor, describe_token
from freshkeeper.maintenance.query.syntax.prologue import Prologue, read_prologue
from freshkeeper.maintenance.query.syntax.rewrite import opens_block
from freshkeeper.maintenance.query.syntax.source_map import Edit
from freshkeeper.maintenance.query.syntax.tokens import Token, TokenKind

WINDOW_NAME = "freshkeeper:window/{}"
"""The name of a window that its query leaves nameless, by its place in the query."""


@dataclass
class Shell:
    """The clauses of a query: tokens where an error may have to point, and spans of the text that are SPARQL."""

    cursor: Cursor
    dialect: Dialect
    base: str
    prologue: Prologue = field(default_factory=Prologue)
    output: Token | None = None
    every: int | None = None
    operator: Operator | None = None
    operator_token: Token | None = None
    form: Form = Form.SELECT
    form_token: Token | None = None
    head: tuple[int, int] | None = None
    default_graphs: list[Token] = field(default_factory=list)
    named_graphs: list[Token] = field(default_factory=list)
    declared: list[Declared] = field(default_factory=list)
    report: list[Report] = field(default_factory=list)
    report_token: Token | None = None
    where: tuple[int, int] | None = None
    tail: tuple[int, int] | None = None
    edits: list[Edit] = field(default_factory=list)

    @cached_property
    def body(self) -> list[Token]:
        """The tokens of SPARQL's own part: head, pattern and rest."""
        spans = [span for span in (self.head, self.where, self.tail) if span is not None]
        return [token for start, end in spans for token in self._tokens_between(start, end)]

    def _tokens_between(self, start: int, end: int) -> list[Token]:
        return [token for token in self.cursor.tokens.items if start <= token.start and token.end <= end]


def read_shell(shell: Shell) -> None:
    """Read a whole query, clause by clause."""
    for clause in CLAUSES:
        clause(shell)


def _prologue(shell: Shell) -> None:
    shell.prologue = read_prologue(shell.cursor, shell.prologue, shell.base)


def _register(shell: Shell) -> None:
    """Read REGISTER RSTREAM|ISTREAM|DSTREAM|STREAM|QUERY name [COMPUTED EVERY d] AS."""
    cursor = shell.cursor
    if not (register := cursor.accept("REGISTER")):
        return
    if not shell.dialect.supports(Feature.OUTPUT):
        cursor.fail(unsupported(shell.dialect.name, Feature.OUTPUT), "leave REGISTER ... AS out", register)
    kind = cursor.expect("RSTREAM", "ISTREAM", "DSTREAM", "STREAM", "QUERY")
    if not kind.is_word("STREAM", "QUERY"):
        _set_operator(shell, kind)
    word_as_name = cursor.now.kind is TokenKind.WORD and not cursor.now.is_word("AS", "COMPUTED")
    if word_as_name:
        shell.output = cursor.take()
    else:
        shell.output = cursor.name("output")
    if cursor.accept("COMPUTED"):
        cursor.expect("EVERY")
        shell.every = cursor.duration("COMPUTED EVERY")
    cursor.expect("AS")


def _set_operator(shell: Shell, token: Token) -> None:
    operator = Operator(token.text.upper())
    if not shell.dialect.supports(Feature.OPERATOR):
        remedy = f"leave it out: {shell.dialect.name} is always {shell.dialect.operator}"
        shell.cursor.fail(unsupported(shell.dialect.name, Feature.OPERATOR), remedy, token)
    if shell.operator not in (None, operator):
        shell.cursor.fail(f"{operator} here and {shell.operator} before", "a query has one operator", token)
    shell.operator, shell.operator_token = operator, token


def _form(shell: Shell) -> None:
    """Read SELECT, CONSTRUCT, ASK or DESCRIBE, the operator if it stands there, and the variables or the template."""
    cursor = shell.cursor
    if not cursor.now.is_word(*Form):
        remedy = "a query goes PREFIX ..., REGISTER ... AS, SELECT|CONSTRUCT|ASK, FROM ..., WHERE { ... }"
        cursor.fail(f"{describe_token(cursor.now)} where SELECT, CONSTRUCT, ASK or DESCRIBE is missing", remedy)
    shell.form_token = cursor.take()
    shell.form = Form(shell.form_token.text.upper())
    if operator := cursor.accept(*Operator):
        _set_operator(shell, operator)
    first = last = cursor.now
    if shell.form is Form.CONSTRUCT and cursor.now.is_mark("{"):
        last = cursor.skip_block()
    else:
        while not _ends_head(cursor.now):
            _check_selected(shell)
            if cursor.index in cursor.tokens.closing:
                last = cursor.skip_block()
            else:
                last = cursor.take()
    if last.end <= cursor.now.start and last is not cursor.now:  # else nothing stands between the form and the rest
        shell.head = (first.start, last.end)


def _ends_head(token: Token) -> bool:
    return token.kind is TokenKind.END or token.is_mark("{") or token.is_word("FROM", "WHERE", "REPORT")


def _check_selected(shell: Shell) -> None:
    """Check that the next token of SELECT is a variable, *, or an expression in parentheses."""
    token = shell.cursor.now
    fits = token.kind is TokenKind.VAR or token.is_mark("*", "(") or token.is_word("DISTINCT", "REDUCED")
    if shell.form is Form.SELECT and not fits:
        remedy = "in SELECT an expression stands in parentheses and gets a name: (COUNT(?x) AS ?n)"
        shell.cursor.fail(f"{describe_token(token)} where SELECT takes a variable", remedy)


def _dataset(shell: Shell) -> None:
    """Read FROM clauses and REPORT, in any order."""
    cursor = shell.cursor
    while word := cursor.accept("FROM", "REPORT"):
        if word.is_word("REPORT"):
            _report(shell, word)
            continue
        named = cursor.accept("NAMED") is not None
        window = shell.dialect.read(cursor, named)
        if window is not None:
            shell.declared.append(window)
        elif named:
            shell.named_graphs.append(cursor.name("graph"))
        else:
            shell.default_graphs.append(cursor.name("graph"))


def _report(shell: Shell, word: Token) -> None:
    cursor = shell.cursor
    if not shell.dialect.supports(Feature.REPORT):
        cursor.fail(unsupported(shell.dialect.name, Feature.REPORT), "leave REPORT out", word)
    if shell.report:
        cursor.fail("REPORT is said twice", "name all policies in one REPORT", word)
    shell.report_token = word
    shell.report.append(Report(cursor.expect(*Report).text.upper()))
    while cursor.accept_mark(",") or cursor.accept("AND") or cursor.now.is_word(*Report):
        shell.report.append(Report(cursor.expect(*Report).text.upper()))


def _where(shell: Shell) -> None:
    cursor = shell.cursor
    where = cursor.accept("WHERE")
    if not cursor.now.is_mark("{"):
        if shell.form is Form.DESCRIBE and where is None:
            return
        cursor.fail(f"{describe_token(cursor.now)} where the pattern is missing", "write WHERE { ... }")
    opening = cursor.index
    start = cursor.now.start
    shell.where = (start, cursor.skip_block().end)
    for index in range(opening, cursor.index):
        token = cursor.tokens.items[index]
        if token.kind is not TokenKind.WORD:
            continue
        handle = IN_PATTERN.get(token.text.upper())
        if handle is not None:
            handle(shell, Cursor(cursor.tokens, index))


def _from_inside(_: Shell, cursor: Cursor) -> None:
    cursor.fail("FROM inside the pattern", "graphs and windows are declared once, before the outermost WHERE")


def _operator_inside(_: Shell, cursor: Cursor) -> None:
    cursor.fail(f"{cursor.now.text} inside the pattern", "the operator belongs to the whole query")


def _stream_block(shell: Shell, cursor: Cursor) -> None:
    """Replace `STREAM <s> [...] {` by `WINDOW <name> {`."""
    dialect = shell.dialect
    if dialect.read_block is None:
        written = "FROM NAMED WINDOW <w> ON <stream> [...], and WINDOW <w> { ... }"
        if dialect.name == RSPQL:
            cursor.fail("a STREAM block is CQELS-QL", f"write {written}")
        cursor.fail(unsupported(dialect.name, Feature.NAMED_WINDOW), f"use RSP-QL: {written}")
    declared = dialect.read_block(cursor)
    shell.declared.append(declared)
    name = WINDOW_NAME.format(len(shell.declared))
    shell.edits.append(Edit(declared.place.start, cursor.now.start, f"WINDOW <{name}> "))


def _window_block(shell: Shell, cursor: Cursor) -> None:
    """Check a WINDOW block, which only RSP-QL has."""
    name = shell.dialect.name
    if name == CQELS:
        cursor.fail("CQELS-QL gives windows no names", "write STREAM <stream> [RANGE 10s] { ... }, or use RSP-QL")
    if name != RSPQL:
        cursor.fail(unsupported(name, Feature.NAMED_WINDOW), "leave WINDOW out, or use RSP-QL")
    if not opens_block(cursor.tokens, cursor.index):
        cursor.fail("a WINDOW block is its name and a group", "write WINDOW <w> { ... }")


IN_PATTERN: dict[str, Callable[[Shell, Cursor], None]] = {
    "STREAM": _stream_block,
    "WINDOW": _window_block,
    "FROM": _from_inside,
    **dict.fromkeys(Operator, _operator_inside),
}
"""Words of the continuous shell that may turn up inside the pattern, with the functions that handle them there."""


def _tail(shell: Shell) -> None:
    """Read GROUP BY and what follows, up to the end; no clause of the shell comes this late."""
    cursor = shell.cursor
    first = last = cursor.now
    while cursor.now.kind is not TokenKind.END:
        if cursor.now.is_word("FROM", "REPORT", "REGISTER"):
            cursor.fail(f"{cursor.now.text} behind the pattern", f"{cursor.now.text} comes before WHERE")
        last = cursor.take()
    if first.kind is not TokenKind.END:
        shell.tail = (first.start, last.end)


CLAUSES: tuple[Callable[[Shell], None], ...] = (_prologue, _register, _prologue, _form, _dataset, _where, _tail)
