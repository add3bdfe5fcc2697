"""Valid bytes made into hostile ones: the same seed makes the same bytes."""

import re
from collections.abc import Callable, Sequence
from random import Random

SIZES = {10_000: 0.96, 300_000: 0.0396, 20_000_000: 0.0004}
"""How long an input may be, and how often; most defects show in short ones, and some in long ones alone."""
PIECES = [
    *(
        b"\\ud83d",
        b"\\u0000",
        b"\x00",
        b"\xff",
        b"\xed\xa0\xbd",
        b"\xef\xbb\xbf",
        b'"',
        b"'",
        b"\\",
        b"\n",
        b"\r",
        b"#\r",
        b"\t",
        b" ",
    ),
    *(
        b"<<( ",
        b" )>>",
        b"<<",
        b">>",
        b"[",
        b"]",
        b"{",
        b"}",
        b"(",
        b")",
        b"<",
        b">",
        b"[]",
        b"{}",
        b",",
        b":",
        b"#",
        b".",
    ),
    *(b"0", b"-1", b"1e999", b"NaN", b"Infinity", b"9" * 19, b"9" * 30, b"9" * 5_000, b"18446744073709551616"),
    *(
        b"null",
        b"true",
        b"_:b",
        b"urn:x",
        b"@en",
        b"@en--ltr",
        b"^^<urn:t>",
        b"a b",
        b"*",
        b"&a",
        b"*a",
        b"!!python/object",
    ),
    *(
        b"2026-01-01T00:00:00Z",
        b"9999-12-31T23:59:59+14:00",
        b"0001-01-01T00:00:00-14:00",
        b"PT1S",
        b"{id}",
        b"-",
        b"%",
    ),
]
XML_TRIPLE = (b'<e:b rdf:parseType="Triple"><rdf:Description rdf:about="urn:a">', b"</rdf:Description></e:b>")
TOKEN = re.compile(rb'"[^"\n]*"|<[^<>\n]*>|[\w.+-]+|\s+|.', re.DOTALL)


def mutated(random: Random, samples: Sequence[bytes]) -> bytes:
    """One of the samples, changed in a few places; now and then as it is."""
    text = random.choice(samples)
    (most,) = random.choices([*SIZES], [*SIZES.values()])
    for _ in range(random.choice((0, 1, 1, 1, 2, 2, 3, 5))):
        text = random.choice(CHANGES)(random, text, samples, most)[:most]
    return text


def _slice(random: Random, text: bytes) -> tuple[int, int]:
    start = random.randrange(len(text) + 1)
    return start, min(len(text), start + int(random.expovariate(1 / 20)))


def _flipped(random: Random, text: bytes, *_: object) -> bytes:
    if not text:
        return text
    at = random.randrange(len(text))
    return text[:at] + bytes([text[at] ^ 1 << random.randrange(8)]) + text[at + 1 :]


def _inserted(random: Random, text: bytes, *_: object) -> bytes:
    at = random.randrange(len(text) + 1)
    return text[:at] + random.choice(PIECES) + text[at:]


def _cut(random: Random, text: bytes, *_: object) -> bytes:
    start, stop = _slice(random, text)
    return text[:start] + text[stop:]


def _ended(random: Random, text: bytes, *_: object) -> bytes:
    return text[: random.randrange(len(text) + 1)]


def _exchanged(random: Random, text: bytes, samples: Sequence[bytes], most: int) -> bytes:
    """One token of many becomes another, of this or of another sample."""
    tokens = TOKEN.findall(text)
    if not tokens:
        return text
    others = [*PIECES, *TOKEN.findall(random.choice(samples)[:2_000])]
    tokens[random.randrange(len(tokens))] = random.choice(others)
    return b"".join(tokens)


def _repeated(random: Random, text: bytes, samples: Sequence[bytes], most: int) -> bytes:
    start, stop = _slice(random, text)
    piece = text[start:stop] or random.choice(PIECES)
    return text[:start] + piece * min(int(10 ** random.uniform(0, 7)), most // len(piece)) + text[stop:]


def _nested(random: Random, text: bytes, samples: Sequence[bytes], most: int) -> bytes:
    """What stands before a place, and what stands after it, so many times."""
    at = random.randrange(len(text) + 1)
    start, stop = max(0, at - random.randrange(1, 160)), at + random.randrange(1, 20)
    before, after = text[start:at], text[at:stop]
    if random.random() < 0.5:
        before, after = random.choice(
            ((b"[", b"]"), (b'{"a":', b"}"), (b"<<( <urn:a> <urn:b> ", b" )>>"), (b"( ", b" )"), XML_TRIPLE)
        )
    times = min(int(10 ** random.uniform(0, 6)), most // max(1, len(before) + len(after)))
    return text[:at] + before * times + after * times + text[at:]


def _spliced(random: Random, text: bytes, samples: Sequence[bytes], most: int) -> bytes:
    other = random.choice(samples)
    return text[: random.randrange(len(text) + 1)] + other[random.randrange(len(other) + 1) :]


def _recoded(random: Random, text: bytes, *_: object) -> bytes:
    return text.decode("utf-8", "replace").encode(
        random.choice(("utf-16", "utf-32-le", "utf-8-sig", "latin-1")), "replace"
    )


Change = Callable[[Random, bytes, Sequence[bytes], int], bytes]
CHANGES: list[Change] = [_flipped, _flipped, _inserted, _inserted, _cut, _ended, _exchanged, _exchanged, _exchanged]
CHANGES += [_repeated, _nested, _spliced, _recoded]
