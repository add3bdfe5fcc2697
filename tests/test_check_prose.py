"""`scripts/check-prose`: every rule finds what was planted, and the limits only go down."""

import json
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "check-prose"


def _load() -> ModuleType:
    loader = SourceFileLoader("check_prose", str(SCRIPT))
    spec = spec_from_loader("check_prose", loader)
    assert spec is not None
    module = module_from_spec(spec)
    sys.modules["check_prose"] = module  # dataclasses look their module up
    loader.exec_module(module)
    return module


check_prose = _load()


def _plant(root: Path, sources: dict[str, str]) -> Path:
    for name, text in sources.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


def _findings(root: Path, sources: dict[str, str]) -> list[tuple[str, int]]:
    _plant(root, sources)
    found = check_prose.find_all(root, check_prose.read_modules(root))
    return [(finding.rule, finding.line) for finding in found]


@pytest.mark.parametrize(
    "source",
    [
        "def _asked() -> None: ...",
        "class Told: ...",
        "class Rows:\n    held: int",
        "class Rows:\n    def __init__(self) -> None:\n        self._known = 1",
        "OFTEN = 3",
        "_PATIENCE: float = 3",
        "class AtOnce: ...",
        "class Mode:\n    AHEAD = 1",
    ],
)
def test_banned_names_are_found(tmp_path: Path, source: str) -> None:
    assert [rule for rule, _ in _findings(tmp_path, {"policies/a.py": source + "\n"})] == ["name"]


def test_locals_parameters_and_eq_are_free(tmp_path: Path) -> None:
    source = (
        "class Rows:\n    def __eq__(self, other: object) -> bool:\n        held = other\n        return self is held\n"
        "\n\ndef close(told: int) -> int:\n    most = told\n    return most\n"
    )
    assert _findings(tmp_path, {"policies/a.py": source}) == []


def test_a_public_class_name_is_used_once(tmp_path: Path) -> None:
    sources = {"policies/a.py": "class Rows: ...\n", "simulator/b.py": "\nclass Rows: ...\nclass _Rows: ...\n"}
    assert _findings(tmp_path, sources) == [("class-twice", 2)]


def test_a_docstring_is_not_repeated(tmp_path: Path) -> None:
    sources = {
        "policies/a.py": 'class A:\n    """A row\n    of a table."""\n',
        "policies/b.py": 'class B:\n    """A row of a table."""\n',
    }
    assert _findings(tmp_path, sources) == [("docstring-twice", 2)]


@pytest.mark.parametrize("begin", ["What the", "Of", "One", "Those,", "So many", "The same", "With", "Whether a"])
def test_docstrings_that_begin_with_a_fragment_are_found_once(tmp_path: Path, begin: str) -> None:
    source = f'"""Rows."""\n\n\ndef close() -> None:\n    """{begin} rows that were read."""\n'
    assert _findings(tmp_path, {"policies/a.py": source}) == [("fragment", 5)]


def test_functions_have_a_verb_first_and_classes_and_properties_need_none(tmp_path: Path) -> None:
    source = (
        '"""Rows of a table."""\n\n\nclass Rows:\n    """The rows."""\n\n    @property\n    def size(self) -> int:\n'
        '        """The number of rows."""\n        return 1\n\n    def count(self) -> int:\n'
        '        """The number of distinct rows."""\n        return 1\n'
    )
    assert _findings(tmp_path, {"policies/a.py": source}) == [("imperative", 13)]


def test_calls_have_five_positional_arguments_at_most_except_to_and_in_kernels(tmp_path: Path) -> None:
    source = (
        "from numba import njit\n\n\n@njit(cache=True)\ndef add(*n: int) -> int:\n    return max(1, 2, 3, 4, 5, 6)\n"
        "\n\n"
        "add(1, 2, 3, 4, 5, 6)\nmax(1, 2, 3, 4, 5)\nmax(1, 2, 3, 4, 5, 6)\n"
    )
    assert _findings(tmp_path, {"policies/a.py": source}) == [("arguments", 11)]


def test_public_names_and_their_methods_have_docstrings_unless_they_override(tmp_path: Path) -> None:
    sources = {
        "freshkeeper/__init__.py": "from freshkeeper.policies.a import B, read\n",
        "policies/a.py": (
            'class A:\n    def close(self) -> None: ...\n\n\nclass B(A):\n    """A row."""\n\n'
            "    def close(self) -> None: ...\n    def open(self) -> None: ...\n    def _open(self) -> None: ...\n\n\n"
            "def read() -> None: ...\n"
        ),
    }
    assert _findings(tmp_path, sources) == [("public-docstring", 9), ("public-docstring", 13)]


def test_statements_have_one_comprehension(tmp_path: Path) -> None:
    source = (
        "a = [n for n in {m for m in range(3)}]\nfor b in [n for n in a]:\n    c = [n for n in a]\n"
        "d = [n for n in a for m in a]\n"
    )
    assert _findings(tmp_path, {"policies/a.py": source}) == [("comprehensions", 1)]


