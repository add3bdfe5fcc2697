"""From what is written to the query object: names resolved, defaults put in, everything checked that can be."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from freshkeeper.maintenance.query.dialect import Declared, Feature, cannot, fitted_report
from freshkeeper.maintenance.query.model import (
    Dataset,
    EvaluationTimes,
    Expression,
    Form,
    Operator,
    Query,
    Report,
    Window,
    WindowKind,
)
from freshkeeper.maintenance.query.syntax.cursor import Cursor
from freshkeeper.maintenance.query.syntax.function_calls import TAKES, arguments, calls, wrong_call
from freshkeeper.maintenance.query.syntax.prologue import Prologue, check_prefix, is_relative, name_of
from freshkeeper.maintenance.query.syntax.rewrite import blocks
from freshkeeper.maintenance.query.syntax.shell import WINDOW_NAME, Shell, read_shell
from freshkeeper.maintenance.query.syntax.source_map import Edit, SourceMap, Weaver
from freshkeeper.maintenance.query.syntax.sparql_check import check_sparql
from freshkeeper.maintenance.query.syntax.tokens import Kind, Token
from freshkeeper.maintenance.query.syntax.tree import group_names
from freshkeeper.maintenance.settings.closure import Closure
from freshkeeper.policies.errors import nearest

GROUPS = "freshkeeper_groups"
"""What a sub-query shows of groups that have no names."""


@dataclass
class Draft:
    """A query in the making: what the passes hand on."""

    shell: Shell
    windows: list[Window] = field(default_factory=list)
    dataset: Dataset = field(default_factory=Dataset)
    times: EvaluationTimes = field(default_factory=EvaluationTimes)
    source_map: SourceMap | None = None
    query: Query | None = None

    @property
    def cursor(self) -> Cursor:
        """Where errors come from."""
        return self.shell.cursor


def lower(shell: Shell) -> Query:
    """Run the passes in order; the last one leaves the query."""
    draft = Draft(shell)
    for step in PASSES:
        step(draft)
    assert draft.query is not None
    return draft.query


def read(draft: Draft) -> None:
    """The first pass: read the text into the shell."""
    read_shell(draft.shell)


def check_prefixes(draft: Draft) -> None:
    """Every prefix in SPARQL's part is declared."""
    known = {prefix for prefix, _ in draft.shell.prologue.prefixes}
    for token in draft.shell.body:
        if token.kind is Kind.PNAME and token.text.partition(":")[0] not in known:
            check_prefix(draft.cursor, token, draft.shell.prologue)


def settle_base(draft: Draft) -> None:
    """A base that the query does not declare is kept only where SPARQL's part needs one."""
    shell = draft.shell
    if shell.prologue.base is None and any(is_relative(t) or t.is_word("IRI", "URI") for t in shell.body):
        shell.prologue = Prologue(shell.base, shell.prologue.prefixes)


def lower_windows(draft: Draft) -> None:
    """Names resolved, defaults of the dialect put in, names unique."""
    for index, declared in enumerate(draft.shell.declared, 1):
        draft.windows.append(_window(draft, declared, index))
    taken: dict[str, Token] = {}
    for window, declared in zip(draft.windows, draft.shell.declared, strict=True):
        if window.name in taken:
            draft.cursor.fail(f"two windows are named <{window.name}>", "give each its name", declared.place)
        taken[window.name] = declared.place


def _window(draft: Draft, declared: Declared, index: int) -> Window:
    closure = declared.closure or draft.shell.dialect.closure
    return Window(
        WINDOW_NAME.format(index) if declared.name is None else _resolve(draft, declared.name),
        _resolve(draft, declared.stream),
        declared.kind,
        declared.range,
        declared.step,
        declared.t0,
        closure if declared.kind is WindowKind.TIME else Closure.LEFT_OPEN,
        declared.named,
        declared.lag,
    )


def _resolve(draft: Draft, token: Token) -> str:
    shell = draft.shell
    return name_of(draft.cursor, token, Prologue(shell.prologue.base or shell.base, shell.prologue.prefixes))


