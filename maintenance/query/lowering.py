"""The passes from the shell of a query to its Query object: names resolved, defaults filled in, everything checked."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from freshkeeper.maintenance.base.closure import Closure
from freshkeeper.maintenance.base.errors import nearest
from freshkeeper.maintenance.query.dialect import Declared, Feature, fitted_report, unsupported
from freshkeeper.maintenance.query.function_calls import TAKES, check_call, count_arguments, function_calls
from freshkeeper.maintenance.query.model import (
    Dataset,
    EvaluationTimes,
    Form,
    Operator,
    Query,
    QueryExpression,
    Report,
    StreamWindow,
    WindowKind,
)
from freshkeeper.maintenance.query.shell import WINDOW_NAME, Shell, read_shell
from freshkeeper.maintenance.query.syntax.cursor import Cursor
from freshkeeper.maintenance.query.syntax.prologue import Prologue, check_prefix, is_relative, name_of
from freshkeeper.maintenance.query.syntax.rewrite import blocks
from freshkeeper.maintenance.query.syntax.source_map import Edit, SourceMap, Weaver
from freshkeeper.maintenance.query.syntax.sparql_check import check_sparql
from freshkeeper.maintenance.query.syntax.tokens import Token, TokenKind
from freshkeeper.maintenance.query.syntax.tree import group_names

GROUPS = "freshkeeper_groups"
"""Column of a sub-query over groups that have no names."""


@dataclass
class Draft:
    """A query in the making, handed from pass to pass."""

    shell: Shell
    windows: list[StreamWindow] = field(default_factory=list)
    dataset: Dataset = field(default_factory=Dataset)
    times: EvaluationTimes = field(default_factory=EvaluationTimes)
    source_map: SourceMap | None = None
    query: Query | None = None

    @property
    def cursor(self) -> Cursor:
        """The cursor through which passes report errors."""
        return self.shell.cursor


def lower(shell: Shell) -> Query:
    """Run the passes in order and return the query, which `assemble` leaves in the draft."""
    draft = Draft(shell)
    for step in PASSES:
        step(draft)
    assert draft.query is not None
    return draft.query


def read(draft: Draft) -> None:
    """Read the text into the shell."""
    read_shell(draft.shell)


def check_prefixes(draft: Draft) -> None:
    """Check that every prefix in SPARQL's part is declared."""
    known = {prefix for prefix, _ in draft.shell.prologue.prefixes}
    for token in draft.shell.body:
        if token.kind is TokenKind.PNAME and token.text.partition(":")[0] not in known:
            check_prefix(draft.cursor, token, draft.shell.prologue)


def settle_base(draft: Draft) -> None:
    """Keep a base that the query does not declare only where SPARQL's part needs one."""
    shell = draft.shell
    # IRI("x") resolves at evaluation, and so needs the base too
    if shell.prologue.base is None and any(is_relative(t) or t.is_word("IRI", "URI") for t in shell.body):
        shell.prologue = Prologue(shell.base, shell.prologue.prefixes)


def lower_windows(draft: Draft) -> None:
    """Resolve the names of windows, fill in the defaults of the dialect, and check that names are unique."""
    names: set[str] = set()
    for index, declared in enumerate(draft.shell.declared, 1):
        window = _window(draft, declared, index)
        if window.name in names:
            draft.cursor.fail(f"two windows are named <{window.name}>", "give each its name", declared.place)
        names.add(window.name)
        draft.windows.append(window)


def _window(draft: Draft, declared: Declared, index: int) -> StreamWindow:
    name = WINDOW_NAME.format(index)
    if declared.name is not None:
        name = _resolve(draft, declared.name)
    closure = Closure.LEFT_OPEN
    if declared.kind is WindowKind.TIME:
        closure = declared.closure or draft.shell.dialect.closure
    return StreamWindow(
        name=name,
        stream=_resolve(draft, declared.stream),
        kind=declared.kind,
        range=declared.range,
        step=declared.step,
        t0=declared.t0,
        closure=closure,
        is_named=declared.is_named,
        lag=declared.lag,
    )


def _resolve(draft: Draft, token: Token) -> str:
    shell = draft.shell
    return name_of(draft.cursor, token, Prologue(shell.prologue.base or shell.base, shell.prologue.prefixes))


def lower_dataset(draft: Draft) -> None:
    """Resolve the graphs, and check that none of them is also a window."""
    shell = draft.shell
    default = tuple(dict.fromkeys(_resolve(draft, token) for token in shell.default_graphs))
    named = tuple(dict.fromkeys(_resolve(draft, token) for token in shell.named_graphs))
    windows = {window.name for window in draft.windows}
    for token in (*shell.default_graphs, *shell.named_graphs):
        if _resolve(draft, token) in windows:
            draft.cursor.fail(f"{token.text} is a graph and a window", "give the window a name of its own", token)
    draft.dataset = Dataset(default, named, tuple(draft.windows))


