"""One installed package: nothing of ours under other names, little to install, types for those who check them."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from subprocess import CompletedProcess

import pytest

import freshkeeper
from freshkeeper.__main__ import COMMANDS
from freshkeeper.maintenance.base import errors

ROOT = Path(__file__).resolve().parents[2]
OLD = ("maintenance", "policies", "simulator")
README_EXAMPLE = re.search(r"## Embed it\n.*?```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)


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


LIVE = "from freshkeeper.maintenance.streams.live"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("use", "who", "library", "extra"),
    [
        ("import freshkeeper; freshkeeper.Manager", "Manager", "numba", "manager"),
        ("import freshkeeper; freshkeeper.to_networkx", "to_networkx", "networkx", "graph"),
        ("import freshkeeper; freshkeeper.parse_query", "parse_query", "pyoxigraph", "rdf"),
        ("import freshkeeper; freshkeeper.load_source", "load_source", "pydantic", "run"),
        ("import freshkeeper; freshkeeper.enrich_windows", "enrich_windows", "pyarrow", "spark"),
        (
            f"{LIVE}.kafka import *; KafkaAddress('kafka://a').check()",
            "the stream kafka://a",
            "confluent_kafka",
            "kafka",
        ),
        (f"{LIVE}.redis_stream import *; RedisAddress('redis://a').check()", "the stream redis://a", "redis", "redis"),
        (f"{LIVE}.websocket import *; SocketAddress('ws://a').check()", "the stream ws://a", "websockets", "serve"),
        ("from freshkeeper.maintenance.observe.traces import *; Traces('')", "traces", "opentelemetry", "telemetry"),
    ],
)
def test_what_needs_an_extra_names_it_in_one_line(use: str, who: str, library: str, extra: str, tmp_path: Path) -> None:
    program = (
        f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        "class Gone:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name.partition('.')[0] == {library!r}: raise ModuleNotFoundError(name=name)\n"
        "sys.meta_path.insert(0, Gone())\n"
        f"try:\n    {use}\nexcept Exception as error: print(error)"
    )
    said = python(program, tmp_path).stdout
    assert said == f'{who} needs {library}, which is not installed: pip install "freshkeeper[{extra}]"\n'


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


def test_extras_that_messages_name_are_there() -> None:
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    assert {command.extra for command in COMMANDS.values()} | set(freshkeeper.EXTRAS.values()) <= extras
    assert set(errors.EXTRAS.values()) <= extras


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that is made of the sdist."""
    place = tmp_path_factory.mktemp("built")
    build = [sys.executable, "-m", "hatchling", "build", "-d", str(place)]
    subprocess.run([*build, "-t", "sdist"], cwd=ROOT, check=True, capture_output=True)
    subprocess.run(["tar", "xzf", *place.glob("*.tar.gz")], cwd=place, check=True)
    (unpacked,) = (found for found in place.iterdir() if found.is_dir())
    subprocess.run([*build, "-t", "wheel"], cwd=unpacked, check=True, capture_output=True)
    (wheel,) = place.glob("*.whl")
    return wheel


