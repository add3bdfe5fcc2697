"""Every command and every program in README and docs runs as it is written."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import jupytext
import pytest
from commands import commands

from freshkeeper.simulator.experiment.experiment import simulate
from freshkeeper.simulator.experiment.experiment_config import load

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(python|sh)(?: file=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(document: Path) -> list[tuple[str, str, str]]:
    return BLOCK.findall(document.read_text())


@pytest.mark.slow
@pytest.mark.parametrize("document", [d for d in DOCUMENTS if blocks(d)], ids=lambda d: d.name)
def test_what_a_document_shows_runs(document: Path, tmp_path: Path) -> None:
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    for kind, file, text in blocks(document):
        if kind == "python":
            program = tmp_path / (file or "example.py")
            program.write_text(text)
            if not file:
                run(["python", str(program)], tmp_path)
            continue
        for line in text.replace("\\\n", " ").splitlines():
            if line.strip().startswith("make "):
                assert re.search(rf"^{line.split()[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE), line
            elif line.strip():
                run(["bash", "-c", line], tmp_path)


@pytest.mark.slow
def test_what_documents_show_in_python_is_typed_as_strictly_as_we_are(tmp_path: Path) -> None:
    for document in DOCUMENTS:
        programs = [(file, text) for kind, file, text in blocks(document) if kind == "python"]
        for number, (file, text) in enumerate(programs, 1):
            (tmp_path / (file or f"{document.stem.replace('-', '_')}_{number}.py")).write_text(text)
    command = [sys.executable, "-m", "mypy", "--strict", *sorted(file.name for file in tmp_path.glob("*.py"))]
    found = {
        **os.environ,
        "MYPYPATH": f"{ROOT}:{ROOT / 'typings'}",
        "MYPY_CACHE_DIR": str(ROOT / ".mypy_cache" / "documents"),
    }
    said = subprocess.run(command, cwd=tmp_path, env=found, capture_output=True, text=True, timeout=300).stdout
    assert said.startswith("Success: no issues found in"), said


def run(command: list[str], place: Path, **more: str) -> None:
    """In a shell that finds `freshkeeper` and `python`, forked from one process that has imported everything."""
    path = os.pathsep.join([str(commands()), str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(place), "COLUMNS": "120", **more}
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, f"{command[-1]}\n{done.stdout}\n{done.stderr}"


def test_links_between_documents_lead_somewhere() -> None:
    for document in DOCUMENTS:
        for target in re.findall(r"\]\((?!http)([^)#]+)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"


def test_the_map_names_files_that_exist() -> None:
    for name in re.findall(r"(?:maintenance|policies|simulator)/[\w/]*\w+\.py", (ROOT / "README.md").read_text()):
        assert (ROOT / name).exists(), name


def test_every_file_that_the_map_speaks_of_is_there() -> None:
    packages = [ROOT / name for name in ("freshkeeper", "policies", "maintenance", "simulator")]
    there = {file.name for package in packages for file in package.rglob("*")}
    named = re.findall(r"`(?:[\w/]+/)?(\w+\.(?:py|js))`", (ROOT / "docs" / "map.md").read_text())
    assert len(named) > 100
    assert {*named} <= there


def test_what_the_map_says_to_read_in_a_file_is_in_it() -> None:
    rows = re.findall(r"^\|.*\]\(\.\./(\S+\.py)\) \| (.*) \|$", (ROOT / "docs" / "map.md").read_text(), re.MULTILINE)
    assert len(rows) >= 10
    for file, words in rows:
        named = [each for each in re.findall(r"`([\w.]+)`", words.partition(";")[0]) if not each.endswith(".py")]
        text = (ROOT / file).read_text()
        assert all(part in text for each in named for part in each.split(".")), f"{file}: {named}"


@pytest.mark.slow
def test_the_picture_of_the_graph_is_drawn(tmp_path: Path) -> None:
    run(["python", str(ROOT / "docs" / "draw_graph.py"), str(tmp_path / "graph.png")], ROOT)
    assert (tmp_path / "graph.png").stat().st_size > 5_000


@pytest.mark.slow
@pytest.mark.parametrize("notebook", sorted((ROOT / "notebooks").glob("0[!3]*.py")), ids=lambda path: path.stem)
def test_notebooks_run_from_top_to_bottom(notebook: Path, tmp_path: Path) -> None:
    """What the figures show is simulated briefly, but for one figure, which the notebook simulates itself."""
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    if "figures" in notebook.name:
        for config in (ROOT / "configs").glob("fig*.yaml"):
            if config.stem != "fig2d":
                simulate(
                    load(config, {"seeds": 1, "evaluations": 20, "bound": "never"}), tmp_path / "runs" / config.stem
                )
    program = tmp_path / notebook.name
    program.write_text(notebook.read_text().replace('runs = ""', 'runs = "runs"'))
    run(["python", str(program)], tmp_path)


@pytest.mark.parametrize("notebook", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem)
def test_kept_notebooks_are_those_that_run_and_have_their_outputs(notebook: Path) -> None:
    """`scripts/run-notebooks` makes them."""
    kept = json.loads(notebook.read_text())["cells"]
    paired = jupytext.read(notebook.with_suffix(".py")).cells
    assert ["".join(cell["source"]) for cell in kept] == [cell.source for cell in paired]
    assert all(cell["execution_count"] for cell in kept if cell["cell_type"] == "code")
    assert any(cell.get("outputs") for cell in kept)
    assert notebook.stat().st_size < 300_000
