"""Configs: the ones we ship, defaults that are written down, grids in order, and errors of one line each."""

from pathlib import Path

import pytest
import yaml

from freshkeeper.maintenance.base.errors import ConfigError, UnknownPolicyError, UnknownSettingError
from freshkeeper.simulator.experiment.experiment import runnable
from freshkeeper.simulator.experiment.experiment_config import (
    Experiment,
    load,
    reference,
    resolve,
    settings_of,
    swept_values,
)

CONFIGS = Path(__file__).parents[3] / "configs"
SHIPPED = sorted(
    path.name for path in CONFIGS.glob("*.yaml") if not path.name.startswith(("source-", "run-", "demo", "following"))
)
"""Experiments of policies; sources, runs and experiments about following are tested with what reads them."""


@pytest.mark.parametrize("name", SHIPPED)
def test_every_config_that_we_ship_can_run(name: str) -> None:
    experiment = load(CONFIGS / name)
    chosen = runnable(settings_of(experiment))
    assert chosen
    assert all(chosen.values())


@pytest.mark.parametrize("name", [name for name in SHIPPED if name not in ("reference.yaml",)])
def test_every_config_that_we_ship_has_a_title_and_enough_seeds(name: str) -> None:
    experiment = load(CONFIGS / name)
    assert experiment.title
    assert len(experiment.seed_list) >= 30


def test_the_reference_has_every_key_with_its_default_and_a_comment() -> None:
    written = (CONFIGS / "reference.yaml").read_text()
    assert written == reference()
    assert load(CONFIGS / "reference.yaml") == Experiment()
    lines = written.splitlines()
    keys = [n for n, line in enumerate(lines) if line and not line.lstrip().startswith("#")]
    assert all(lines[n - 1].lstrip().startswith("# ") for n in keys)
    plain = yaml.safe_load(written)
    assert set(plain) == set(Experiment.model_fields)


def test_the_defaults_are_those_of_the_paper() -> None:
    plain = Experiment()
    workload = plain.workload
    assert (workload.sns, workload.srs, workload.edges) == (50, 50, 1000)
    assert (workload.change_interval_ms, workload.arrival_interval_ms) == ((100, 3000), (1000, 2000))
    assert (plain.window, plain.step, plain.budget, plain.bank, plain.warm_up) == (4000, 1000, 10, 0, 0.1)
    assert [policy.title for policy in plain.policies] == ["random", "lru", "sbm", "ibm"]


def names(**keys: object) -> list[str]:
    return [setting.name for setting in settings_of(resolve(keys))]


def test_a_grid_is_gone_through_in_its_order_the_last_key_fastest() -> None:
    assert names() == ["default"]
    assert names(sweep={"case": ["bgp", "aggregate"], "budget": [5, 10], "bank": [0, "window"]}) == [
        f"case={case},budget={budget},bank={bank}"
        for case in ("bgp", "aggregate")
        for budget in (5, 10)
        for bank in (0, "window")
    ]
    assert names(sweep={"workload.edges": [500, 1000], "window": ["4s", "8s"], "budget": [2.5, 3]}) == [
        f"edges={edges},window={window},budget={budget}"
        for edges in (500, 1000)
        for window in ("4s", "8s")
        for budget in (2.5, 3)
    ]


def test_names_of_settings_are_readable_and_unique_whatever_is_swept() -> None:
    assert names(sweep={"workload.change_interval_ms": [[100, 3000], [800, 1200]]}) == [
        "change_interval_ms=100-3000",
        "change_interval_ms=800-1200",
    ]
    assert names(sweep={"workload": [{"edges": 5}, {"edges": 6, "degree_skew": 0.5}], "answers": [True, False]}) == [
        "workload=edges:5,answers=true",
        "workload=edges:5,answers=false",
        "workload=edges:6+degree_skew:0.5,answers=true",
        "workload=edges:6+degree_skew:0.5,answers=false",
    ]
    assert names(sweep={"warm_up": [0.1234567, 0.1234568]}) == ["warm_up=0.1234567", "warm_up=0.1234568"]
    assert names(sweep={"policies": [["lru"], [{"name": "fba", "literal": True}]]}) == [
        "policies=lru",
        "policies=name:fba+literal:true",
    ]


