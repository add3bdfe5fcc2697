"""`freshkeeper` called in the process of a test."""

import sys
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import pytest

from freshkeeper.__main__ import main


class Said(NamedTuple):
    """What came of a command: its exit code, output and errors."""

    code: int
    out: str
    err: str


Call: TypeAlias = Callable[..., Said]


def caller(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *verb: str) -> Call:
    """Calls the command, or this verb of it, with some words."""

    def call(*words: str) -> Said:
        monkeypatch.setattr(sys, "argv", ["freshkeeper", *verb, *words])
        monkeypatch.setattr(sys, "path", list(sys.path))
        with pytest.raises(SystemExit) as ended:
            main()
        code = ended.value.code
        assert isinstance(code, int | None)
        return Said(code or 0, *capsys.readouterr())

    return call
