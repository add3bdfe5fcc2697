"""The command, called in this process."""

import sys

import pytest

from freshkeeper.__main__ import main


@pytest.fixture
def call(tmp_path, monkeypatch, capsys):
    """Call the command in a directory; gives its exit code, output and errors."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["freshkeeper", *words])
        monkeypatch.setattr(sys, "path", list(sys.path))
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return ended.value.code, said.out, " ".join(said.err.split())

    return run