def install(place: Path, wheel: str, *options: str) -> Path:
    """Make a new environment, far from the tree; return its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place / "venv")], check=True)
    new = place / "venv" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(new), "--disable-pip-version-check", "install", "--quiet"]
    versions = re.findall(r"^[\w.-]+==[\w.]+", (ROOT / "constraints.txt").read_text("utf-8"), re.MULTILINE)
    (place / "versions.txt").write_text("\n".join(versions))  # without check sums, as the wheel has none
    subprocess.run([*pip, *options, "--constraint", "versions.txt", wheel], cwd=place, check=True)
    return new


@pytest.fixture(scope="module")
def core(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a new environment after `pip install freshkeeper`."""
    return install(tmp_path_factory.mktemp("core"), str(wheel))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a new environment after `pip install "freshkeeper[manager]"`."""
    return install(tmp_path_factory.mktemp("installed"), f"{wheel}[manager]", "--no-compile")


CORE_NAMES = {
    "AsyncEnricher", "CachedRow", "Closure", "Copy", "Delivery", "Endpoint", "Enricher", "Expanded", "Fetched",
    "FreshkeeperError", "HttpLookup", "InMemory", "Order", "Price", "RedisLookup", "Remote", "RetryAfter", "Row",
    "RowError", "SqlChanges", "SqlLookup", "Stats", "__version__", "cached", "enrich_table",
}  # fmt: skip


@pytest.mark.slow
def test_the_core_is_small_and_quick_from_its_first_start(core: Path, tmp_path: Path) -> None:
    """Processor time, as tests run beside others: the example at its first start ever, imports as the best of seven."""
    (packages,) = (core.parents[1] / "lib").glob("python*/site-packages")
    assert sum(file.stat().st_size for file in packages.rglob("*") if file.is_file()) <= 20e6
    example = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert example is not None
    assert "from freshkeeper import Enricher" in example[1]
    before = os.times()
    assert "p1 2 fresh with probability 1.00" in python(example[1], tmp_path, executable=core).stdout
    after = os.times()
    assert after.children_user + after.children_system - before.children_user - before.children_system <= 0.5
    timed = "import time; b = time.process_time(); from freshkeeper import Enricher; print(time.process_time() - b)"
    assert min(float(python(timed, tmp_path, executable=core).stdout) for _ in range(7)) <= 0.06


@pytest.mark.slow
def test_names_beyond_the_core_say_which_extra_brings_them(core: Path, tmp_path: Path) -> None:
    program = (
        "import freshkeeper\n"
        "for name in freshkeeper.__all__:\n"
        "    try: getattr(freshkeeper, name); print(name, '', sep=';')\n"
        "    except freshkeeper.FreshkeeperError as error: print(name, error, sep=';')\n"
    )
    said = dict(line.split(";", 1) for line in python(program, tmp_path, executable=core).stdout.splitlines())
    assert {name for name, error in said.items() if not error} >= CORE_NAMES
    message = re.compile(r'(\w+) needs \w+, which is not installed: pip install "freshkeeper\[(\w+)\]"')
    named = {name: message.fullmatch(error) for name, error in said.items() if error}
    assert all(found and found[1] == name for name, found in named.items())
    extras = {name: found[2] for name, found in named.items() if found}
    assert {extras[name] for name in ("Manager", "policy", "BudgetRule", "Poisson")} == {"manager"}
    assert (extras["continuous_query"], extras["enrich_windows"], extras["to_networkx"]) == ("run", "spark", "graph")


WORDS = {
    "compare": "given given",
    "config init": "new.yaml",
    "config list": "",
    "config schema": "",
    "config show": "fig2a",
    "demo": "",
    "follow": "given --source given",
    "match": "given --stream s=given",
    "notebook list": "",
    "policies": "",
    "sources": "",
}
"""The arguments of commands; `given` for others."""
CORE_COMMANDS = {"sources", "config show"}
EXTENDED_COMMANDS = [name for name in COMMANDS if name != "budget"]  # what that needs depends on its files


@pytest.mark.slow
@pytest.mark.parametrize("name", EXTENDED_COMMANDS)
def test_commands_beyond_the_core_say_which_extra_they_need(name: str, core: Path, tmp_path: Path) -> None:
    command = [str(core.with_name("freshkeeper")), *name.split()]
    (tmp_path / "given").write_text("")
    done = subprocess.run([*command, *WORDS.get(name, "given").split()], cwd=tmp_path, capture_output=True, text=True)
    if name in CORE_COMMANDS:
        assert (done.returncode, done.stderr) == (0, "")
        return
    assert done.returncode == 2
    message = (
        rf'freshkeeper: freshkeeper {name} needs \w+, which is not installed: pip install "freshkeeper\[(\w+)\]"\n'
    )
    found = re.fullmatch(message, done.stderr)
    assert found, done.stderr
    assert found[1] == COMMANDS[name].extra


@pytest.mark.slow
def test_the_wheel_of_the_sdist_works_alone_in_a_new_environment(installed: Path, tmp_path: Path) -> None:
    assert README_EXAMPLE is not None
    assert "fresh with probability" in python(README_EXAMPLE[1], tmp_path, executable=installed).stdout
    command = [str(installed.with_name("freshkeeper"))]
    listed = subprocess.run([*command, "policies"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "plan" in listed.stdout


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