def lower_times(draft: Draft) -> None:
    """Set the report policy: the query's, or the dialect's default fitted to this query."""
    shell = draft.shell
    if not draft.windows and shell.every is None:
        _check_not_continuous(draft)
        draft.times = EvaluationTimes(())
        return
    report = set(shell.report or fitted_report(shell.dialect.report, draft.windows, shell.every))
    if shell.report:
        _check_report(draft, report)
    draft.times = EvaluationTimes(tuple(sorted(report)), shell.every)


def _check_not_continuous(draft: Draft) -> None:
    shell = draft.shell
    token = shell.report_token or shell.operator_token or shell.output
    if token is not None:
        remedy = "declare a window: FROM NAMED WINDOW <w> ON <stream> [RANGE PT10S STEP PT5S]"
        draft.cursor.fail("this query has no window, nothing makes it continuous", remedy, token)


def _check_report(draft: Draft, report: set[Report]) -> None:
    shell = draft.shell
    closes = any(window.step is not None for window in draft.windows)
    if Report.ON_WINDOW_CLOSE in report and not closes:
        remedy = "give one a STEP, or REPORT ON_CONTENT_CHANGE"
        draft.cursor.fail("no window here ever closes", remedy, shell.report_token)
    if (Report.PERIODIC in report) != (shell.every is not None):
        remedy = "REGISTER ... COMPUTED EVERY PT10S AS gives the period, and REPORT PERIODIC goes with it"
        draft.cursor.fail("PERIODIC and COMPUTED EVERY need each other", remedy, shell.report_token)


def check_windows(draft: Draft) -> None:
    """Check that every WINDOW block names a declared window, and that every named window is used."""
    used: set[str] = set()
    for word, name in _window_and_graph_blocks(draft):
        if name.kind is TokenKind.VAR:
            used |= _windows_of_variable(draft, word, name)
        else:
            used.add(_window_of_name(draft, word, name))
    for window, declared in zip(draft.windows, draft.shell.declared, strict=True):
        if window.is_named and window.name not in used:
            remedy = f"use it: WINDOW <{window.name}> {{ ... }}, or leave NAMED out to put it into the default graph"
            draft.cursor.fail(f"the window <{window.name}> is never used", remedy, declared.name or declared.place)


def _window_and_graph_blocks(draft: Draft) -> list[tuple[Token, Token]]:
    """Return keyword and name of every WINDOW and GRAPH block, at their places in the source.

    Fails at a GRAPH block inside a WINDOW block, and at a WINDOW block inside SERVICE.
    """
    assert draft.source_map is not None
    assert draft.query is not None
    expression = draft.query.expression
    tokens = expression.source.tokens
    visible = set(blocks(tokens))  # those outside SERVICE
    found = []
    window_end = 0
    for index, token in enumerate(tokens.items):
        in_pattern = len(expression.head) <= token.start < expression.behind
        if not (in_pattern and token.is_word("WINDOW", "GRAPH")):
            continue
        word = token._replace(start=draft.source_map.origin(token.start))
        if index not in visible:
            if token.is_word("WINDOW"):
                remedy = "put the block of the window beside the SERVICE block"
                draft.cursor.fail("a SERVICE cannot see a window", remedy, word)
            continue
        if token.is_word("WINDOW"):
            window_end = max(window_end, tokens.closing[index + 2])
        elif index < window_end:
            remedy = "a window's content is one graph; put the GRAPH block beside the WINDOW block"
            draft.cursor.fail("a GRAPH inside a WINDOW", remedy, word)
        name = tokens.items[index + 1]
        found.append((word, name._replace(start=draft.source_map.origin(name.start))))
    return found


def _windows_of_variable(draft: Draft, word: Token, name: Token) -> set[str]:
    named = {window.name for window in draft.windows if window.is_named}
    if word.is_word("GRAPH"):
        return set()  # GRAPH ?g ranges over named graphs, never over windows
    if not named:
        draft.cursor.fail(f"WINDOW {name.text} has no window to range over", _DECLARE, word)
    return named


_DECLARE = "declare one: FROM NAMED WINDOW <w> ON <stream> [RANGE PT10S STEP PT5S]"


def _window_of_name(draft: Draft, word: Token, name: Token) -> str:
    """Return the window that a WINDOW block names, or an empty string for a GRAPH block."""
    iri = _resolve(draft, name)
    windows = {window.name: window for window in draft.windows}
    if word.is_word("GRAPH"):
        if iri in windows:
            draft.cursor.fail(f"{name.text} is a window, no graph", f"write WINDOW {name.text} {{ ... }}", word)
        dialect = draft.shell.dialect
        is_stream = any(iri == window.stream for window in draft.windows)
        if is_stream and not dialect.supports(Feature.NAMED_WINDOW):
            problem = unsupported(dialect.name, Feature.NAMED_WINDOW)
            draft.cursor.fail(problem, "leave GRAPH out, or use RSP-QL", word)
        return ""
    if iri not in windows:
        remedy = _DECLARE
        if windows:
            remedy = nearest(iri, list(windows))
        draft.cursor.fail(f"there is no window {name.text} (<{iri}>)", remedy, name)
    if not windows[iri].is_named:
        remedy = "declare it FROM NAMED WINDOW, or leave WINDOW out here"
        draft.cursor.fail(f"{name.text} is declared without NAMED: it is in the default graph", remedy, word)
    return iri


