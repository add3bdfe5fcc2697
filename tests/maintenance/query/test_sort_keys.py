"""ORDER BY over values of all kinds: what SPARQL orders is in its order, and no comparison ends the process."""

import os
import random
import signal
from collections.abc import Callable
from typing import NoReturn

import pyoxigraph as ox
import pytest
from terms import solutions, text_of

from freshkeeper import continuous_query, run
from freshkeeper.maintenance.engine.evaluation_limits import EvaluationLimitError, EvaluationLimits
from freshkeeper.maintenance.query.pyoxigraph_workarounds import rewrite_for_pyoxigraph

XSD = "PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>"
CIRCLES: dict[str, Callable[[int], list[str]]] = {
    "numbers and texts": lambda n: [str(n), f'"{n}"'],
    "times with a zone and without": lambda n: [
        f'"2020-01-{n % 28 + 1:02}T{n % 24:02}:{zone}"^^xsd:dateTime' for zone in ("00:00", "00:00Z", "01:00+05:00")
    ],
    "months and days": lambda n: [f'"P{n}D"^^xsd:duration', f'"P{n // 30}M"^^xsd:duration'],
    "what is no number": lambda n: [f'"{n}"^^xsd:double', '"NaN"^^xsd:double', f'"{n}x"^^xsd:double'],
    "numbers that one double stands for": lambda n: [str(2**53 + n), f'"{2**53 + n}"^^xsd:double', f"{2**53 + n}.0"],
    "dates before our era": lambda n: [
        f'"-{n:04}-01-01"^^xsd:date',
        f'"-{n:04}-01"^^xsd:date',
        f'"{n:04}-01-01"^^xsd:date',
    ],
    "triples": lambda n: [f"<<( <urn:a> <urn:b> {n} )>>", f'<<( <urn:a> <urn:b> "{n}" )>>'],
}


def ordered(values: list[str], condition: str = "?x", shown: str = "?x") -> list[str]:
    text = f"{XSD} SELECT {shown} {{ VALUES ?x {{ {' '.join(values)} }} }} ORDER BY {condition}"
    return [str(row[0]) for row in solutions(ox.Store().query(rewrite_for_pyoxigraph(text)))]


@pytest.mark.parametrize("kind", CIRCLES)
def test_values_that_compare_in_circles_have_one_order(kind: str) -> None:
    lots = random.Random(kind)
    drawn = [lots.choice(CIRCLES[kind](lots.randint(1, 999))) for _ in range(300)]
    values = sorted(set(drawn))
    lots.shuffle(values)
    assert ordered(values) == ordered(sorted(values)) == ordered(values, "DESC(?x)")[::-1]


@pytest.mark.parametrize(
    "values",
    [
        ["UNDEF", "<urn:a>", "<urn:b>", "1"],
        ["-1", "0.5", '"1"^^xsd:float', "9", "1e1", "100"],
        ['"10"', '"5"', '"a"', '"b"'],
        ["false", "true"],
        [f'"2020-01-01T{time}"^^xsd:dateTime' for time in ("01:00:00Z", "05:00:00+01:00", "05:00:00Z")],
        ['"2019-01-01"^^xsd:date', '"2020-01-01"^^xsd:date'],
        ['"z"', *(f"<<( <urn:a> <urn:p> {value} )>>" for value in ("<urn:z>", "2.5", "9", "10", '"a"', '"b"'))],
        [f"<<( {subject} <urn:p> 1 )>>" for subject in ("<urn:a>", "<urn:b>", "<urn:c>")],
        ["<<( <urn:b> <urn:p> 9 )>>", "<<( <urn:b> <urn:p> 10 )>>", "<<( <urn:b> <urn:q> 1 )>>"],
        ["<<( <urn:a> <urn:p> 2 )>>", "<<( <urn:a> <urn:p> <<( <urn:a> <urn:p> 1 )>> )>>"],
    ],
)  # fmt: skip
def test_what_sparql_orders_is_in_its_order(values: list[str]) -> None:
    text = f"{XSD} SELECT ?n {{ VALUES (?x ?n) {{ %s }} }} ORDER BY {{}}".replace("{}", "?x")
    rows = [f"({value} {n})" for n, value in enumerate(values)]
    random.Random(1).shuffle(rows)
    assert [
        int(row[0].value) for row in solutions(ox.Store().query(rewrite_for_pyoxigraph(text % " ".join(rows))))
    ] == [*range(len(values))]


@pytest.mark.parametrize(
    "conditions",
    ["?x", "DESC ( STR(?x) ) ?x", "(?x + 1) ASC(?x) LIMIT 40", "STRLEN(STR(?x)) desc(?x) OFFSET 2",
     "EXISTS { ?a ?b ?x } ?x", "xsd:string(?x) ?x", "IF(isNumeric(?x), ?x, \"ORDER BY\") ?x"],
)  # fmt: skip
def test_every_form_of_condition(conditions: str) -> None:
    values = CIRCLES["numbers and texts"](3) + CIRCLES["numbers and texts"](12) + CIRCLES["numbers and texts"](7)
    got = ordered(values, conditions)
    plain = solutions(ox.Store().query(f"{XSD} SELECT ?x {{ VALUES ?x {{ {' '.join(values)} }} }}"))
    assert set(got) <= {str(row[0]) for row in plain}
    assert len(got) == len(values) - 2 * ("OFFSET" in conditions)


def test_groups_and_sub_queries_are_ordered_so_too() -> None:
    lots, values = random.Random(1), CIRCLES["numbers and texts"]
    drawn = " ".join(lots.choice(values(lots.randint(1, 999))) for _ in range(300))
    inner = (
        f"SELECT ?x (COUNT(*) AS ?n) {{ VALUES ?x {{ {drawn} }} }} GROUP BY ?x HAVING(COUNT(*) > 0) ORDER BY ?x SUM(?x)"
    )
    store = ox.Store()
    assert len(list(solutions(store.query(rewrite_for_pyoxigraph(f"{inner} LIMIT 50"))))) == 50
    assert (
        len(
            list(
                solutions(
                    store.query(
                        rewrite_for_pyoxigraph(
                            f"SELECT * {{ {{ {inner} LIMIT 50 }} FILTER EXISTS {{ {{ {inner} }} }} }}"
                        )
                    )
                )
            )
        )
        == 50
    )


def test_a_run_outlives_what_it_sorts() -> None:
    lots = random.Random(1)
    says = [ox.Literal(n) if lots.random() < 0.5 else ox.Literal(str(n)) for n in lots.choices(range(1000), k=300)]
    text = """SELECT ?n FROM NAMED WINDOW <w> ON <urn:s> [RANGE PT4S STEP PT1S] { WINDOW <w> { ?x <urn:says> ?n } }
    ORDER BY ?n LIMIT 9"""
    quads = [(1000, ox.Triple(ox.NamedNode(f"urn:{n}"), ox.NamedNode("urn:says"), said)) for n, said in enumerate(says)]
    (result,) = run(continuous_query(text), {"urn:s": quads})
    least = sorted(int(term.value) for term in says if "integer" in str(term))[:9]
    assert [int(text_of(answer["n"])) for answer, _ in result.solutions()] == least


def test_an_evaluation_that_ends_its_process_fails_by_name() -> None:
    def ended() -> NoReturn:
        os.kill(os.getpid(), signal.SIGTERM)
        raise AssertionError

    with pytest.raises(EvaluationLimitError, match="an evaluation ended its process with SIGTERM"):
        EvaluationLimits(ms=10_000).in_time(ended)
