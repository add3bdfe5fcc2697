"""Valid inputs of every kind, to be changed."""

import json
from pathlib import Path

from pyoxigraph import RdfFormat, parse

from freshkeeper.maintenance.annotated.page_writer import FORMATS, PagePosition, write_page
from freshkeeper.maintenance.sources.fragments.annotation_style import (
    AnnotationEncoding,
    AnnotationStyle,
    TimedTriple,
    TimeEncoding,
)
from freshkeeper.maintenance.sources.fragments.quad_pattern import QuadPattern

CONFIGS = Path(__file__).parents[2] / "configs"
E = "http://e/"
INTEGER = "http://www.w3.org/2001/XMLSchema#integer"
RESULTS = "application/sparql-results+json"


def _uri(name: str) -> dict[str, object]:
    return {"type": "uri", "value": E + name}


def _number(value: object) -> dict[str, object]:
    return {"type": "literal", "value": str(value), "datatype": INTEGER}


TRIPLE = {
    "type": "triple",
    "value": {"subject": _uri("s"), "predicate": _uri("p"), "object": {"type": "bnode", "value": "b"}},
}
ROW = {"who": _uri("w1"), "b": _uri("b1"), "n": _number(7), "freshkeeper_there": {"type": "literal", "value": "true"}}
VARS = [*ROW, "freshkeeper_times"]


def _results(*rows: object) -> bytes:
    return json.dumps({"head": {"vars": VARS}, "results": {"bindings": rows}}).encode()


def _answer(body: bytes, kind: str, *more: str, status: str = "200 OK") -> bytes:
    head = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body)}", *more, "", ""]
    return "\r\n".join(head).encode() + body


def _endless(body: bytes, kind: str) -> bytes:
    """An answer that ends with its connection, so that changes of its length do not hide what it says."""
    return f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n".encode() + body


