"""Policies by name: ours, those of plug-ins through real entry points, and what is said of names that are not there."""

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import MISSING, dataclass
from typing import Any, Literal

import pytest
from commands import freshkeeper

from freshkeeper.commands.policies import policies
from freshkeeper.maintenance.base.arrays import Floats
from freshkeeper.maintenance.base.errors import ConfigError, UnknownPolicyError
from freshkeeper.maintenance.base.validation import validated
from freshkeeper.maintenance.cache.cache_settings import CacheSettings
from freshkeeper.policies import registry
from freshkeeper.policies.base import Case, Round
from freshkeeper.policies.gain import Gain
from freshkeeper.policies.ibm import Ibm
from freshkeeper.policies.lru import Lru
from freshkeeper.policies.ranked import Ranked
from freshkeeper.simulator.experiment.experiment_config import resolve

GOOD = '''
"""newest: the youngest copies first. Somebody else's."""
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from freshkeeper import BasePolicy, Selection
from freshkeeper.policies.base import Trait


@dataclass(frozen=True)
class Newest(BasePolicy):
    name: ClassVar[str] = "newest"
    waives = frozenset({Trait.STALER_FIRST})
    most: int = 3
    eager: bool = True

    def select(self, round, budget, rng):
        stale = np.flatnonzero(round.stale_candidates)
        newest = stale[np.argsort(-round.last_refresh[stale], kind="stable")][: self.most]
        chosen = newest[np.cumsum(round.cost[newest]) <= budget.available]
        return Selection(chosen.astype(np.int32), np.ones(chosen.size))


class Unfit:
    name = "unfit"


class Odd(Newest):
    cases = None
'''
SILENT = """
from freshkeeper import BasePolicy

class Silent(BasePolicy):
    name = "silent"
    __doc__ = None

    def select(self, round, budget, rng): ...
"""
ENTRY_POINTS = """
[freshkeeper.policies]
newest = theirs:Newest
unfit = theirs:Unfit
odd = theirs:Odd
silent = silent_one:Silent
gone = nowhere_at_all:Policy
lost = theirs:Nobody
broken = broken_one:Policy
leaving = leaving_one:Policy
lru = theirs:Newest
clairvoyant = theirs:Newest
"""


