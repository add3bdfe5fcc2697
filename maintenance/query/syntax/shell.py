"""The continuous shell around SPARQL: who registers what, from which windows, around which pattern.

    prologue  REGISTER ... AS  prologue  SELECT|CONSTRUCT|ASK|DESCRIBE ...  FROM ...  REPORT ...  WHERE {...}  the rest

Everything is read by name and place only; what it means (IRIs, defaults) is the business of lowering.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from freshkeeper.maintenance.query.dialect import CQELS, RSPQL, Declared, Dialect, Feature, cannot
from freshkeeper.maintenance.query.model import Form, Operator, Report
from freshkeeper.maintenance.query.syntax.cursor import Cursor, shown
from freshkeeper.maintenance.query.syntax.prologue import Prologue, read_prologue
from freshkeeper.maintenance.query.syntax.rewrite import opens_block
from freshkeeper.maintenance.query.syntax.source_map import Edit
from freshkeeper.maintenance.query.syntax.tokens import Kind, Token

WINDOW_NAME = "freshkeeper:window/{}"
"""The name of a window that its query leaves nameless, by its place in the query."""


@dataclass
class Shell:
    """What was read; tokens where an error may have to point, spans of the text where SPARQL goes on."""

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
        return [t for t in self.cursor.tokens.items if any(a <= t.start and t.end <= b for a, b in spans)]


def read_shell(shell: Shell) -> None:
    """Read a whole query, clause by clause."""
    for clause in CLAUSES:
        clause(shell)


def _prologue(shell: Shell) -> None:
    shell.prologue = read_prologue(shell.cursor, shell.prologue, shell.base)


def _register(shell: Shell) -> None:
    """REGISTER RSTREAM|ISTREAM|DSTREAM|STREAM|QUERY name [COMPUTED EVERY d] AS."""
    cursor = shell.cursor
    if not (register := cursor.took("REGISTER")):
        return
    if not shell.dialect.says(Feature.OUTPUT):
        cursor.fail(cannot(shell.dialect.name, Feature.OUTPUT), "leave REGISTER ... AS out", register)
    kind = cursor.expect("RSTREAM", "ISTREAM", "DSTREAM", "STREAM", "QUERY")
    if not kind.is_word("STREAM", "QUERY"):
        _set_operator(shell, kind)
    word_as_name = cursor.now.kind is Kind.WORD and not cursor.now.is_word("AS", "COMPUTED")
    shell.output = cursor.take() if word_as_name else cursor.name("output")
    if cursor.took("COMPUTED"):
        cursor.expect("EVERY")
        shell.every = cursor.duration("COMPUTED EVERY")
    cursor.expect("AS")


def _set_operator(shell: Shell, token: Token) -> None:
    operator = Operator(token.text.upper())
    if not shell.dialect.says(Feature.OPERATOR):
        remedy = f"leave it out: {shell.dialect.name} is always {shell.dialect.operator}"
        shell.cursor.fail(cannot(shell.dialect.name, Feature.OPERATOR), remedy, token)
    if shell.operator not in (None, operator):
        shell.cursor.fail(f"{operator} here and {shell.operator} before", "a query has one operator", token)
    shell.operator, shell.operator_token = operator, token


def _form(shell: Shell) -> None:
    """SELECT, CONSTRUCT, ASK or DESCRIBE, the operator if it stands there, and the variables or the template."""
    cursor = shell.cursor
    if not cursor.now.is_word(*Form):
        remedy = "a query goes PREFIX ..., REGISTER ... AS, SELECT|CONSTRUCT|ASK, FROM ..., WHERE { ... }"
        cursor.fail(f"{shown(cursor.now)} where SELECT, CONSTRUCT, ASK or DESCRIBE is missing", remedy)
    shell.form_token = cursor.take()
    shell.form = Form(shell.form_token.text.upper())
    if operator := cursor.took(*Operator):
        _set_operator(shell, operator)
    first = last = cursor.now
    if shell.form is Form.CONSTRUCT and cursor.now.is_mark("{"):
        last = cursor.skip_block()
    else:
        while not (
            cursor.now.kind is Kind.END or cursor.now.is_mark("{") or cursor.now.is_word("FROM", "WHERE", "REPORT")
        ):
            _check_selected(shell)
            last = cursor.skip_block() if cursor.index in cursor.tokens.closing else cursor.take()
    shell.head = (first.start, last.end) if last.end <= cursor.now.start and last is not cursor.now else None


def _check_selected(shell: Shell) -> None:
    """SELECT takes variables, *, and expressions in parentheses."""
    token = shell.cursor.now
    known = token.kind is Kind.VAR or token.is_mark("*", "(") or token.is_word("DISTINCT", "REDUCED")
    if shell.form is Form.SELECT and not known:
        remedy = "in SELECT an expression stands in parentheses and gets a name: (COUNT(?x) AS ?n)"
        shell.cursor.fail(f"{shown(token)} where SELECT takes a variable", remedy)


def _dataset(shell: Shell) -> None:
    """FROM clauses, in any order, and REPORT."""
    cursor = shell.cursor
    while word := cursor.took("FROM", "REPORT"):
        if word.is_word("REPORT"):
            _report(shell, word)
            continue
        named = cursor.took("NAMED") is not None
        window = shell.dialect.read(cursor, named)
        if window is not None:
            shell.declared.append(window)
        else:
            (shell.named_graphs if named else shell.default_graphs).append(cursor.name("graph"))


def _report(shell: Shell, word: Token) -> None:
    cursor = shell.cursor
    if not shell.dialect.says(Feature.REPORT):
        cursor.fail(cannot(shell.dialect.name, Feature.REPORT), "leave REPORT out", word)
    if shell.report:
        cursor.fail("REPORT is said twice", "name all policies in one REPORT", word)
    shell.report_token = word
    shell.report.append(Report(cursor.expect(*Report).text.upper()))
    while cursor.took_mark(",") or cursor.took("AND") or cursor.now.is_word(*Report):
        shell.report.append(Report(cursor.expect(*Report).text.upper()))


def _where(shell: Shell) -> None:
    cursor = shell.cursor
    where = cursor.took("WHERE")
    if not cursor.now.is_mark("{"):
        if shell.form is Form.DESCRIBE and where is None:
            return
        cursor.fail(f"{shown(cursor.now)} where the pattern is missing", "write WHERE { ... }")
    opening = cursor.index
    start = cursor.now.start
    shell.where = (start, cursor.skip_block().end)
    for index in range(opening, cursor.index):
        token = cursor.tokens.items[index]
        if token.kind is Kind.WORD and (read := IN_PATTERN.get(token.text.upper())):
            read(shell, Cursor(cursor.tokens, index))


def _from_inside(_: Shell, cursor: Cursor) -> None:
    cursor.fail("FROM inside the pattern", "graphs and windows are declared once, before the outermost WHERE")


def _operator_inside(_: Shell, cursor: Cursor) -> None:
    cursor.fail(f"{cursor.now.text} inside the pattern", "the operator belongs to the whole query")


def _stream_block(shell: Shell, cursor: Cursor) -> None:
    """`STREAM <s> [...] {` becomes `WINDOW <name> {`."""
    dialect = shell.dialect
    if dialect.read_block is None:
        written = "FROM NAMED WINDOW <w> ON <stream> [...], and WINDOW <w> { ... }"
        if dialect.name == RSPQL:
            cursor.fail("a STREAM block is CQELS-QL", f"write {written}")
        cursor.fail(cannot(dialect.name, Feature.NAMED), f"use RSP-QL: {written}")
    declared = dialect.read_block(cursor)
    shell.declared.append(declared)
    name = WINDOW_NAME.format(len(shell.declared))
    shell.edits.append(Edit(declared.place.start, cursor.now.start, f"WINDOW <{name}> "))


def _window_block(shell: Shell, cursor: Cursor) -> None:
    """`WINDOW <w> {` is RSP-QL's alone."""
    name = shell.dialect.name
    if name == CQELS:
        cursor.fail("CQELS-QL gives windows no names", "write STREAM <stream> [RANGE 10s] { ... }, or use RSP-QL")
    if name != RSPQL:
        cursor.fail(cannot(name, Feature.NAMED), "leave WINDOW out, or use RSP-QL")
    if not opens_block(cursor.tokens, cursor.index):
        cursor.fail("a WINDOW block is its name and a group", "write WINDOW <w> { ... }")


IN_PATTERN: dict[str, Callable[[Shell, Cursor], None]] = {
    "STREAM": _stream_block,
    "WINDOW": _window_block,
    "FROM": _from_inside,
    **dict.fromkeys(Operator, _operator_inside),
}
"""The words of the continuous shell that may turn up inside the pattern, and what is made of them there."""


def _tail(shell: Shell) -> None:
    """GROUP BY and what follows, up to the end; no clause of the shell comes this late."""
    cursor = shell.cursor
    first = last = cursor.now
    while cursor.now.kind is not Kind.END:
        if cursor.now.is_word("FROM", "REPORT", "REGISTER"):
            cursor.fail(f"{cursor.now.text} behind the pattern", f"{cursor.now.text} comes before WHERE")
        last = cursor.take()
    shell.tail = (first.start, last.end) if first.kind is not Kind.END else None


CLAUSES: tuple[Callable[[Shell], None], ...] = (_prologue, _register, _prologue, _form, _dataset, _where, _tail)
