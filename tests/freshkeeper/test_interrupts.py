"""An interrupt that compiled code made another error of is told as what it was."""

import signal
import sys
import warnings

import pytest

import freshkeeper.__main__ as command
from freshkeeper.commands.interrupts import interruptible, was_interrupt


def in_compiled_code() -> None:
    """As numba does it, and simpy behind it, which raises a copy with the cause."""
    try:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as interrupt:
            raise SystemError("<built-in> returned a result with an exception set") from interrupt
    except SystemError as error:
        raise SystemError(*error.args) from error


def test_an_interrupt_at_whatever_remove_is_one_again() -> None:
    with pytest.raises(KeyboardInterrupt), interruptible():
        in_compiled_code()
    with pytest.raises(SystemError, match="broken"), interruptible():
        raise SystemError("broken")


def test_errors_that_go_round_in_a_circle_are_no_interrupts() -> None:
    one, other = ValueError(), ValueError()
    one.__context__, other.__context__ = other, one
    assert not was_interrupt(one)


def test_the_command_says_so_in_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(command, "run_command", lambda _: in_compiled_code())
    monkeypatch.setattr(command, "prepare", lambda: None)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    with pytest.raises(SystemExit) as end:
        command.main()
    assert end.value.code == 130
    assert capsys.readouterr().err == "freshkeeper: stopped; what is finished is kept\n"