def test_conditions_that_assign_do_nothing_else(tmp_path: Path) -> None:
    source = "a = 1\nif (b := a) is not None:\n    pass\nif a and (b := a):\n    pass\n"
    source += "while b := [c for c in a if a and c]:\n    pass\nc = [d for d in range(3) if a or (e := d)]\n"
    assert _findings(tmp_path, {"policies/a.py": source}) == [("walrus", 4), ("walrus", 8)]


def test_fifteen_conditional_expressions_in_1000_lines_are_permitted(tmp_path: Path) -> None:
    text = "a = 1 if __debug__ else 2\n" * 15 + "\n" * 985
    _plant(tmp_path, {"policies/a.py": text})
    assert check_prose.main(["--root", str(tmp_path)]) == 0
    _plant(tmp_path, {"policies/a.py": "b = 1 if __debug__ else 2\n" + text[:-1]})
    assert check_prose.main(["--root", str(tmp_path)]) == 1


def test_linked_folders_are_read_once(tmp_path: Path) -> None:
    _plant(tmp_path, {"policies/a.py": "OFTEN = 1\n", "freshkeeper/__init__.py": ""})
    (tmp_path / "freshkeeper" / "policies").symlink_to("../policies")
    assert _findings(tmp_path, {}) == [("name", 1)]


def test_a_finding_is_a_line_with_place_rule_and_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _plant(tmp_path, {"policies/a.py": "\nOFTEN = 1\n"})
    assert check_prose.main(["--root", str(tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "policies/a.py:2 name constant OFTEN: say what it is or does"
    assert lines[1] == "check-prose: name: 1 findings, 0 permitted"


def test_limits_permit_what_was_there_wherever_it_moves_and_only_go_down(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    limits = tmp_path / "scripts" / "prose-limits.json"
    limits.write_text(json.dumps({"policies": {"name": 2}}))
    command = ["--root", str(tmp_path), "--quiet"]
    _plant(tmp_path, {"policies/a.py": "OFTEN = 1\nMOST = 2\n"})
    assert check_prose.main(command) == 0

    (tmp_path / "simulator").mkdir()
    (tmp_path / "policies" / "a.py").rename(tmp_path / "simulator" / "a.py")
    assert check_prose.main(command) == 0

    _plant(tmp_path, {"simulator/a.py": "OFTEN = 1\nMOST = 2\nLOOK = 3\n"})
    assert check_prose.main(command) == 1
    assert check_prose.main([*command, "--lower"]) == 1
    assert json.loads(limits.read_text()) == {"policies": {"name": 2}}

    _plant(tmp_path, {"simulator/a.py": "OFTEN = 1\n"})
    assert check_prose.main([*command, "--lower"]) == 0
    assert json.loads(limits.read_text()) == {"simulator": {"name": 1}}

    _plant(tmp_path, {"simulator/a.py": ""})
    assert check_prose.main([*command, "--lower"]) == 0
    assert not limits.exists()


def test_the_summary_counts_by_folder_and_reports_comments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _plant(tmp_path, {"maintenance/query/deep/a.py": "OFTEN = 1  # a unit\n# a reason\n" + "\n" * 98})
    assert check_prose.main(["--root", str(tmp_path), "--summary"]) == 0
    head, row, _ = capsys.readouterr().out.splitlines()
    cells = dict(zip(head.split(), row.split(), strict=True))
    assert (cells["folder"], cells["lines"], cells["name"]) == ("maintenance/query", "100", "1")
    assert cells["comments/1000"] == "20.0"


def test_cycles_between_packages_are_found_at_every_depth(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sources = {
        "maintenance/query/a/one.py": "from freshkeeper.maintenance.query.b.two import x\n",
        "maintenance/query/b/two.py": "def f() -> None:\n    from freshkeeper.maintenance.query.a import one\n",
        "maintenance/view/three.py": "from freshkeeper.maintenance.query.a import one\n",
    }
    _plant(tmp_path, sources)
    assert check_prose.main(["--root", str(tmp_path), "--cycles"]) == 1
    assert capsys.readouterr().out == "maintenance.query: a, b import each other\n"


def test_the_sample_is_drawn_with_the_hash_of_the_commit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = "".join(
        f'def f{n}() -> None:\n    """Close {n}."""\n    raise ValueError("no {n}")  # why {n}\n' for n in range(9)
    )
    _plant(tmp_path, {"policies/a.py": source})
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "commit", "--quiet", "--allow-empty", "--message", "a"], check=True)
    outputs = []
    for _ in range(2):
        assert check_prose.main(["--root", str(tmp_path), "--sample", "3"]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]
    assert [line.split(",")[0] for line in outputs[0].splitlines() if " of 9 " in line] == [
        "3 of 9 docstrings",
        "3 of 9 messages",
        "3 of 9 comments",
    ]
