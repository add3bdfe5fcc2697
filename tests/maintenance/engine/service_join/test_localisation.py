"""Table 1 of seeds/000: who can reach whom, instant by instant (one tick is one second, T = 2)."""

from collections.abc import Callable

STREAM = [(0, ":m0 :detectedAt :r1"), (1000, ":m1 :detectedAt :r2"), (2000, ":m2 :detectedAt :r1")]
STREAM += [(3000, ":m3 :detectedAt :r2")]
MAP = {"map": ":r1 :connected :r2, :r3 . :r2 :connected :r1 . :r3 :connected :r1"}
BODY = """
CONSTRUCT {{ ?person2 :reaches ?person1 }} FROM NAMED :map WHERE {{
  STREAM :s [NOW] {{ ?person1 :detectedAt ?loc1 }}
  STREAM :s [RANGE {range}] {{ ?person2 :detectedAt ?loc2 }}
  GRAPH :map {{ ?loc1 :connected ?loc2 }}
}}
"""


def test_table_1_instant_by_instant(ask: Callable[..., dict[int, list[str]]]) -> None:
    """Those who are still in a neighbouring room reach whoever was just detected."""
    assert ask(BODY.format(range="2s"), STREAM, MAP) == {
        0: [],
        1000: ["m0 reaches m1"],
        2000: ["m1 reaches m2"],
        3000: ["m2 reaches m3"],
    }


def test_the_two_windows_hold_what_the_table_says(ask: Callable[..., dict[int, list[str]]]) -> None:
    text = "SELECT RSTREAM ?p ?l FROM NAMED WINDOW :w ON :s [{0}] {{ WINDOW :w {{ ?p :detectedAt ?l }} }}"
    both = {window: ask(text.format(window), STREAM) for window in ("NOW", "RANGE PT2S")}
    assert both["NOW"] == {0: ["m0 r1"], 1000: ["m1 r2"], 2000: ["m2 r1"], 3000: ["m3 r2"]}
    assert both["RANGE PT2S"] == {
        0: ["m0 r1"],
        1000: ["m0 r1", "m1 r2"],
        2000: ["m1 r2", "m2 r1"],
        3000: ["m2 r1", "m3 r2"],
    }
