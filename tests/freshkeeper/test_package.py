"""One installed package: nothing of ours under other names, little to install, types for those who check them."""

import os
import re
import subprocess
import sys
from pathlib import Path
from subprocess import CompletedProcess

import pytest

ROOT = Path(__file__).resolve().parents[2]
OLD = ("maintenance", "policies", "simulator")
README_EXAMPLE = re.search(r"## Embed it\n.*?```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
EXTRAS = (
    "altair", "highspy", "jinja2", "markupsafe", "networkx", "pandas", "prometheus_client", "pulp", "pyarrow",
    "pydantic", "pyoxigraph", "pyspark", "simpy", "SPARQLWrapper", "vl_convert", "yaml",
)  # fmt: skip


def python(
    program: str, place: Path, *, check: bool = True, executable: str | Path = sys.executable
) -> CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return subprocess.run(
        [executable, "-c", program], cwd=place, env=environment, capture_output=True, text=True, check=check
    )


@pytest.mark.slow
def test_nothing_of_ours_is_loaded_under_its_folders_name(tmp_path: Path) -> None:
    program = (
        "import pkgutil, importlib, sys, freshkeeper\n"
        "for found in pkgutil.walk_packages(freshkeeper.__path__, 'freshkeeper.'):\n"
        "    if not found.name.endswith('__main__'): importlib.import_module(found.name)\n"
        "from freshkeeper.policies import registry; registry.available()\n"
        f"print([name for name in sys.modules if name.partition('.')[0] in {OLD}], len(sys.modules))"
    )
    said = python(program, tmp_path).stdout
    assert said.startswith("[] ")


def test_no_text_names_a_module_of_ours_by_its_folder() -> None:
    strings = re.compile(
        rf"[\"'](?:{'|'.join(OLD)})(?:\.\w+)+:\w+|^\s*(?:from|import) (?:{'|'.join(OLD)})\b", re.MULTILINE
    )
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    texts = [ROOT / name for name in listed if name.endswith((".py", ".md", ".toml", ".yaml", ".ipynb"))]
    assert {
        str(file): found for file in texts if file.is_file() and (found := strings.findall(file.read_text("utf-8")))
    } == {}


@pytest.mark.slow
def test_modules_of_the_users_own_are_not_in_the_way(tmp_path: Path) -> None:
    for name in OLD:
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong module')")
    assert README_EXAMPLE is not None
    (tmp_path / "mine.py").write_text(README_EXAMPLE[1])
    done = subprocess.run([sys.executable, "mine.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "fresh with probability" in done.stdout


@pytest.mark.slow
def test_the_embedded_manager_needs_none_of_the_extras(tmp_path: Path) -> None:
    assert README_EXAMPLE is not None
    blocked = f"import sys\nfor name in {EXTRAS}: sys.modules[name] = None\n"
    assert "fresh with probability" in python(blocked + README_EXAMPLE[1], tmp_path).stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "library", "extra"),
    [
        ("continuous_query", "pyoxigraph", "rdf"),
        ("load_source", "pydantic", "run"),
        ("to_networkx", "networkx", "graph"),
    ],
)
def test_a_name_whose_extra_is_missing_says_what_to_install(
    name: str, library: str, extra: str, tmp_path: Path
) -> None:
    program = (
        "import sys\n"
        "class Gone:\n"
        f"    def find_spec(self, name, *_):\n        if name == {library!r}: raise ModuleNotFoundError(name=name)\n"
        "sys.meta_path.insert(0, Gone())\nimport freshkeeper\n"
        f"try: freshkeeper.{name}\nexcept freshkeeper.FreshkeeperError as error: print(error)"
    )
    said = python(program, tmp_path).stdout.strip()
    assert said == f"{name} needs {library}, which is not installed: pip install 'freshkeeper[{extra}]'"


def test_importing_costs_little(tmp_path: Path) -> None:
    """CPU time of an import beside numpy's in the same minute, the best of five each."""

    def cost(what: str) -> float:
        program = f"import time; begin = time.process_time(); import {what}; print(time.process_time() - begin)"
        return min(float(python(program, tmp_path).stdout) for _ in range(5))

    assert cost("freshkeeper") <= 2.5 * cost("numpy")


def test_help_loads_neither_numpy_nor_what_experiments_need(tmp_path: Path) -> None:
    program = "import sys; import freshkeeper.__main__; print(*sorted({n.split('.')[0] for n in sys.modules}))"
    loaded = set(python(program, tmp_path).stdout.split())
    assert not loaded & {"numpy", "scipy", "numba", "pydantic", "pyarrow", "pyoxigraph"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a new environment in which the wheel that is made of the sdist is installed, far from the tree."""
    place = tmp_path_factory.mktemp("installed")
    build = [sys.executable, "-m", "hatchling", "build", "-d", str(place)]
    subprocess.run([*build, "-t", "sdist"], cwd=ROOT, check=True, capture_output=True)
    subprocess.run(["tar", "xzf", *place.glob("*.tar.gz")], cwd=place, check=True)
    (unpacked,) = (found for found in place.iterdir() if found.is_dir())
    subprocess.run([*build, "-t", "wheel"], cwd=unpacked, check=True, capture_output=True)
    (wheel,) = place.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place / "venv")], check=True)
    new = place / "venv" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(new), "--disable-pip-version-check"]
    install = [*pip, "install", "--quiet", "--no-compile"]
    versions = re.findall(r"^[\w.-]+==[\w.]+", (ROOT / "constraints.txt").read_text("utf-8"), re.MULTILINE)
    (place / "versions.txt").write_text("\n".join(versions))  # without check sums, as the wheel has none
    subprocess.run([*install, "--constraint", "versions.txt", str(wheel)], cwd=place, check=True)
    return new


@pytest.mark.slow
def test_the_wheel_of_the_sdist_works_alone_in_a_new_environment(installed: Path, tmp_path: Path) -> None:
    assert README_EXAMPLE is not None
    assert "fresh with probability" in python(README_EXAMPLE[1], tmp_path, executable=installed).stdout
    command = [str(installed.with_name("freshkeeper"))]
    told = subprocess.run(
        [*command, "config", "show", "fig2a"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert told.stdout == (ROOT / "configs" / "fig2a.yaml").read_text("utf-8")
    wanting = subprocess.run([*command, "simulate", "fig2a"], cwd=tmp_path, capture_output=True, text=True)
    assert wanting.returncode == 2
    assert re.fullmatch(
        r"freshkeeper: freshkeeper simulate needs \w+, which is not installed: pip install 'freshkeeper\[report\]'\n",
        wanting.stderr,
    )


@pytest.mark.slow
def test_strict_mypy_sees_our_types_in_a_users_file(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from freshkeeper import BudgetRule, InMemory, Learned, Manager, policy, WindowSpec\n"
        "def fetch(keys: list[str]) -> dict[str, int]: return {key: len(key) for key in keys}\n"
        "Manager(WindowSpec('4s', '1s'), fetch, 'gain', 2, Learned())\n"
        "Manager(WindowSpec(4000, 1000), fetch, policy('gain'), BudgetRule.of(0.5), Learned(), target=0.9)\n"
        "reveal_type(WindowSpec(4000, 1000).range)\n"
        "reveal_type(policy('gain').name)\n"
        "InMemory(5)\n"
    )
    assert README_EXAMPLE is not None
    (tmp_path / "readme.py").write_text(README_EXAMPLE[1])
    files = ["mine.py", "readme.py"]
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", str(installed), *files]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).stdout
    assert 'Revealed type is "int"' in said
    assert 'Revealed type is "str"' in said
    assert 'Argument 1 to "InMemory" has incompatible type "int"' in said or "Missing positional argument" in said
    assert "incompatible type" not in said.replace('Argument 1 to "InMemory" has incompatible type "int"', "")
    assert "readme.py" not in said
    assert "import-untyped" not in said
    assert "import-not-found" not in said