def lower_dataset(draft: Draft) -> None:
    """The graphs, and that none of them is also a window."""
    shell = draft.shell
    default = tuple(dict.fromkeys(_resolve(draft, token) for token in shell.default_graphs))
    named = tuple(dict.fromkeys(_resolve(draft, token) for token in shell.named_graphs))
    windows = {window.name for window in draft.windows}
    for token in (*shell.default_graphs, *shell.named_graphs):
        if _resolve(draft, token) in windows:
            draft.cursor.fail(f"{token.text} is a graph and a window", "give the window a name of its own", token)
    draft.dataset = Dataset(default, named, tuple(draft.windows))


def lower_times(draft: Draft) -> None:
    """The report policy: as said, or the dialect's, fitted to what can happen in this query."""
    shell, cursor = draft.shell, draft.cursor
    if not draft.windows and shell.every is None:
        if token := shell.report_token or shell.operator_token or shell.output:
            remedy = "declare a window: FROM NAMED WINDOW <w> ON <stream> [RANGE PT10S STEP PT5S]"
            cursor.fail("this query has no window, nothing makes it continuous", remedy, token)
        draft.times = EvaluationTimes(())
        return
    steps = any(window.step is not None for window in draft.windows)
    report = set(shell.report or fitted_report(shell.dialect.report, draft.windows, shell.every))
    if shell.report:
        if Report.ON_WINDOW_CLOSE in report and not steps:
            cursor.fail(
                "no window here ever closes", "give one a STEP, or REPORT ON_CONTENT_CHANGE", shell.report_token
            )
        if (Report.PERIODIC in report) != (shell.every is not None):
            remedy = "REGISTER ... COMPUTED EVERY PT10S AS says the period, and REPORT PERIODIC goes with it"
            cursor.fail("PERIODIC and COMPUTED EVERY need each other", remedy, shell.report_token)
    draft.times = EvaluationTimes(tuple(sorted(report)), shell.every)


def check_windows(draft: Draft) -> None:
    """Every WINDOW block names a declared window, and every named window is asked."""
    asked: set[str] = set()
    for word, name in _asked(draft):
        if name.kind is Kind.VAR:
            asked |= _asked_by_variable(draft, word, name)
        else:
            asked.add(_asked_by_name(draft, word, name))
    for window, declared in zip(draft.windows, draft.shell.declared, strict=True):
        if window.named and window.name not in asked:
            remedy = f"ask it: WINDOW <{window.name}> {{ ... }}, or leave NAMED out to put it into the default graph"
            draft.cursor.fail(f"the window <{window.name}> is never used", remedy, declared.name or declared.place)


def _asked(draft: Draft) -> list[tuple[Token, Token]]:
    """The keywords and names of WINDOW and GRAPH blocks, placed in the source, and the error of one inside SERVICE."""
    assert draft.source_map is not None
    assert draft.query is not None
    e, tokens = draft.query.expression, draft.query.expression.source.tokens
    visible = set(blocks(tokens))
    found, window = [], 0
    for index, token in enumerate(tokens.items):
        if token.is_word("WINDOW", "GRAPH") and len(e.head) <= token.start < e.behind:
            start = draft.source_map.origin(token.start)
            if index in visible:
                if token.is_word("WINDOW"):
                    window = max(window, tokens.closing[index + 2])
                elif index < window:
                    remedy = "a window's content is one graph; put the GRAPH block beside the WINDOW block"
                    draft.cursor.fail("a GRAPH inside a WINDOW", remedy, token._replace(start=start))
                name = tokens.items[index + 1]
                found.append((token._replace(start=start), name._replace(start=draft.source_map.origin(name.start))))
            elif token.is_word("WINDOW"):
                remedy = "put the block of the window beside the SERVICE block"
                draft.cursor.fail("a SERVICE cannot see a window", remedy, token._replace(start=start))
    return found


def _asked_by_variable(draft: Draft, word: Token, name: Token) -> set[str]:
    named = {window.name for window in draft.windows if window.named}
    if word.is_word("GRAPH"):
        return set()
    if not named:
        draft.cursor.fail(f"WINDOW {name.text} has no window to range over", _DECLARE, word)
    return named


_DECLARE = "declare one: FROM NAMED WINDOW <w> ON <stream> [RANGE PT10S STEP PT5S]"


