"""Terms of every kind, also those that the store writes in another way."""

import pyoxigraph as ox
from hypothesis import strategies as st

XSD = "http://www.w3.org/2001/XMLSchema#"
KINDS = ["integer", "int", "byte", "decimal", "double", "float", "boolean", "dateTime", "date", "time", "duration"]
VALUES = ["0", "01", "+1", "1.0", "-0", "1e0", "NaN", "INF", "true", "TRUE", "2020-01-01T24:00:00Z", "P12M", "PT24H"]
VALUES += ["2020-01-01T00:00:00+00:00", "2020-01-01", "2020-01-01+00:00", "24:00:00", "x", "", 'a"b\\c\n', "ß\x7f\x01"]
nodes = st.one_of(
    st.sampled_from("abcdefgh").map(lambda name: ox.NamedNode(f"http://e/{name}")),
    st.sampled_from(["urn:ß", "http://e/?q=1#f", "http://e/(a)%20'b'"]).map(ox.NamedNode),
    st.sampled_from(["a", "0", "00a", "a.b", "ß"]).map(ox.BlankNode),
)
literals = st.one_of(
    st.builds(
        lambda v, k: ox.Literal(v, datatype=ox.NamedNode(XSD + k)), st.sampled_from(VALUES), st.sampled_from(KINDS)
    ),
    st.builds(lambda v, tag: ox.Literal(v, language=tag), st.sampled_from(VALUES), st.sampled_from(["en", "EN-us"])),
    st.text(max_size=5).map(ox.Literal),
    st.integers(-200, 200).map(ox.Literal),
)
predicates = st.sampled_from("pq").map(lambda name: ox.NamedNode(f"http://e/{name}"))
flat = st.builds(ox.Triple, nodes, predicates, st.one_of(nodes, literals))
terms = st.one_of(nodes, literals, flat, st.builds(ox.Triple, nodes, predicates, flat))
quads = st.builds(ox.Quad, nodes, predicates, terms)