def test_a_swept_value_reaches_its_setting_and_no_other() -> None:
    made = settings_of(resolve({"sweep": {"workload.edges": [5, 7], "remote.latency_ms": [0, 3.5], "budget": [1, 2]}}))
    found = [(s.experiment.workload.edges, s.experiment.remote.latency_ms, float(s.rule.per_evaluation)) for s in made]
    assert found == [(edges, latency, budget) for edges in (5, 7) for latency in (0, 3.5) for budget in (1, 2)]
    assert [setting.varied for setting in made][1] == {"workload.edges": 5, "remote.latency_ms": 0, "budget": 2}


def test_a_bank_of_a_window_holds_the_budget_of_one() -> None:
    grid = {"budget": [2.5, 4], "bank": ["window", 7]}
    made = settings_of(resolve({"sweep": grid, "window": "PT4S", "step": "1500ms"}))
    assert [float(setting.rule.bank) for setting in made] == [7.5, 7, 12, 7]


@pytest.mark.parametrize(
    ("written", "values"),
    [
        ("5,10", [5, 10]),
        ("5..30 by 10", [5, 15, 25]),
        ("1..64 times 4", [1, 4, 16, 64]),
        ("0.1..0.3 by 0.1", [0.1, 0.2, 0.3]),
        ("1..4", [1, 2, 3, 4]),
        ([1, 2, "10..30 by 10"], [1, 2, 10, 20, 30]),
        ("1h..3h by 1h", ["1h", "2h", "3h"]),
        ("500ms..2s times 2", ["500ms", "1s", "2s"]),
        ("exact, learned", ["exact", "learned"]),
    ],
)
def test_a_sweep_takes_lists_and_ranges(written: object, values: list[object]) -> None:
    assert swept_values(written) == values


def test_a_grid_of_a_list_where_one_value_belongs_says_where_it_belongs_now() -> None:
    with pytest.raises(
        ConfigError, match=r"^budget: it takes one value; a grid is declared as sweep: \{budget: \[5, 10\]\}$"
    ):
        resolve({"budget": [5, 10]})
    with pytest.raises(ConfigError, match=r"sweep: \{knowledge: \[exact,learned\]\}"):
        resolve({"knowledge": "exact,learned"})


def test_durations_are_written_as_people_do() -> None:
    for written in ("4s", "PT4S", "4000ms", 4000, "4000"):
        assert resolve({"window": written}).window == 4000


