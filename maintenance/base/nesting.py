"""Measure the nesting of texts without a parser: parsers of libraries crash on texts that are nested too deep."""

import re
from dataclasses import dataclass
from pathlib import Path
from xml.parsers.expat import ErrorString, ExpatError, ParserCreate, XMLParserType

import numpy as np
from numpy.typing import NDArray
from pyoxigraph import RdfFormat

MAX_DEPTH = 100
"""Levels of brackets, or of triples in triples."""
_MARKS = b'"{}[],'
_NOT_BRACKETS = bytes(set(range(256)) - set(_MARKS))
_SQUARE_TO_CURLY = bytes.maketrans(b"[]", b"{}")
_QUOTE, _COMMA, _OPEN, _CLOSE = b'",{}'
_TOKEN = re.compile(
    rb"""\\.|"{3}(?:[^"\\]|\\.|"{1,2}(?!"))*+"{3}|'{3}(?:[^'\\]|\\.|'{1,2}(?!'))*+'{3}"""
    rb"""|"(?:[^"\\\n]|\\.)*+"|'(?:[^'\\\n]|\\.)*+'|<[^<>\s]*+>|\#[^\n\r]*+|(?P<open><<)|(?P<close>>>)""",
    re.DOTALL,
)
"""What can hide brackets in N-Quads and TriG, and the brackets of triple terms."""


Marks = NDArray[np.uint8]


def marks_of(text: bytes) -> Marks:
    """Return the brackets and commas of JSON outside strings, square brackets as curly ones."""
    bare = text.replace(rb"\\", b"").replace(rb"\"", b"")
    marks = np.frombuffer(bare.translate(_SQUARE_TO_CURLY, _NOT_BRACKETS), np.uint8)
    hidden = marks == _QUOTE
    hidden |= np.logical_xor.accumulate(hidden)
    outside: Marks = marks[~hidden]
    return outside


def items_of(marks: Marks) -> int:
    return int((marks != _CLOSE).sum())


def depth_of(marks: Marks) -> int:
    steps = (marks == _OPEN).view(np.int8) - (marks == _CLOSE).view(np.int8)
    return int(np.cumsum(steps, dtype=np.int32).max(initial=0))


def depth_of_triples(text: bytes) -> int:
    """Return an upper bound of the nesting of triples in triples, in N-Quads or TriG."""
    depth = deepest = 0
    brackets = text.count(b"<<")
    if brackets <= MAX_DEPTH:
        return brackets
    for found in _TOKEN.finditer(text):
        depth += (found["open"] is not None) - (found["close"] is not None)
        deepest = max(deepest, depth)
    return deepest


@dataclass(eq=False)
class _Xml:
    """Looks at RDF/XML with expat, which bounds what a small text grows to where entities hold no others."""

    parser: XMLParserType
    depth: int = 0

    def begins(self, *_: object) -> None:
        self.depth += 1
        if self.depth > 2 * MAX_DEPTH:  # a triple in a triple is a property and a node
            raise SyntaxError(TOO_DEEP, ("", self.parser.CurrentLineNumber, None, None))

    def ends(self, _: str) -> None:
        self.depth -= 1

    def declares(self, name: str, _: bool, value: str | None, *__: object) -> None:
        if "&" in (value or ""):
            why = f"the entity {name} holds others, which are not read"
            raise SyntaxError(why, ("", self.parser.CurrentLineNumber, None, None))


def check_xml(text: bytes) -> None:
    """Raise SyntaxError if RDF/XML is nested too deep, or has entities that contain others."""
    parser = ParserCreate()
    found = _Xml(parser)
    parser.StartElementHandler, parser.EndElementHandler = found.begins, found.ends
    parser.EntityDeclHandler = found.declares
    try:
        parser.Parse(text, True)
    except ExpatError as error:
        raise SyntaxError(ErrorString(error.code), ("", error.lineno, error.offset, None)) from None


def no_constant(name: str) -> None:
    """Refuse NaN and Infinity, which Python reads and JSON does not have."""
    raise ValueError(f"{name} is no number in JSON")


def readable(path: Path, kind: RdfFormat | None) -> bytes:
    """Return the content of an RDF file; raise SyntaxError if it is nested too deep for a parser."""
    return checked(path.read_bytes(), kind)


def checked(text: bytes, kind: RdfFormat | None) -> bytes:
    """Return a text of RDF; raise SyntaxError if it is nested too deep for a parser."""
    depth = 0
    if kind == RdfFormat.RDF_XML:
        check_xml(text)
    elif kind == RdfFormat.JSON_LD:
        depth = depth_of(marks_of(text))
    else:
        depth = depth_of_triples(text)
    if depth > MAX_DEPTH:
        raise SyntaxError(TOO_DEEP)
    return text


TOO_DEEP = f"it is nested deeper than {MAX_DEPTH} levels"
