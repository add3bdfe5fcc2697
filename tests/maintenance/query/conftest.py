"""The case files, and the golden texts beside them (FRESHKEEPER_WRITE_GOLDEN=1 writes them anew)."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from freshkeeper.maintenance.query.parser import DIALECTS

ROOT = Path(__file__).parents[3]
CASES = ROOT / "tests" / "cases" / "query"


def case_files(folder: str) -> list[Path]:
    """The queries of a folder, by name; a file's ending is its dialect."""
    return sorted(path for path in (CASES / folder).iterdir() if path.suffix[1:] in DIALECTS)


@pytest.fixture
def golden() -> Callable[[Path, str, str], None]:
    """Checks a text against the golden file beside a case."""
    return _check_golden


def _check_golden(case: Path, kind: str, text: str) -> None:
    path = case.with_name(f"{case.name}.{kind}.txt")
    if os.environ.get("FRESHKEEPER_WRITE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`accepted` and `rejected` stand for every case file of these folders."""
    for folder in ("accepted", "rejected"):
        if folder in metafunc.fixturenames:
            files = case_files(folder)
            metafunc.parametrize(folder, files, ids=[file.name for file in files])