SOLUTIONS = [
    _results(*(ROW | {"who": _uri(f"w{n}"), "n": _number(n)} for n in range(5))),
    _results(ROW | {"n": {"type": "literal", "value": "a\nb", "xml:lang": "en"}, "freshkeeper_times": _number(3)}),
    _results(ROW | {"n": TRIPLE}, ROW | {"b": TRIPLE}, ROW | {"n": {"type": "bnode", "value": "x"}}),
    _results(ROW, ROW, {"who": _uri("w2")}, {}),
    b'{"head":{},"boolean":true}',
]
XML = b"""<?xml version="1.0"?><sparql xmlns="http://www.w3.org/2005/sparql-results#"><head><variable name="n"/></head>
<results><result><binding name="n"><literal xml:lang="en">x</literal></binding></result></results></sparql>"""
DATES = (
    "Date: Wed, 18 Nov 2026 22:00:00 GMT",
    "Last-Modified: Wed, 18 Nov 2026 21:00:00 GMT",
    "Cache-Control: max-age=60",
    "Age: 5",
)
TURTLE = [
    b'@prefix : <http://e/> .\n:a :b "x"@en , 1.5 , <<( :s :p "y"^^:t )>> ; :c ( 1 2 [ :d true ] ) . # end\n'
    b':a :b """q""" .\n',
    b'PREFIX : <http://e/>\n<< :a :b :c >> :d :e . :a :b :c {| :d "z"@ar--rtl |} .\n',
]
DATED = '<http://e/g{0}> <http://www.w3.org/ns/prov#generatedAtTime> "2026-01-0{0}T00:00:00Z" .'
LINES = [
    b"".join(
        b'%d\t<http://e/a%d> <http://e/by> "%d"^^<%s> .\n' % (at, at, at, INTEGER.encode()) for at in (1, 1000, 5000)
    ),
    b'1\t_:a <http://e/p> <<( <http://e/s> <http://e/p> <<( _:x <http://e/p> "y"@en )>> )>> .\n'
    b"2\t<urn:a> <urn:b> _:c .\n",
    b'1700000000000\t<http://e/a> <http://e/b> "a\\tb\\u00e9" <http://e/g> .\n# said\n\n'
    b'1700000900000\t<urn:a> <urn:b> "" .\n',
]
MAPPINGS = [
    b"data: rides.csv\ntime: at\nunit: ms\nprefixes: {ex: 'http://e/'}\ntriples:\n"
    b"- {subject: 'ex:ride/{id}', predicate: ex:km, object: '{km}', datatype: xsd:double}\n"
    b"- {subject: 'ex:ride/{id}', predicate: ex:of, iri: 'ex:id/{id}'}\n"
    b"- {subject: 'ex:ride/{id}', predicate: ex:said, object: 'it is {km}', language: en}\n",
]
TABLES = [b'id,at,km\n1,1000,2.5\n"2",2026-01-01T00:00:00Z,"a ""b"" c"\n3,3000,\n']
ROWS = [b'{"id": 1, "at": 1000, "km": 2.5}\n{"id": "x y", "at": "2000", "km": true, "more": [1, {"a": null}]}\n']
RUN = b"""query: 'SELECT * FROM NAMED WINDOW <urn:w> ON <urn:s> [RANGE PT1S] WHERE { WINDOW <urn:w> { ?a ?b ?c } }'
streams: {urn:s: s.nq, "http://e/t": "follow:dir"}
graphs: {urn:g: g.ttl}
sources: {urn:x: {sparql: "http://localhost:7878/query", volatile: [urn:v], limits: 10/s}, urn:y: y.yaml}
volatile: {urn:y: [urn:v, urn:w]}
delay: 500ms
idle: 5s
gap: 400d
budget: 2.5
shared: true
weights: {urn:x: 2}
minimum: {urn:x: 0.5}
audit: 0.05
capacity: 100
metrics: ":9100"
"""
SOURCES = [
    (CONFIGS / "source-reference.yaml").read_bytes(),
    (CONFIGS / "source-sparql.yaml").read_bytes(),
    b"resources:\n- subject: http://e/{id}\n  url: http://localhost/{id}\n  predicates:\n    http://e/p: a.b\n"
    b"    http://e/q: {path: c, iri: 'http://e/{id}'}\nvolatile: http://e/p\n"
    b"auth: {bearer: TOKEN}\nlimits: 10/s,1000/day\n",
    b"data: x.ttl\nchanges: x.nq\nvolatile: [urn:v]\nannotations: reification\nknowledge: published\n",
]


def _where(pattern: QuadPattern) -> str:
    return PagePosition("http://here.example/f", pattern, 1, 100, 1).fragment


def _pages() -> list[bytes]:
    """Pages of fragments in every format, plain and with times."""
    base = "http://here.example/f"
    found: list[bytes] = []
    data = b"<http://e/w1> <http://e/boss> <http://e/b1> . <http://e/b1> <http://e/followers> 7 ."
    quads = list(parse(data, format=RdfFormat.TURTLE))
    for speaking in AnnotationEncoding:
        style = AnnotationStyle(speaking, [*TimeEncoding][len(found) % 3])
        timed = [
            quad
            for n, quad in enumerate(quads)
            for quad in style.quads(TimedTriple(quad.triple, 1_000, 253_402_300_000_000), f"urn:e:{n}", _where)
        ]
        for kind in FORMATS:
            if kind != "application/ld+json" or speaking is not AnnotationEncoding.STAR:
                place = PagePosition(base, QuadPattern(), 1, 100, 230)
                found.append(_endless(write_page([*quads, *timed], place, kind), kind))
    return found


