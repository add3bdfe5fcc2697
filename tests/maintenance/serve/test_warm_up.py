"""What has to be compiled or loaded for queries is there before a service says that it serves."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import serving

from freshkeeper.maintenance.serve.warm_up import warm_up, warm_up_if_possible

SCRIPT = """
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from numba.core.dispatcher import Dispatcher

from freshkeeper.maintenance.serve.warm_up import warm_up


def loaded():
    modules = [each for name, each in list(sys.modules.items()) if name.startswith("freshkeeper.") and each]
    kernels = {kernel for each in modules for kernel in vars(each).values() if isinstance(kernel, Dispatcher)}
    return {(one.py_func.__module__, one.__name__): len(one.signatures) for one in kernels if one.signatures}


def elements(second):
    return "".join(
        f"{second * 1000 + n // 4}\\t<{E}p{second}-{n}> <{E}topic> <{E}t{n % 9}> .\\n"
        f"{second * 1000 + n // 4}\\t<{E}p{second}-{n}> <{E}by> <{E}u{n % 7}> .\\n" for n in range(3000)
    )


E, POSTS = "http://example.org/", "http://example.org/posts"
warm = "cold" not in sys.argv
if warm:
    warm_up()
before = loaded()
from serving import REACH, configured, served

COUNTED = '''PREFIX : <http://example.org/> REGISTER ISTREAM :counted AS
SELECT ?user (COUNT(?post) AS ?posts) FROM NAMED WINDOW :w ON :posts [RANGE PT3S STEP PT1S]
{ WINDOW :w { ?post :topic ?topic ; :by ?user } } GROUP BY ?user'''
with TemporaryDirectory() as place, served(configured(Path(place))) as client:
    client.register("reach", REACH)
    client.register("counted", COUNTED)
    for second in range(5):
        assert client.push(elements(second)).status_code == 202
    client.delete("/queries/reach")
print(sorted(name for name, many in loaded().items() if many != before.get(name)))
"""


def newly_loaded(*given: str) -> str:
    command = [sys.executable, "-c", SCRIPT, *given]
    place = str(serving.__file__).rpartition("/")[0]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=place).stdout.strip()


def test_where_there_is_no_room_a_service_says_so_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    warm_up.cache_clear()
    told: list[str] = []
    warm_up_if_possible(told.append)
    warm_up.cache_clear()
    assert len(told) == 1
    assert "the first elements may take seconds: " in told[0]
    assert "No such file or directory" in told[0]


@pytest.mark.slow
def test_queries_load_no_kernel_that_a_warm_service_has_not() -> None:
    assert newly_loaded() == "[]"
    assert "slot_kernels" in newly_loaded("cold")