def assemble(draft: Draft) -> None:
    """Build the query object.

    SPARQL's part keeps its text, except for names and groups that pyoxigraph does not read.
    """
    shell = draft.shell
    weaver = Weaver(draft.cursor.tokens.text)
    head, where = _weave(draft, weaver)
    draft.source_map = weaver.finish()
    text = draft.source_map.text
    operator = shell.operator or Operator.RSTREAM
    if shell.operator is None and draft.windows:
        operator = shell.dialect.operator
    draft.query = Query(
        expression=QueryExpression(shell.prologue, text[:head], text[head:where], text[where:]),
        form=shell.form,
        dataset=draft.dataset,
        times=draft.times,
        operator=operator,
        output=_resolve_output(draft),
        dialect=shell.dialect.name,
        origin=(draft.cursor.tokens.text, draft.source_map),
    )


def _weave(draft: Draft, weaver: Weaver) -> tuple[int, int]:
    """Write head, pattern and tail; return the offsets behind the head and behind the pattern.

    pyoxigraph reads GROUP BY and HAVING behind SELECT only. Behind the pattern of any other form, pattern and tail
    become a sub-query that shows the groups, and so all of it is the pattern then.
    """
    shell = draft.shell
    edits = sorted([*shell.edits, *_dotted_names(draft)])
    place = 0
    if shell.form_token is not None:
        place = shell.form_token.start
    weaver.add(shell.form.value, place)
    if shell.head is not None:
        weaver.add(" ", shell.head[0])
        weaver.copy(*shell.head, edits)
    head = weaver.length
    names = _group_names(shell)
    if shell.where is not None:
        if names:
            weaver.add(f"{{ {{ SELECT {names} WHERE ", shell.where[0])
        weaver.copy(*shell.where, edits)
    where = weaver.length
    if shell.tail is not None:
        if names:
            weaver.add(" ", shell.tail[0])
        weaver.copy(*shell.tail, edits)
        if names:
            weaver.add(" } }", shell.tail[1])
    if names:
        where = weaver.length
    return head, where


def _dotted_names(draft: Draft) -> Iterator[Edit]:
    """Yield edits that write names with several dots in full, as pyoxigraph does not read them."""
    for token in draft.shell.body:
        if token.kind is TokenKind.PNAME and token.text.partition(":")[2].count(".") > 1:
            yield Edit(token.start, token.end, f"<{_resolve(draft, token)}>")


def _group_names(shell: Shell) -> str:
    """Return the columns of a sub-query over the groups of a query that is no SELECT, or "" if it has no groups."""
    short_form = shell.form is Form.CONSTRUCT and shell.head is None
    if shell.tail is None or shell.form is Form.SELECT or short_form:
        return ""
    tokens = shell.cursor.tokens
    first = next(n for n, item in enumerate(tokens.items) if item.start == shell.tail[0])
    if not any(item.is_word("GROUP", "HAVING") for item in tokens.items[first:]):
        return ""
    return " ".join(f"?{name}" for name in group_names(tokens, first)) or f"(COUNT(*) AS ?{GROUPS})"


def _resolve_output(draft: Draft) -> str | None:
    token = draft.shell.output
    if token is None:
        return None
    if token.kind is TokenKind.WORD:  # C-SPARQL: REGISTER QUERY name AS, a relative IRI without brackets
        token = token._replace(kind=TokenKind.IRI, text=f"<{token.text}>")
    return _resolve(draft, token)


def check(draft: Draft) -> None:
    """Check that SPARQL accepts the rewritten text."""
    assert draft.query is not None
    assert draft.source_map is not None
    check_sparql(draft.query.rewritten, draft.source_map, draft.cursor.tokens.text)


def check_calls(draft: Draft) -> None:
    """Check that every function called by name exists, and that none inside SERVICE is one of freshkeeper's."""
    assert draft.source_map is not None
    assert draft.query is not None
    tokens = draft.query.expression.source.tokens
    for index, inside_service in function_calls(draft.query):
        token = tokens.items[index]
        name = _resolve(draft, token)
        place = token._replace(start=draft.source_map.origin(token.start))
        if inside_service:
            if name in TAKES:
                draft.cursor.fail(f"a SERVICE does not know {token.text}", "move it behind the SERVICE block", place)
            continue
        wrong = check_call(name, count_arguments(tokens, index + 1))
        if wrong is not None:
            problem, remedy = wrong
            draft.cursor.fail(f"{token.text} {problem}", remedy, place)


PASSES: tuple[Callable[[Draft], None], ...] = (
    read,
    check_prefixes,
    settle_base,
    lower_windows,
    lower_dataset,
    lower_times,
    assemble,
    check_windows,
    check,
    check_calls,
)