REQUESTS = [
    b"GET /f?predicate=http%3A%2F%2Fe%2Fp&page=1 HTTP/1.1\r\nHost: e\r\nAccept: text/turtle;q=0.5,*/*",
    b'HEAD /f?object="1"^^http://e/d&graph=@default HTTP/1.1\r\nHost: e:80\r\nIf-None-Match: "x", W/"y"\r\n'
    b"Accept-Encoding: gzip",
    b"OPTIONS * HTTP/1.0\r\n\r\nPOST /f HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
]
SAMPLES: dict[str, list[bytes]] = {
    "fragments": _pages(),
    "followed": _pages(),
    "requests": REQUESTS,
    "answers": [
        *(_endless(body, RESULTS) for body in SOLUTIONS * 3),
        *(_answer(body, RESULTS, *DATES, 'ETag: "x"') for body in SOLUTIONS),
        _endless(XML, "application/sparql-results+xml"),
        _endless(b"who,n\r\nhttp://e/w1,7\r\n", "text/csv"),
        _endless(b'?who\t?n\n<http://e/w1>\t"7"@en\n', "text/tab-separated-values"),
        *(_endless(text, "text/turtle") for text in TURTLE),
        _answer(b"later", "text/plain", "Retry-After: 0", status="503 Busy"),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: application/json\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    ],
    "documents": [
        *(
            _endless(json.dumps(document).encode(), "application/json")
            for document in (
                {"stats": {"followers": 7}, "boss": "b1"},
                {"stats": [{"followers": [1, 2.5, "x", True, None]}], "boss": ["b1", 2, {"id": 3}]},
                [{"stats": {"followers": 'é \U0001f600 \\ " '}, "boss": "../x y"}],
            )
        ),
        _answer(b'{"stats":{"followers":7}}', "application/ld+json; charset=utf-8", *DATES, "Expires: 0", 'ETag: "y"'),
        _answer(b"", "application/json", status="304 Not Modified"),
        _answer(b"{}", "application/json", "Location: http://127.0.0.1/", status="302 Found"),
    ],
    "lines": LINES,
    "events": [
        b"".join(b"data: " + line + b"\r\n\r\n" for line in text.splitlines()) + b": said\nevent: x\n" for text in LINES
    ],
    "trig": [
        "\n".join(
            [*(DATED.format(n) + f" <http://e/g{n}> {{ <urn:a> <urn:b> {n} , [ <urn:c> 'x' ] . }}" for n in (1, 2, 3))]
        ).encode(),
        (
            DATED.format(1) + " <http://e/g1> { << <urn:a> <urn:b> <urn:c> >> <urn:d> <<( <urn:a> <urn:b> 1 )>> }"
        ).encode(),
    ],
    "jsonld": [
        json.dumps(
            {
                "@context": {
                    "ex": E,
                    "at": {"@id": "http://www.w3.org/ns/prov#generatedAtTime"},
                    "l": {"@container": "@list", "@id": "ex:l"},
                },
                "@id": "ex:g",
                "at": "2026-01-01T00:00:00Z",
                "@graph": [{"@id": "ex:a", "ex:b": [1, 2.5, {"@value": "x", "@language": "en"}], "l": [1, [2]]}],
            }
        ).encode(),
    ],
    "csv": TABLES,
    "jsonl": ROWS,
    "mappings": MAPPINGS,
    "turtle": TURTLE,
    "rdfxml": [
        b'<?xml version="1.0"?><!DOCTYPE r [<!ENTITY e "http://e/">]><rdf:RDF xmlns:e="http://e/" rdf:version="1.2" '
        b'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
        b'<rdf:Description rdf:about="&e;a"><e:b rdf:resource="&e;c"/><e:d xml:lang="en">x</e:d>'
        b'<e:l rdf:parseType="Collection"><e:T/></e:l><e:t rdf:parseType="Triple"><rdf:Description rdf:about="&e;s">'
        b"<e:p>o</e:p></rdf:Description></e:t></rdf:Description></rdf:RDF>",
    ],
    "runs": [RUN, (CONFIGS / "run-reference.yaml").read_bytes()],
    "sources": SOURCES,
    "experiments": [path.read_bytes() for path in sorted(CONFIGS.glob("*.yaml")) if b"policies" in path.read_bytes()],
    "states": [bytes(range(n, n + 40)) for n in range(0, 200, 10)],
}
