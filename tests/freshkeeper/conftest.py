"""The command, called in this process."""

from pathlib import Path

import pytest
from calls import Call, Said, caller


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Call the command in a directory; gives its exit code, output and errors."""
    monkeypatch.chdir(tmp_path)
    calling = caller(monkeypatch, capsys)

    def run(*words: str) -> Said:
        said = calling(*words)
        return said._replace(err=" ".join(said.err.split()))

    return run