@pytest.fixture(scope="module")
def plugged(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The command, in a process that has the plug-ins installed."""
    site = tmp_path_factory.mktemp("site")
    about = site / "theirs-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(ENTRY_POINTS)
    (site / "theirs.py").write_text(GOOD)
    (site / "silent_one.py").write_text(SILENT)
    (site / "broken_one.py").write_text("raise RuntimeError('no licence\\nfound')\n")
    (site / "leaving_one.py").write_text("raise SystemExit(7)\n")
    here = tmp_path_factory.mktemp("here")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return freshkeeper(here, *arguments, environment={**os.environ, "PYTHONPATH": str(site)})

    return run


@pytest.mark.slow
def test_a_plug_in_is_listed_and_a_broken_one_with_its_error(
    plugged: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    done = plugged("policies", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    listed = {entry["name"]: entry for entry in json.loads(done.stdout)}
    assert list(listed)[: len(registry.BUILTIN)] == list(registry.BUILTIN)
    assert listed["newest"] == {
        "name": "newest",
        "cases": "aggregate, bgp",
        "knowledge": "exact, learned, published, rates",
        "settings": "most=3, eager=true",
        "about": "the youngest copies first. Somebody else's.",
    }
    assert {name: entry["error"] for name, entry in listed.items() if "error" in entry} == {
        "broken": "the policy 'broken_one:Policy' did not load: RuntimeError: no licence found",
        "gone": "the policy 'nowhere_at_all:Policy' did not load: "
        "ModuleNotFoundError: No module named 'nowhere_at_all'",
        "leaving": "the policy 'leaving_one:Policy' did not load: SystemExit: 7",
        "lost": "the policy 'theirs:Nobody' did not load: AttributeError: module 'theirs' has no attribute 'Nobody'",
        "odd": "the policy 'odd' declares no sets of cases and knowledge: 'NoneType' object is not iterable",
        "unfit": "'theirs:Unfit' is not a policy class: it lacks cases, knowledge, is_bound, scope, "
        "keeps_budget, reach, select",
    }
    assert listed["silent"]["cases"] == "aggregate, bgp"
    assert "longest ago" in listed["lru"]["about"]


@pytest.mark.slow
def test_a_plug_in_runs_beside_ours_in_every_process(
    plugged: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    policies = "policies=[lru, newest, {name: newest, most: 1}]"
    done = plugged(
        "simulate", "--set", policies, "--evaluations", "6", "--seeds", "2", "--jobs", "2", "--no-report", "--json"
    )
    assert done.returncode == 0, done.stderr
    requests = {row["policy"]: row["requests_per_evaluation"] for row in json.loads(done.stdout)["rows"]}
    assert requests == {"lru": 10, "newest": 3, "newest(most=1)": 1}


@pytest.mark.slow
def test_a_broken_plug_in_is_fatal_only_to_who_asks_for_it(
    plugged: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    done = plugged("simulate", "--policy", "lru,broken")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == ("freshkeeper: the policy 'broken_one:Policy' did not load: RuntimeError: no licence found\n")
    done = plugged("policies", "--check", "newest")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("newest keeps the contract on ")


def test_every_name_of_ours_loads() -> None:
    assert set(registry.BUILTIN) <= set(registry.available())
    for name in registry.BUILTIN:
        policy = registry.make(name)
        assert policy.name == name
        assert isinstance(registry.try_load(name), type)


def test_a_class_can_be_named_by_its_module() -> None:
    assert registry.find("freshkeeper.policies.lru:Lru") is Lru
    assert registry.make("freshkeeper.policies.ibm:Ibm", {"weighted": True}) == Ibm(weighted=True)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("imb", "there is no policy 'imb'; did you mean 'ibm'?"),
        ("clairvoyent", "there is no policy 'clairvoyent'; did you mean 'clairvoyant'?"),
        ("xyz", "there is no policy 'xyz'; there are: bundle, clairvoyant, "),
        ("", "there is no policy ''; there are: "),
        (":", "the policy ':' did not load: ValueError: Empty module name"),
        ("freshkeeper.policies.lru:", "the policy 'freshkeeper.policies.lru:' did not load: AttributeError: "),
        ("freshkeeper.policies.lru:Lrv", "the policy 'freshkeeper.policies.lru:Lrv' did not load: AttributeError: "),
        (
            "freshkeeper.policies.base:NEVER",
            "'freshkeeper.policies.base:NEVER' is not a policy class: it lacks name, cases, ",
        ),
    ],
)
def test_an_unknown_name_is_an_error_of_one_line(name: str, message: str) -> None:
    with pytest.raises(UnknownPolicyError) as caught:
        registry.find(name)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("fba", {"litral": True}, "the policy 'fba' has no setting 'litral'; did you mean 'literal'?"),
        (
            "bundle",
            {"speed": 5},
            "the policy 'bundle' has no setting 'speed'; its settings are expect=true, starts=12, ",
        ),
        ("ttl", {"name": "lru"}, "the policy 'ttl' has no setting 'name'; its settings are ttl_ms=60000"),
        ("lru", {"speed": 5}, "the policy 'lru' has no setting 'speed'; it has no settings"),
        ("sbm", {"name": "ibm"}, "the policy 'sbm' has no setting 'name'; "),
        ("gain", {"windows": "many"}, "the policy 'gain' cannot be made: windows must be a whole number, not 'many'"),
        ("gain", {"windows": True}, "the policy 'gain' cannot be made: windows must be a whole number, not True"),
        ("fba", {"literal": 1}, "the policy 'fba' cannot be made: literal must be true or false, not 1"),
        ("clairvoyant", {"exact_below": 0}, "exact_below is 0; right would be "),
        ("clairvoyant", {"_playback": 5}, "the policy 'clairvoyant' has no setting '_playback'; "),
    ],
)
def test_a_setting_that_cannot_be_is_an_error_that_says_what_would_be_right(
    name: str, settings: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        registry.make(name, settings)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("written", "name", "settings"),
    [
        ("lru", "lru", {}),
        ("bandit(bonus=2, decay=.9)", "bandit", {"bonus": 2, "decay": 0.9}),
        ("mine:Newest( patience = -1 )", "mine:Newest", {"patience": -1}),
        ("a-b(on=true, off=None, way=slow-one, said='x, y)', list=[1, two])", "a-b",
         {"on": True, "off": None, "way": "slow-one", "said": "x, y)", "list": [1, "two"]}),
        ({"name": "bandit", "bonus": 2}, "bandit", {"bonus": 2}),
        ({"name": "bandit(bonus=1, decay=.9)", "bonus": 2}, "bandit", {"bonus": 2, "decay": 0.9}),
    ],
)  # fmt: skip
def test_a_policy_is_written_with_its_settings(written: Any, name: str, settings: dict[str, object]) -> None:
    assert registry.parse(written) == (name, settings)
    assert registry.parse(registry.as_text(written)) == (name, settings)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("gain(2)", "the policy 'gain(2)' cannot be read (each setting needs its name): write it as "),
        ("gain(windows=2", "the policy 'gain(windows=2' cannot be read ('(' was never closed): "),
        ("gain(windows=2, windows=3)", "the policy 'gain(windows=2, windows=3)' has the setting windows twice: "),
        ({"bonus": 2}, "a policy needs a name, as {name: bandit, bonus: 2}, not {'bonus': 2}"),
    ],
)
def test_a_policy_that_cannot_be_read_is_an_error_with_an_example(written: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        registry.make(written)
    assert str(caught.value).startswith(message)


def test_text_mapping_and_keywords_make_the_same_policy() -> None:
    made = [registry.make("gain(windows=2)"), registry.make({"name": "gain", "windows": 2})]
    made += [registry.make("gain", windows=2), registry.make("gain", {"windows": 2})]
    assert made == [Gain(windows=2)] * 4


def test_several_policies_are_separated_by_commas_outside_of_brackets() -> None:
    assert registry.split("lru, gain(windows=2, expect=false),mine:A(b='(,')") == [
        "lru", "gain(windows=2, expect=false)", "mine:A(b='(,')"
    ]  # fmt: skip


@dataclass
class Typed(Ranked):
    """A policy with settings of many types."""

    kind: Literal["fast", "slow"]
    """how it is done"""
    share: float | None = None
    case: Case = Case.BGP
    marks: tuple[str, ...] = ()

    def score(self, round: Round) -> Floats:
        return round.staleness


def test_settings_have_the_types_of_their_annotations() -> None:
    kind, share, case, marks = registry.settings_of(Typed)
    assert (kind.kind, kind.default, kind.about) == ("one of fast, slow", MISSING, "how it is done")
    assert (share.kind, case.kind, marks.kind) == ("a number or null", "one of bgp, aggregate", "a list")
    written = f"{__name__}:Typed(kind=fast, share=1, case=aggregate, marks=[a, b])"
    assert registry.make(written) == Typed("fast", 1, Case.AGGREGATE, ("a", "b"))
    for wrong, said in (("kind=slo", "kind must be one of fast, slow, not 'slo'; its settings are kind, share=null"),
                        ("kind=fast, share=a", "share must be a number or null, not 'a'"),
                        ("share=2", "cannot be made without kind")):  # fmt: skip
        with pytest.raises(ConfigError, match=said):
            registry.make(f"{__name__}:Typed({wrong})")


class OldestFirst(Ranked):
    """Has no name of its own."""


class Youngest(OldestFirst):
    name = "young"


def test_a_policy_without_a_name_is_called_as_its_class() -> None:
    assert (Typed.name, OldestFirst.name, Youngest.name) == ("typed", "oldest-first", "young")


def test_a_config_takes_a_policy_as_text_or_mapping() -> None:
    for written in ("gain(windows=2)", {"name": "gain", "windows": 2}):
        assert validated(CacheSettings, {"policy": written}).policy == "gain(windows=2)"
        assert resolve({"policies": [written, "lru"]}).policies[0].title == "gain(windows=2)"
    assert [one.title for one in resolve({"policies": "lru,gain(windows=2, expect=false)"}).policies] == [
        "lru", "gain(expect=false,windows=2)"
    ]  # fmt: skip
    with pytest.raises(ConfigError, match=r"policy: the policy 'gain\(2\)' cannot be read"):
        validated(CacheSettings, {"policy": "gain(2)"})


def test_one_policy_is_shown_with_its_settings(capsys: pytest.CaptureFixture[str]) -> None:
    policies("gain")
    shown = capsys.readouterr().out
    assert shown.startswith("gain: refresh what gains the most answers")
    assert "windows │ a whole number │ 3       │ windows ahead in which answers count" in shown