def test_keys_are_changed_from_outside_and_a_trace_takes_the_place_of_a_workload(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("workload: {edges: 7, sns: 8}\nbudget: 3\n")
    changed = load(file, {"workload.edges": 9, "sweep": {"budget": [1, 2]}})
    assert (changed.workload.edges, changed.workload.sns, changed.sweep) == (9, 8, {"budget": [1, 2]})
    assert load(file, {"trace": "somewhere"}).trace == Path("somewhere")
    file.write_text("trace: recorded\n")
    assert load(file).trace == tmp_path / "recorded"
    file.write_text("sweep: {trace: [one, /two]}\n")
    assert [each.experiment.trace for each in settings_of(load(file))] == [tmp_path / "one", Path("/two")]


def test_a_key_is_swept_or_has_one_value(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("sweep: {budget: [5, 10], window: [4s, 8s]}\n")
    assert load(file, {"budget": 3}).sweep == {"window": ["4s", "8s"]}
    assert load(file, {"sweep": {"budget": "1..3"}}).sweep == {"budget": [1, 2, 3], "window": ["4s", "8s"]}
    with pytest.raises(ConfigError, match=r"budget and sweep\.budget are both given; leave one of them out"):
        load(file, {"budget": 3, "sweep": {"budget": [1, 2]}})
    file.write_text("budget: 3\nsweep: {budget: [5, 10]}\n")
    with pytest.raises(ConfigError, match=r"budget and sweep\.budget are both given; leave one of them out"):
        load(file)
    with pytest.raises(ConfigError, match=r"workload\.edges and sweep\.workload are both given"):
        resolve({}, {"workload.edges": 5, "sweep": {"workload": [{"edges": 6}]}})


WRONG: dict[str, tuple[dict[object, object], str]] = {
    "a number at the top": ({5: "lru"}, "5: keys should be strings, not 5"),
    "a typo at the top": ({"polices": "lru"}, "there is no key 'polices'; did you mean 'policies'?"),
    "a typo in the workload": (
        {"workload": {"edgse": 5}},
        "there is no key 'workload.edgse'; did you mean 'edges'?",
    ),
    "a typo in the remote": (
        {"remote": {"latency": 5}},
        "there is no key 'remote.latency'; did you mean 'latency_ms'?",
    ),
    "a typo in a sweep": (
        {"sweep": {"workload.edgse": [5]}},
        "there is no key 'workload.edgse'; did you mean 'edges'?",
    ),
    "a key of the workload at the top": ({"edges": 5}, "there is no key 'edges'; did you mean 'workload.edges'?"),
    "a key like one elsewhere": ({"latency": 5}, "there is no key 'latency'; did you mean 'remote.latency_ms'?"),
    "a word for a number": ({"workload": {"edges": "many"}}, "workload.edges: it must be a valid integer, not 'many'"),
    "a number for a mapping": ({"workload": 5}, "workload: it must have keys of its own, not 5"),
    "a word in a list": (
        {"workload": {"change_interval_ms": [5, "x"]}},
        "workload.change_interval_ms.1: it must be a valid integer, not 'x'",
    ),
    "too short a list": (
        {"workload": {"change_interval_ms": [5]}},
        "workload.change_interval_ms: it has too few values",
    ),
    "a range upside down": (
        {"workload": {"change_interval_ms": [5, 2]}},
        "workload: change_interval_ms is [5, 2]; the least comes first",
    ),
    "more edges than there are": (
        {"workload": {"edges": 2600}},
        "workload: edges is 2600; 50 × 50 distinct edges are all that there are",
    ),
    "a negative budget": ({"budget": -5}, "budget: it must be greater than or equal to 0, not -5"),
    "a negative budget among others": (
        {"sweep": {"budget": [5, -5]}},
        "budget: it must be greater than or equal to 0, not -5",
    ),
    "a range that never ends": (
        {"sweep": {"budget": "5..10 by 0"}},
        "sweep.budget: 5..10 by 0 is no range; write it as 5..30 by 5, or 1..64 times 2",
    ),
    "a range backwards": (
        {"sweep": {"budget": "10..5"}},
        "sweep.budget: 10..5 is no range; write it as 5..30 by 5, or 1..64 times 2",
    ),
    "a range of too many": (
        {"sweep": {"budget": "1..1000000"}},
        "sweep.budget: 1..1000000 has more than 10,000 values; give it a larger step",
    ),
    "a bank that is none": ({"bank": "swiss"}, "bank: it must be a valid number, not 'swiss'"),
    "a case that is none": ({"case": "bgq"}, "case: it must be 'bgp' or 'aggregate', not 'bgq'"),
    "a level that is none": (
        {"knowledge": "some"},
        "knowledge: it must be 'exact', 'published', 'rates' or 'learned', not 'some'",
    ),
    "a start that is none": ({"start": "hot"}, "start: it must be 'warm' or 'cold', not 'hot'"),
    "no unit of time": ({"window": "4q"}, "window: q in 4q is no unit of time: there are ms, s, m, h, d, w"),
    "a window of nothing": ({"window": 0}, "window: it must be greater than or equal to 1, not 0"),
    "a negative duration": ({"step": "-4s"}, "step: a duration is positive, and -4s is not"),
    "no evaluations": ({"evaluations": 0}, "evaluations: it must be greater than or equal to 1, not 0"),
    "no policies": ({"policies": []}, "policies: it must have at least one value, not []"),
    "a policy without a name": ({"policies": [{"nam": "lru"}]}, "policies.0: name is missing"),
    "a policy twice": (
        {"policies": "lru,lru"},
        "two policies are called 'lru'; give one of them another label",
    ),
    "no seeds": ({"seeds": 0}, "seeds must be a number from 1 to 100,000, or a list of different seeds, not 0"),
    "more seeds than a list can hold": (
        {"seeds": 2**64},
        f"seeds must be a number from 1 to 100,000, or a list of different seeds, not {2**64}",
    ),
    "a seed beyond a journal's column": (
        {"seeds": [2**63]},
        "seeds.0: it must be less than 9223372036854775808, not 9223372036854775808",
    ),
    "a seed twice": (
        {"seeds": [1, 1]},
        "seeds must be a number from 1 to 100,000, or a list of different seeds, not [1, 1]",
    ),
    "a negative seed": ({"seeds": [-1]}, "seeds.0: it must be greater than or equal to 0, not -1"),
    "seeds in words": ({"seeds": "five"}, "seeds: it must be a valid integer, not 'five'"),
    "workload and trace": (
        {"workload": {"edges": 5}, "trace": "somewhere", "evaluations": 5},
        "give a workload or a trace, not both",
    ),
    "a workload swept over a trace": (
        {"trace": "somewhere", "sweep": {"workload.edges": [5]}},
        "give a workload or a trace, not both",
    ),
    "a sweep of one value": ({"sweep": {"budget": 5}}, "sweep.budget: it must be a list, not 5"),
    "a sweep of nothing": ({"sweep": {"budget": []}}, "sweep: budget has no values"),
    "a sweep of seeds": ({"sweep": {"seeds": [1, 2]}}, "sweep: seeds is one for all settings"),
    "a swept value that cannot be": (
        {"sweep": {"workload.edges": [5, -1]}},
        "workload.edges: it must be greater than or equal to 1, not -1",
    ),
    "a sweep into a value": (
        {"sweep": {"budget.more": [5]}, "budget": 5},
        "budget.more: budget has no keys of its own",
    ),
    "a setting twice": (
        {"sweep": {"budget": [5, 5.0]}},
        "two settings are called 'budget=5'; every value of a sweep must differ",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said_in_one_line(tmp_path: Path, name: str) -> None:
    keys, message = WRONG[name]
    file = tmp_path / "wrong.yaml"
    file.write_text(yaml.safe_dump(keys))
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert str(caught.value) == f"{file}: {message}"
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (None, "there is no config {file}; `freshkeeper config list` names those that come with freshkeeper"),
        ("- a\n- b\n", "{file} must hold keys and values, not a list"),
        ("just words", "{file} must hold keys and values, not a str"),
        ("budget: [5\nseeds: }", "{file} is no YAML: "),
        ("budget: \x07", "{file} is no YAML: "),
    ],
)
def test_a_file_that_is_no_config_is_an_error_of_one_line(tmp_path: Path, written: str | None, message: str) -> None:
    file = tmp_path / "odd.yaml"
    if written is not None:
        file.write_text(written)
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert str(caught.value).startswith(message.format(file=file))
    assert "\n" not in str(caught.value)


def test_an_empty_config_is_one_of_defaults(tmp_path: Path) -> None:
    file = tmp_path / "empty.yaml"
    file.write_text("# nothing\n")
    assert load(file) == Experiment()


def test_a_directory_and_bytes_are_no_configs(tmp_path: Path) -> None:
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path, tmp_path / "bytes.yaml"):
        with pytest.raises(ConfigError, match=r"(cannot be read|is no YAML)"):
            load(path)


def test_an_unknown_policy_or_setting_of_one_suggests_the_near_match() -> None:
    with pytest.raises(UnknownPolicyError, match=r"^there is no policy 'imb'; did you mean 'ibm'\?$"):
        runnable(settings_of(resolve({"policies": "lru,imb"})))
    with pytest.raises(
        UnknownSettingError, match=r"^the policy 'fba' has no setting 'litral'; did you mean 'literal'\?"
    ):
        runnable(settings_of(resolve({"policies": [{"name": "fba", "litral": True}]})))
    with pytest.raises(UnknownSettingError, match=r"^the policy 'lru' has no setting 'speed'; it has no settings$"):
        runnable(settings_of(resolve({"policies": [{"name": "lru", "speed": 5}]})))