def _asked_by_name(draft: Draft, word: Token, name: Token) -> str:
    iri = _resolve(draft, name)
    windows = {window.name: window for window in draft.windows}
    if word.is_word("GRAPH"):
        if iri in windows:
            draft.cursor.fail(f"{name.text} is a window, no graph", f"write WINDOW {name.text} {{ ... }}", word)
        if iri in {window.stream for window in draft.windows} and not draft.shell.dialect.says(Feature.NAMED):
            draft.cursor.fail(cannot(draft.shell.dialect.name, Feature.NAMED), "leave GRAPH out, or use RSP-QL", word)
        return ""
    if iri not in windows:
        remedy = nearest(iri, list(windows)) if windows else _DECLARE
        draft.cursor.fail(f"there is no window {name.text} (<{iri}>)", remedy, name)
    if not windows[iri].named:
        remedy = "declare it FROM NAMED WINDOW, or leave WINDOW out here"
        draft.cursor.fail(f"{name.text} is declared without NAMED: it is in the default graph", remedy, word)
    return iri


def assemble(draft: Draft) -> None:
    """The query object; SPARQL's part keeps its text, but for names and groups that pyoxigraph does not read."""
    shell = draft.shell
    weaver = Weaver(draft.cursor.tokens.text)
    place = shell.form_token.start if shell.form_token else 0
    edits = sorted([*shell.edits, *_dotted(draft)])
    weaver.add(shell.form.value, place)
    if shell.head is not None:
        weaver.add(" ", shell.head[0])
        weaver.copy(*shell.head, edits)
    head = weaver.length
    names = _group_names(shell)
    if shell.where is not None:
        weaver.add(f"{{ {{ SELECT {names} WHERE " if names else "", shell.where[0])
        weaver.copy(*shell.where, edits)
    where = weaver.length
    if shell.tail is not None:
        weaver.add(" " if names else "", shell.tail[0])
        weaver.copy(*shell.tail, edits)
        weaver.add(" } }" if names else "", shell.tail[1])
    where = weaver.length if names else where
    draft.source_map = weaver.done()
    text = draft.source_map.text
    draft.query = Query(
        Expression(shell.prologue, text[:head], text[head:where], text[where:]),
        shell.form,
        draft.dataset,
        draft.times,
        shell.operator or (shell.dialect.operator if draft.windows else Operator.RSTREAM),
        _resolve_output(draft),
        shell.dialect.name,
        (draft.cursor.tokens.text, draft.source_map),
    )


def _dotted(draft: Draft) -> Iterator[Edit]:
    """Names with several dots, in full."""
    for token in draft.shell.body:
        if token.kind is Kind.PNAME and token.text.partition(":")[2].count(".") > 1:
            yield Edit(token.start, token.end, f"<{_resolve(draft, token)}>")


def _group_names(shell: Shell) -> str:
    """What a sub-query shows of the groups of a query that is no SELECT; nothing where there are none."""
    tokens = shell.cursor.tokens
    first = next(n for n, item in enumerate(tokens.items) if not shell.tail or item.start == shell.tail[0])
    tail = tokens.items[first:] if shell.tail else ()
    short = shell.form is Form.CONSTRUCT and shell.head is None
    if shell.form is Form.SELECT or short or not any(item.is_word("GROUP", "HAVING") for item in tail):
        return ""
    return " ".join(f"?{name}" for name in group_names(tokens, first)) or f"(COUNT(*) AS ?{GROUPS})"


def _resolve_output(draft: Draft) -> str | None:
    token = draft.shell.output
    if token is None or token.kind is not Kind.WORD:
        return None if token is None else _resolve(draft, token)
    return _resolve(draft, token._replace(kind=Kind.IRI, text=f"<{token.text}>"))


def check(draft: Draft) -> None:
    """SPARQL accepts the rewritten text."""
    assert draft.query is not None
    assert draft.source_map is not None
    check_sparql(draft.query.rewritten, draft.source_map, draft.cursor.tokens.text)


def check_calls(draft: Draft) -> None:
    """Every function that is called by name is there; inside SERVICE none is ours."""
    assert draft.source_map is not None
    assert draft.query is not None
    tokens = draft.query.expression.source.tokens
    for index, inside in calls(draft.query):
        token = tokens.items[index]
        place, name = token._replace(start=draft.source_map.origin(token.start)), _resolve(draft, token)
        if inside and name in TAKES:
            draft.cursor.fail(f"a SERVICE does not know {token.text}", "move it behind the SERVICE block", place)
        if not inside and (wrong := wrong_call(name, arguments(tokens, index + 1))):
            draft.cursor.fail(f"{token.text} {wrong[0]}", wrong[1], place)


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
