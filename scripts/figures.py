"""The fixed set of experiments behind `compare-figures`, run in the checkout that PYTHONPATH names.

`python -P figures.py CHECKOUT PART` prints one line of JSON for each experiment: its name and its figures. Every
experiment goes through the command line, so that the same script serves checkouts whose modules have other names.
"""

import csv
import dataclasses
import hashlib
import io
import json
import os
import random
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

Figures = dict[str, Any]

NOT_FIGURES = re.compile(r"(_us|seconds|fetch_ms|latency_ms|^latency)$")
"""Tables, columns and keys that hold measured times, which differ from run to run."""
LABELS = ("setting", "policy", "case", "knowledge", "budget", "bank")
"""Columns of summary.csv that say what a row is about."""


class Finished(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


@contextmanager
def scratch(name: str) -> Iterator[Path]:
    """Give an empty directory below the current one; its path is the same in every run, as it gets into figures."""
    place = Path(name)
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    yield place
    shutil.rmtree(place)


@contextmanager
def _redirected(descriptor: int, file: Path) -> Iterator[None]:
    """Send one of the standard streams to a file, at the level of the operating system."""
    kept = os.dup(descriptor)
    target = os.open(file, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
    os.dup2(target, descriptor)
    os.close(target)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os.dup2(kept, descriptor)
        os.close(kept)


def freshkeeper(*words: object) -> Finished:
    """Run the command in this process: a hundred processes would spend their time on imports."""
    main = import_module("freshkeeper.__main__").main
    before = sys.argv, list(sys.path)
    sys.argv = ["freshkeeper", *map(str, words)]
    code: object = 0
    with tempfile.TemporaryDirectory() as place:
        out, err = Path(place, "out"), Path(place, "err")
        with _redirected(1, out), _redirected(2, err):
            try:
                main()
            except SystemExit as end:
                code = end.code
            except Exception as error:
                code = type(error).__name__
                print(error, file=sys.stderr)
        sys.argv, sys.path[:] = before[0], before[1]
        said = out.read_text("utf-8", "replace"), err.read_text("utf-8", "replace")
    return Finished(code if isinstance(code, int) else 0 if code is None else 70, *said)


def unless_failed(done: Finished, figures: Callable[[], Figures]) -> Figures:
    """Return the figures of a command, or its exit status if it failed; the message goes to standard error."""
    if done.code == 0:
        return figures()
    print(f"  exit status {done.code}: {done.err.strip()[-300:]}", file=sys.stderr)
    return {"exit status": done.code}


# ---------------------------------------------------------------------------------------------- files as figures


def digest(values: Iterable[object]) -> str:
    """Return a short hash of values in their order."""
    found = hashlib.sha256()
    for value in values:
        found.update(repr(value).encode() + b"\n")
    return found.hexdigest()[:10]


def of_summary(path: Path) -> Figures:
    """Return the figures of summary.csv, named by the labels of their row."""
    found: Figures = {}
    seen: Counter[str] = Counter()
    for row in csv.DictReader(io.StringIO(path.read_text("utf-8"))):
        name = " ".join(row[label] for label in LABELS if row.get(label))
        seen[name] += 1
        name = f"{name} #{seen[name]}" if seen[name] > 1 else name
        found |= {f"{name}: {column}": value for column, value in row.items() if _is_figure(column, LABELS)}
    return found


def of_table(path: Path) -> Figures:
    """Return the number of rows of a Parquet table, and sum and hash of each column."""
    from pyarrow import concat_tables, types
    from pyarrow.parquet import read_table

    parts = sorted(path.glob("part-*.parquet")) if path.is_dir() else [path]
    if not parts:
        return {}
    table = concat_tables([read_table(part, partitioning=None) for part in parts], promote_options="permissive")
    found: Figures = {f"{path.stem}: rows": table.num_rows}
    for column in filter(_is_figure, table.column_names):
        kind, values = table.schema.field(column).type, table[column].to_pylist()
        is_number = types.is_integer(kind) or types.is_floating(kind)
        total = f", sum {sum(value for value in values if value is not None)!r}" if is_number else ""
        found[f"{path.stem}: column {column}"] = f"hash {digest(values)}{total}"
    return found


def of_run(place: Path) -> Figures:
    """Return the figures of every table of a run directory or journal."""
    found: Figures = {}
    for path in sorted(place.glob("summary.csv")):
        found |= of_summary(path)
    for path in sorted(place.glob("*.parquet")):
        if _is_figure(path.stem):
            found |= of_table(path)
    return found


def of_json(value: object, name: str = "") -> Figures:
    """Return the leaves of a JSON document by their path, without sentences: they may be written better."""
    if isinstance(value, dict):
        inner = [(str(key), part) for key, part in value.items() if _is_figure(str(key))]
    elif isinstance(value, list):
        inner = [(str(number), part) for number, part in enumerate(value)]
    else:
        return {} if isinstance(value, str) and len(value.split()) > 1 else {name: value}
    found: Figures = {}
    for key, part in inner:
        found |= of_json(part, f"{name}.{key}" if name else key)
    return found


def _is_figure(column: str, labels: Sequence[str] = ()) -> bool:
    return column not in labels and not NOT_FIGURES.search(column)


def of_answers(lines: str) -> Figures:
    """Return what an evaluation each line tells: how many, how many answers, how fresh, and a hash of all."""
    evaluations = [json.loads(line) for line in lines.splitlines() if line.strip()]
    answers = [answer for one in evaluations for answer in one.get("answers", [one.get("boolean")])]
    fresh = [answer.get("fresh", 0) for answer in answers if isinstance(answer, dict)]
    return {
        "evaluations": len(evaluations),
        "answers": len(answers),
        "believed fresh": sum(fresh),
        "hash": digest(json.dumps(_canonical(one), sort_keys=True) for one in evaluations),
    }


def _canonical(value: object) -> object:
    """Sort lists, as answers are bags, and drop labels of blank nodes and measured times."""
    if isinstance(value, list):
        return sorted((_canonical(part) for part in value), key=lambda part: json.dumps(part, sort_keys=True))
    if isinstance(value, str):
        return re.sub(r"_:\w+", "_:", value)
    if not isinstance(value, dict):
        return value
    if value.get("type") == "bnode":
        return {"type": "bnode"}
    return {key: _canonical(part) for key, part in value.items() if _is_figure(key)}


# ---------------------------------------------------------------------------------------------- simulations


def simulated(config: Path, *words: object) -> Figures:
    """Run an experiment at few seeds in this process and return its figures."""
    with scratch("simulated") as place:
        run = place / "run"
        usual = ("--set", "bound=never", "--no-report", "--jobs", 1, "--out", run)
        done = freshkeeper("simulate", config, *usual, *words)
        return unless_failed(done, lambda: of_run(run))


def learned(checkout: Path) -> Iterator[tuple[str, Figures]]:
    """Settings in which changes are learned, and one in which a controller holds a target."""
    for config in sorted((checkout / "configs").glob("knowledge-*.yaml")):
        yield config.stem, simulated(config, "--seeds", 1, "--evaluations", 200)
    yield "hold-target", simulated(checkout / "configs/hold-target.yaml", "--seeds", 1, "--evaluations", 300)


def paper(checkout: Path) -> Iterator[tuple[str, Figures]]:
    """The figures of docs/paper.md."""
    names = [path.stem for path in sorted((checkout / "configs").glob("fig*.yaml"))]
    for name in (*names, "beyond", "together", "trains"):
        config = checkout / f"configs/{name}.yaml"
        if config.exists():
            yield name, simulated(config, "--seeds", 1)


# ---------------------------------------------------------------------------------------------- runs and analysis


def recorded(_: Path) -> Iterator[tuple[str, Figures]]:
    """The demonstration, and its query with several policies: answers, freshness and journals."""
    with scratch("recorded") as place:
        demo = place / "demo"
        done = freshkeeper("demo", "--json", "--out", demo)
        yield "demo", unless_failed(done, lambda: of_json(json.loads(done.out)) | of_run(demo))
        for policy in ("lru", "sbm", "ibm", "gain", "plan"):
            yield f"run {policy}", _run(demo, "--policy", policy)
        yield "run with audits", _run(demo, "--audit", 0.1)
        yield "run with a target", _run(demo, "--target", 0.9, "--budget", 10)
        yield "run by snapshot", _run(demo, "--evaluator", "snapshot")
        yield "run with a small view", _run(demo, "--capacity", 20, "--missing", "drop")
        yield "two queries, one budget", _shared(place)


def _run(demo: Path, *words: object) -> Figures:
    with scratch("journal") as journal:
        done = freshkeeper("run", demo / "demo.yaml", "--journal", journal, *words)
        return unless_failed(done, lambda: of_answers(done.out) | of_run(journal))


def _shared(place: Path) -> Figures:
    """Run the demonstration's query and one with a shorter window under one budget."""
    demo, short, answers = place / "demo", place / "short.rspql", place / "answers"
    short.write_text((demo / "reach.rspql").read_text("utf-8").replace("PT4S", "PT2S").replace("<reach>", "<short>"))
    site = "http://example.org/"
    sources = ("--stream", f"{site}posts={demo / 'posts.nt'}", "--source", f"{site}blog={demo / 'blog.yaml'}")
    done = freshkeeper("run", demo / "reach.rspql", short, *sources, "--shared", "--budget", 3, "--out", answers)
    found: Figures = {}
    for path in sorted(answers.glob("*")):
        found |= {f"{path.name}: {name}": value for name, value in of_answers(path.read_text("utf-8")).items()}
    return unless_failed(done, lambda: found)


def analysis(_: Path) -> Iterator[tuple[str, Figures]]:
    """The tables of `analyse` of a simulation and of the demonstration, a replay and a budget."""
    with scratch("analysed") as place:
        run, demo = place / "run", place / "demo"
        small = ("--set", "workload.edges=300", "--evaluations", 60, "--budget", 3, "--seeds", 2)
        more = ("--policy", "lru,gain,plan", "--knowledge", "learned,exact", "--answers", "--no-report", "--jobs", 1)
        freshkeeper("simulate", *small, *more, "--out", run)
        yield "analyse a simulation", _analysed(run)
        freshkeeper("demo", "--json", "--out", demo)
        yield "analyse the demonstration", _analysed(demo)
        words = ("--policy", "sbm,gain,plan", "--budget", "2,6", "--no-report", "--jobs", 1)
        done = freshkeeper("replay", demo, *words, "--out", place / "replay")
        yield "replay", unless_failed(done, lambda: of_run(place / "replay"))
        drawn = ("sns=30", "srs=40", "edges=60", "change_law=poisson", "duration_ms=30000")
        freshkeeper("trace", "generate", place / "trace", *(word for key in drawn for word in ("--set", key)))
        yield "a trace", {path.name: digest([path.read_text("utf-8")]) for path in sorted((place / "trace").glob("*"))}
        question = ("--policy", "lru,gain", "--window", "2s", "--step", "500ms", "--jobs", 1)
        done = freshkeeper("budget", place / "trace", *question, "--json", "--out", place / "budget")
        yield "a budget question", unless_failed(done, lambda: of_json(json.loads(done.out)))


def _analysed(run: Path) -> Figures:
    done = freshkeeper("analyse", run, "--engine", "duckdb", "--target", 0.9, "--json", "--out", run / "tables")
    return unless_failed(done, lambda: of_json(json.loads(done.out)) | of_run(run / "tables"))


# ---------------------------------------------------------------------------------------------- from Python

MANAGERS: dict[str, dict[str, Any]] = {
    **{policy: {"policy": policy} for policy in ("random", "lru", "sbm", "ibm", "gain", "plan")},
    "bundle, aggregates": {"policy": "bundle", "case": "aggregate"},
    "gain, survival": {"policy": "gain", "model": "Survival"},
    "gain, small view": {"policy": "gain", "capacity": 50},
    "gain, audits": {"policy": "gain", "audit": 0.2},
    "gain, target": {"policy": "gain", "target": 0.8},
    "plan, bank": {"policy": "plan", "bank": 20},
}


def library(_: Path) -> Iterator[tuple[str, Figures]]:
    """A Manager over a source in this process, used by public names of `freshkeeper` alone."""
    for name, settings in MANAGERS.items():
        yield name, managed(**settings)


def managed(policy: str, model: str = "Learned", case: str = "bgp", bank: float = 0, **settings: Any) -> Figures:
    """Evaluate 150 times and return sums over what every evaluation recorded, and a hash of all answers."""
    public = import_module("freshkeeper")
    drawn = random.Random("library")
    keys = [f"key{n}" for n in range(60)]
    entries = {f"entry{n}": 0 for n in range(90)}
    edges = {key: drawn.sample(sorted(entries), drawn.randint(1, 5)) for key in keys}
    intervals = {entry: drawn.randint(1, 40) for entry in entries}
    window, rule = public.WindowSpec(range=4000, step=1000), public.BudgetRule.of(5, bank)
    changes, kind = getattr(public, model)(), public.Case(case)
    manager = public.Manager(
        window, public.InMemory(edges, entries), public.policy(policy), rule, changes, case=kind, seed=1, **settings
    )
    answers: list[object] = []
    totals: Counter[str] = Counter()
    for k in range(1, 151):
        for entry, interval in intervals.items():
            entries[entry] += k % interval == 0
        now = 1000 * k
        arriving = [(now - drawn.randrange(1000), drawn.choice(keys)) for _ in range(25)]
        evaluation = manager.evaluate(now, sorted(arriving))
        answers += sorted(tuple(map(str, answer)) for answer in evaluation.answers)
        record = evaluation.record
        pairs = [(field.name, getattr(record, field.name)) for field in dataclasses.fields(record)]
        totals.update({name: value for name, value in pairs if isinstance(value, int | float)})
    sums = {f"sum of {name}": value for name, value in totals.items() if _is_figure(name)}
    return {"answers": len(answers), "hash of answers": digest(answers), **sums}


# ---------------------------------------------------------------------------------------------- conformance cases

EVALUATORS = ("native", "snapshot")
RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
WITHOUT_BASE = "freshkeeper:/"
"""What relative IRIs of a query are resolved against where it has no BASE."""
TOKEN = re.compile(
    r"""(?P<skip>\s+|\#[^\n]*)
    |(?P<string>(?:\"{3}.*?\"{3}|'{3}.*?'{3}|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')(?:@[\w-]+)?)
    |(?P<iri><[^<>\s"{}|^`\\]*>)|(?P<variable>[?$]\w+)|(?P<name>[\w-]*:(?:[\w%-][\w.%-]*[\w%-]|[\w%-])?)
    |(?P<number>\d[\w.]*)|(?P<word>\w+)|(?P<mark>.)""",
    re.VERBOSE | re.DOTALL,
)
INTERVALS = {"001-": 150_000, "lagging": 1_800_000, "grouped": 600_000, "forms": 600_000}
"""Milliseconds between two elements, by how the name of a case begins; for the others 500."""


class Token(NamedTuple):
    """A token of a query, with the IRI that it stands for if it stands for one."""

    kind: str
    text: str
    iri: str
    start: int


def tokens_of(text: str) -> list[Token]:
    """Split a query in any of the dialects, and resolve its prefixes."""
    prefixes = dict(re.findall(r"PREFIX\s+([\w-]*):\s*<([^>]*)>", text, re.IGNORECASE))
    base = (re.findall(r"BASE\s+<([^>]*)>", text, re.IGNORECASE) or [WITHOUT_BASE])[-1]
    found = []
    for match in TOKEN.finditer(text):
        kind, word, iri = str(match.lastgroup), match.group(), ""
        if kind == "iri":
            iri = word[1:-1] if re.match(r"[a-z]+:", word[1:-1]) else base + word[1:-1]
        elif kind == "name":
            prefix, _, local = word.partition(":")
            iri = prefixes.get(prefix, "") + local
        if kind != "skip":
            found.append(Token(kind, word, iri, match.start()))
    return found


def patterns_of(tokens: Sequence[Token]) -> list[tuple[Token, Token, Token]]:
    """Return the triple patterns of a query, roughly: enough to make data that it has answers to."""
    found: list[tuple[Token, Token, Token]] = []
    terms: list[Token] = []
    depth = brackets = 0
    for token in tokens:
        brackets += (token.text in "([") - (token.text in ")]")
        if brackets or token.text in ")]":
            continue
        depth += (token.text == "{") - (token.text == "}")
        if token.text in ",;":
            terms = terms[: 2 if token.text == "," else 1]
        elif token.text in "|/" and len(terms) == 2:
            terms.pop()
        elif token.kind == "word" and token.text != "a":
            terms = []
        elif token.kind != "mark" and depth:
            terms.append(token)
        elif token.text in ".{}":
            terms = []
        if len(terms) == 3:
            found.append((terms[0], terms[1], terms[2]))
            terms = terms[:2]
    return found


def triples_of(patterns: Sequence[tuple[Token, Token, Token]], rounds: int, drawn: random.Random) -> list[str]:
    """Return lines of N-Triples that match the patterns now and then."""
    subjects = ["<urn:a>", "<urn:b>"]
    objects = [*subjects, *subjects, *(f'"{n}"^^<http://www.w3.org/2001/XMLSchema#integer>' for n in (1, 7, 40))]
    lines = []
    for s, p, o in list(patterns) * rounds:
        subject = f"<{s.iri}>" if s.iri else drawn.choice(subjects)
        predicate = RDF_TYPE if p.text == "a" else p.iri or "urn:p"
        value = o.text if o.kind == "string" and o.text.count('"') == 2 else f"<{o.iri}>" if o.iri else ""
        lines.append(f"{subject} <{predicate}> {value or drawn.choice(objects)} .")
    return lines


def _named(tokens: Sequence[Token], *before: str) -> list[str]:
    """Return the IRIs that stand behind these words, each once; `?` marks a word that may be missing."""
    found: dict[str, None] = {}
    texts = [token.text.upper() for token in tokens]
    for n, token in enumerate(tokens):
        at = n
        for word in reversed(before):
            if texts[at - 1] == word.rstrip("?"):
                at -= 1
            elif not word.endswith("?"):
                break
        else:
            found[token.iri] = None
    return [iri for iri in found if iri]


def _streams(text: str, tokens: list[Token], dialect: str) -> list[str]:
    if dialect == "rspql":
        return _named(tokens, "ON", "STREAM?")
    if dialect == "cqels":  # the extent may come before the name of the stream
        swapped = re.sub(r"(STREAM)\s*(\[[^\]]*\])\s*(\S+)", r"\1 \3 \2", text, flags=re.IGNORECASE)
        tokens = tokens_of(swapped)
    return _named(tokens, "STREAM")


def cases(checkout: Path) -> Iterator[tuple[str, Figures]]:
    """The project's own queries on both evaluators, over data made of their own patterns."""
    folder = checkout / "tests/cases/query"
    for path in sorted((folder / "accepted").glob("*")):
        if path.suffix != ".txt":
            yield path.name, _case(path)
    rejected = [path for path in sorted((folder / "rejected").glob("*")) if path.suffix != ".txt"]
    yield "rejected", {path.name: freshkeeper("explain", path).code for path in rejected}


def _case(path: Path) -> Figures:
    text = path.read_text("utf-8")
    tokens, drawn = tokens_of(text), random.Random(path.name)
    patterns = patterns_of(tokens)
    interval = next((ms for name, ms in INTERVALS.items() if path.name.startswith(name)), 500)
    with scratch("case") as place:
        words: list[object] = [path]

        def give(option: str, iri: str, lines: Sequence[str]) -> None:
            file = place / f"{len(words)}.nt"
            file.write_text("\n".join(lines) + "\n", "utf-8")
            words.extend((option, f"{iri}={file}" if iri else file))

        for stream in _streams(text, tokens, path.suffix[1:]):
            lines = triples_of(patterns, 1 + 120 // (1 + len(patterns)), drawn)
            drawn.shuffle(lines)
            give("--stream", stream, [f"{n * interval}\t{line}" for n, line in enumerate(lines)])
        for graph in _named(tokens, "FROM", "NAMED?"):
            give("--graph", graph, triples_of(patterns, 10, drawn))
        if not _named(tokens, "FROM"):
            give("--default", "", triples_of(patterns, 10, drawn))
        volatile = dict(re.findall(r"# volatile <(\S+)>((?: <\S+>)+)", text))
        for service in _named(tokens, "SERVICE", "SILENT?"):
            give("--source", service, triples_of(patterns, 8, drawn))
            predicates = ",".join(re.findall(r"<(\S+)>", volatile.get(service, "")))
            words.extend(("--volatile", f"{service}={predicates or 'urn:p'}"))
        return on_both_evaluators(*words, "--budget", 2)


# ---------------------------------------------------------------------------------------------- cases of others

W3C_CASES = """
PREFIX mf: <http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#>
PREFIX qt: <http://www.w3.org/2001/sw/DataAccess/tests/test-query#>
SELECT DISTINCT ?test ?query ?data {
  ?test a mf:QueryEvaluationTest ; mf:action ?a . ?a qt:query ?query OPTIONAL { ?a qt:data ?data }
  FILTER NOT EXISTS { ?a qt:graphData|qt:serviceData ?x } } ORDER BY ?test
"""
W3C_BASE = "http://www.w3.org/2001/sw/DataAccess/tests/"
BY_CHANCE = re.compile(r"\b(NOW|RAND|UUID|STRUUID)\s*\(", re.IGNORECASE)
TICK = "<urn:tick> <urn:tick> <urn:tick> ."
CSRBENCH_BEGIN = 60_000
"""Milliseconds at which the first file of CSRBench arrives: a multiple of all steps."""


def w3c(_: Path) -> Iterator[tuple[str, Figures]]:
    """Evaluation cases of SPARQL 1.1: each case's data is the content of a window, and its query asks the window."""
    import pyoxigraph as ox

    for manifest in sorted(Path(os.environ["DATA"], "w3c-sparql11").glob("*/manifest.ttl")):
        store = ox.Store()
        store.load(path=str(manifest), format=ox.RdfFormat.TURTLE, base_iri=manifest.as_uri())
        found: Figures = {}
        cases = store.query(W3C_CASES)
        assert isinstance(cases, ox.QuerySolutions)
        for test, query, data in ((row["test"], row["query"], row["data"]) for row in cases):
            path = manifest.with_name(_last(query))
            if path.suffix == ".rq" and path.exists() and not BY_CHANCE.search(path.read_text("utf-8")):
                lines = _lines_of(manifest.with_name(_last(data)), W3C_BASE + _last(data)) if data else []
                figures = _w3c_case(path, lines)
                found |= {f"{_last(test).rpartition('#')[2]}: {name}": value for name, value in figures.items()}
        yield manifest.parent.name, found


def _last(term: object) -> str:
    return str(term).strip("<>").rpartition("/")[2]


def _lines_of(path: Path, base: str | None = None) -> list[str]:
    """Return the triples of a file as lines of N-Triples, blank nodes named in the order in which they come."""
    import pyoxigraph as ox

    lines = ox.serialize(
        (quad.triple for quad in ox.parse(path=str(path), base_iri=base)), format=ox.RdfFormat.N_TRIPLES
    )
    assert lines is not None
    names: dict[str, str] = {}
    text = re.sub(r"_:\w+", lambda found: names.setdefault(found[0], f"_:n{len(names)}"), lines.decode())
    return text.splitlines()


def _w3c_case(path: Path, lines: Sequence[str]) -> Figures:
    with scratch("case") as place:
        query, stream = place / "query.rspql", place / "stream.nt"
        query.write_text(f"BASE <{W3C_BASE}>\n{over_window(path.read_text('utf-8'))}", "utf-8")
        stream.write_text("".join(f"1000\t{line}\n" for line in lines or [TICK]), "utf-8")
        words = (query, "--stream", f"urn:s={stream}", *([] if lines else ["--drain"]))
        return on_both_evaluators(*words)


def over_window(text: str) -> str:
    """Return a query of SPARQL that asks the content of a window."""
    tokens = tokens_of(text)
    form = next(n for n, token in enumerate(tokens) if token.text.upper() in ("SELECT", "ASK", "CONSTRUCT", "DESCRIBE"))
    construct = tokens[form].text.upper() == "CONSTRUCT"
    has_template = construct and tokens[form + 1].text == "{"
    opening = _brace(tokens, _closing(tokens, form + 1) if has_template else form)
    closing = tokens[_closing(tokens, opening)]
    before = tokens[opening - 1]
    place = before.start if before.text.upper() == "WHERE" else tokens[opening].start
    merged = (construct and not has_template) or any(token.text.upper() == "GRAPH" for token in tokens)
    window = f" FROM {'' if merged else 'NAMED '}WINDOW <urn:w> ON <urn:s> [RANGE 1s STEP 1s] "
    if merged:
        return text[:place] + window + text[place:]
    inside = tokens[opening].start + 1
    start, pattern, end = text[place:inside], text[inside : closing.start], text[closing.start :]
    return f"{text[:place]}{window}{start} WINDOW <urn:w> {{{pattern}}} {end}"


def _brace(tokens: Sequence[Token], begin: int) -> int:
    return next(n for n in range(begin, len(tokens)) if tokens[n].text == "{")


def _closing(tokens: Sequence[Token], opening: int) -> int:
    depth = 0
    for n in range(opening, len(tokens)):
        depth += (tokens[n].text == "{") - (tokens[n].text == "}")
        if depth == 0:
            return n
    return len(tokens) - 1


def csrbench(_: Path) -> Iterator[tuple[str, Figures]]:
    """Queries of CSRBench over its stream, on both evaluators."""
    data = Path(os.environ["DATA"], "csrbench")
    lines = [
        f"{CSRBENCH_BEGIN + second * 1000}\t{line}\n"
        for second, path in enumerate(sorted((data / "stream").glob("data_*.ttl")))
        for line in _lines_of(path)
    ]
    for name, entry in json.loads((data / "queries.json").read_text("utf-8")).items():
        with scratch("case") as place:
            query, stream = place / "query.csparql", place / "stream.nt"
            window = "FROM STREAM <s> [RANGE {range_ms}ms STEP {step_ms}ms] WHERE".format(**entry)
            query.write_text("REGISTER QUERY <q> AS " + entry["sparql"].replace("WHERE", window, 1), "utf-8")
            stream.write_text("".join(lines), "utf-8")
            words = (query, "--stream", f"{WITHOUT_BASE}s={stream}", "--drain")
            yield f"query {name}", on_both_evaluators(*words)


def on_both_evaluators(*words: object) -> Figures:
    """Run a query natively, where it has such a plan, and by snapshots."""
    found: Figures = {}
    for evaluator in EVALUATORS:
        done = freshkeeper("run", *words, "--evaluator", evaluator)
        figures = of_answers(done.out) if done.code == 0 else {"exit status": done.code}
        found |= {f"{evaluator}: {name}": value for name, value in figures.items()}
    return found


PARTS: dict[str, Callable[[Path], Iterator[tuple[str, Figures]]]] = {
    "learned": learned,
    "paper": paper,
    "cases": cases,
    "recorded": recorded,
    "analysis": analysis,
    "library": library,
    "w3c": w3c,
    "csrbench": csrbench,
}


def main() -> None:
    """Run one part and print its figures."""
    checkout, part = Path(sys.argv[1]).resolve(), sys.argv[2]
    package = Path(str(import_module("freshkeeper").__file__)).resolve()
    if not package.is_relative_to(checkout):
        sys.exit(f"freshkeeper comes from {package.parent}, not from {checkout}: set PYTHONPATH to the checkout")
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        for name, figures in PARTS[part](checkout):
            print(json.dumps([f"{part}/{name}", figures]), flush=True)
        os.chdir("/")


if __name__ == "__main__":
    main()
