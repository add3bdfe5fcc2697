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

    @property
    def complaint(self) -> str:
        """The one line of an error."""
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        assert self.out == ""
        assert lines[0].startswith("freshkeeper: ")
        return lines[0].removeprefix("freshkeeper: ")


Call: TypeAlias = Callable[..., Said]


def caller(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *verb: str) -> Call:
    """Calls the command, or this verb of it, with some words."""

    def call(*words: object) -> Said:
        monkeypatch.setattr(sys, "argv", ["freshkeeper", *verb, *map(str, words)])
        monkeypatch.setattr(sys, "path", list(sys.path))
        with pytest.raises(SystemExit) as ended:
            main()
        code = ended.value.code
        assert isinstance(code, int | None)
        return Said(code or 0, *capsys.readouterr())

    return call
