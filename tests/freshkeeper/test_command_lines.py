"""What a command line may be, and how tables and progress look on a terminal."""

import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import pytest

from freshkeeper.commands.command_line import Argument, Option, UsageError, call
from freshkeeper.commands.screen import TextTable

sold: list[tuple[object, ...]] = []


def sell(
    shop: Annotated[Path, Argument(help="where")],
    goods: Annotated[list[str], Argument(metavar="WHAT...", help="what")] = [],  # noqa: B006
    price: Annotated[float, Option(min=0, max=10, help="for how much")] = 1,
    count: Annotated[int | None, Option("--count", metavar="N", help="how many")] = None,
    tag: Annotated[list[str] | None, Option(help="a tag")] = None,
    wrap: Annotated[bool, Option(help="in paper")] = True,
    free: Annotated[bool, Option("--free", help="for nothing")] = False,
) -> None:
    """Sell goods.

    Example: `sell here`
    """
    sold.append((str(shop), goods, price, count, tag, wrap, free))


@pytest.mark.parametrize(
    ("words", "values"),
    [
        ("s", ("s", [], 1, None, None, True, False)),
        ("s --price=2.5 pen --count 3 ink", ("s", ["pen", "ink"], 2.5, 3, None, True, False)),
        ("--tag a s --tag -b --no-wrap --free", ("s", [], 1, None, ["a", "-b"], False, True)),
        ("- -- --wrap -x", ("-", ["--wrap", "-x"], 1, None, None, True, False)),
    ],
)
def test_options_and_arguments_come_in_any_order(words: str, values: tuple[object, ...]) -> None:
    sold.clear()
    call(sell, "sell", words.split())
    assert sold == [values]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "SHOP is missing: where; see sell --help"),
        ("s --prise 3", "there is no option --prise; did you mean '--price'?; see sell --help"),
        ("s --price", "--price needs a value: --price NUMBER; see sell --help"),
        ("s --price 11", "--price 11: it must be 10 or less; see sell --help"),
        ("s --price -1", "--price -1: it must be 0 or more; see sell --help"),
        ("s --count 1.5", "--count 1.5: it must be a whole number; see sell --help"),
        ("s --free=yes", "--free takes no value, but 'yes' is given; see sell --help"),
    ],
)
def test_a_mistake_names_the_option_and_the_help(words: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        call(sell, "sell", words.split())
    assert str(error.value) == message


def test_help_tells_defaults_and_what_may_be_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    call(sell, "sell", ["--help"])
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[:5] == ["Usage: sell [OPTIONS] SHOP [WHAT...]", "", "Sell goods.", "", "Example: `sell here`"]
    assert {
        "--price NUMBER for how much (default: 1)",
        "--count N how many",
        "--tag TEXT a tag (may be repeated)",
        "--wrap, --no-wrap in paper (default: --wrap)",
        "--free for nothing",
    } <= set(lines)


def test_a_table_is_no_wider_than_the_screen_and_its_numbers_stand_below_each_other() -> None:
    table = TextTable("", ["policy", "share"], [["plan ahead of time", "9.5 %"], ["lru", "80.0 %"]])
    assert list(table.lines(24)) == [
        "┏━━━━━━━━━━━━━┳━━━━━━━━┓",
        "┃ policy      ┃  share ┃",
        "┡━━━━━━━━━━━━━╇━━━━━━━━┩",
        "│ plan ahead  │  9.5 % │",
        "│ of time     │        │",
        "│ lru         │ 80.0 % │",
        "└─────────────┴────────┘",
    ]


BAR = """
from freshkeeper.commands import screen
screen.REDRAW_INTERVAL_S = 0
bar = screen.Bar("trying")
with bar.running():
    for n in range(1, 4):
        bar.update(n, 3, screen.TextTable("", ["tried"], [[str(n)]]))
screen.say("done")
"""


def test_progress_on_a_terminal_is_drawn_over_itself_and_goes_away() -> None:
    reader, terminal = pty.openpty()
    environment = os.environ | {"COLUMNS": "80", "LINES": "24"}
    subprocess.run([sys.executable, "-c", BAR], stderr=terminal, check=True, env=environment)
    os.close(terminal)
    drawn = os.read(reader, 10_000).decode()
    os.close(reader)
    assert drawn.count("trying ") == drawn.count("\x1b[6F\x1b[J") == 3  # a bar and five lines of a table, cleared again
    assert drawn.endswith("\x1b[Jdone\r\n")
