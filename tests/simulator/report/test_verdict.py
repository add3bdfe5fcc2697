"""The verdict says who won, by how much, how near to the bound, who overspent, and what budget would do."""

from collections.abc import Callable
from pathlib import Path

from tables import table_of

from freshkeeper.maintenance.journal import journal
from freshkeeper.simulator.experiment import run_directory
from freshkeeper.simulator.experiment.baselines import Baseline, write_baselines
from freshkeeper.simulator.report.groups import groups
from freshkeeper.simulator.report.verdict import GroupVerdict, verdict

Make = Callable[..., Path]


def said(path: Path) -> tuple[GroupVerdict, str]:
    """The verdict of the only group, and all its sentences as plain text."""
    (group,) = groups(run_directory.read_whole(path))
    found = verdict(group)
    sentences = [found.lead, *found.sentences]
    return found, " ".join(sentence.striptags().replace("\N{NO-BREAK SPACE}", " ") for sentence in sentences)


def test_the_winner_comes_first_with_its_lifts_paired_by_seed(make_run: Make) -> None:
    fresh = {"random": [0.2, 0.3], "lru": [0.2, 0.3], "sbm": [0.3, 0.45], "plan": [0.4, 0.6]}
    found, words = said(make_run(fresh))
    assert words.startswith("plan kept 50.0 % ± 127.1 of the answers fresh, the most of 4 policies within the budget.")
    lifts = [(lift.label, lift.text.replace("\N{NO-BREAK SPACE}", " ")) for lift in found.lifts]
    assert lifts == [
        ("over random", "+25.0 points (± 63.5)"),
        ("over lru", "+25.0 points (± 63.5)"),
        ("over sbm", "+12.5 points (± 31.8)"),
    ]


def test_a_difference_that_may_be_chance_is_said_to_be(make_run: Make) -> None:
    assert "a difference that 2 seeds cannot tell from chance" in said(make_run({"a": [0.2, 0.5], "b": [0.3, 0.3]}))[1]
    assert "10.0 points (± 0.0) behind, paired by seed" in said(make_run({"a": [0.2, 0.5], "b": [0.3, 0.6]}, "c"))[1]


def test_one_seed_is_said_to_have_no_intervals(make_run: Make) -> None:
    assert "One seed was run: there are no intervals" in said(make_run({"a": [0.2], "b": [0.3]}))[1]


def test_the_bound_is_a_measure_or_was_left_out_for_a_reason(make_run: Make) -> None:
    words = said(make_run({"a": [0.4], "clairvoyant": [0.5]}))[1]
    assert "That is 80.0 % of what a clairvoyant could do with the same budget (50.0 %)." in words
    left_out = {"bound": {"included": False, "reason": "the run is too large"}}
    assert "is not known: the run is too large." in said(make_run({"a": [0.4]}, "b", extra=left_out))[1]


def test_who_overspent_is_named_and_not_ranked(make_run: Make) -> None:
    words = said(make_run({"ibm": [0.5], "literal": [0.9]}, spent={"literal": 21.0}))[1]
    assert words.startswith("ibm kept 50.0 %")
    assert "literal spent over the budget: up to 21 cost units per evaluation, where 10 are paid." in words


def test_nobody_wins_where_all_overspent_or_nothing_was_asked(make_run: Make) -> None:
    assert "There is no winner" in said(make_run({"a": [0.9]}, spent={"a": 11.0}))[1]
    assert "Nothing was answered" in said(make_run({"a": [None]}, "b"))[1]


def test_the_budget_for_nine_tenths_is_read_off_between_those_that_were_run(make_run: Make) -> None:
    fresh = {"5": {"ibm": [0.8], "lru": [0.2]}, "10": {"ibm": [1.0], "lru": [0.4]}}
    settings = {name: {"varied": {"budget": int(name)}, "budget": int(name)} for name in fresh}
    words = said(make_run(fresh, settings=settings))[1]
    assert "For 90 % fresh, ibm needs about 7.5 cost units per evaluation." in words


def test_a_target_out_of_reach_is_said_with_the_nearest(make_run: Make) -> None:
    fresh = {"5": {"ibm": [0.3]}, "10": {"ibm": [0.5]}}
    settings = {name: {"varied": {"budget": int(name)}, "budget": int(name)} for name in fresh}
    words = said(make_run(fresh, settings=settings))[1]
    assert "No budget that was run brings ibm to 90 % fresh; the nearest is 50.0 % with 10" in words


def test_of_several_settings_the_headline_names_one_and_lifts_have_a_range(make_run: Make) -> None:
    fresh = {"a": {"ibm": [0.9], "lru": [0.3]}, "b": {"ibm": [0.4], "lru": [0.5]}}
    settings = {name: {"varied": {"workload.edges": i}} for i, name in enumerate(fresh)}
    found, words = said(make_run(fresh, settings=settings))
    assert words.startswith("ibm kept 90.0 % of the answers fresh, the most of 2 policies within the budget, ")
    assert "in the setting edges 0. Of the other setting lru leads in 1 with 50.0 %; the table below has each." in words
    assert found.lifts[0].detail == "−10.0 to +60.0 over the settings"


def test_the_settings_keep_the_order_of_the_config(make_run: Make) -> None:
    fresh = {name: {"ibm": [share], "lru": [0.1]} for name, share in (("z", 0.2), ("a", 0.9), ("m", 0.4))}
    settings = {name: {"varied": {"workload.change_law": name}} for name in fresh}
    words = said(make_run(fresh, settings=settings))[1]
    assert "in the setting change law z. Of the 2 other settings ibm leads in 2 with 40.0 % to 90.0 %" in words


def test_a_drawn_workload_has_the_mean_over_evaluations_and_all_else_the_share_of_all_answers(
    make_run: Make, write_table: Make
) -> None:
    """Of 10 answers 1 is fresh, then 2 of 2: 55 % on average, 3 of 12 in all."""
    rows = [{"policy": "ibm", "k": k, "results": n, "fresh": fresh} for k, n, fresh in ((1, 10.0, 1.0), (2, 2.0, 2.0))]
    for name, config, share in (
        ("drawn", {"workload": {"sns": 5}}, "55.0 % of the answers fresh (mean over evaluations)."),
        ("replayed", {"workload": {"sns": 5}, "trace": "mine"}, "25.0 % of the answers fresh."),
        ("recorded", {}, "25.0 % of the answers fresh."),
    ):
        path = make_run({"ibm": [0.5]}, name=name, config=config)
        write_table(path, "evaluations", rows)
        assert said(path)[1].startswith(f"ibm kept {share}")


def test_a_ttl_cache_is_the_first_baseline(make_run: Make) -> None:
    path = make_run({"ibm": [0.5], "lru": [0.4]}, config={"workload": {"sns": 5}})
    ttl = Baseline("default", "ttl", "bgp", "exact", 10, 2000, 1, 0.45, None, 9.9)
    write_baselines(path, [ttl])
    found, _ = said(path)
    assert [(lift.label, lift.text.replace("\N{NO-BREAK SPACE}", " ")) for lift in found.lifts] == [
        ("over ttl", "+5.0 points"),
        ("over lru", "+10.0 points"),
    ]


def test_the_headline_of_a_grid_is_of_its_first_setting_with_the_budget_that_is_enough(make_run: Make) -> None:
    """An easier setting reaches the target with less, and is not chosen for that."""
    shares = {("hard", 9): 0.95, ("hard", 1): 0.3, ("hard", 5): 0.6, ("easy", 9): 1.0, ("easy", 1): 0.99}
    fresh = {f"{law},{budget}": {"ibm": [share]} for (law, budget), share in shares.items()}
    settings = {
        f"{law},{budget}": {"varied": {"workload.change_law": law, "budget": budget}, "budget": budget}
        for law, budget in shares
    }
    words = said(make_run(fresh, settings=settings))[1]
    assert words.startswith("With 9 cost units per evaluation ibm kept 95.0 % of the answers fresh, in the setting ")
    assert "in the setting change law hard." in words


def test_expected_freshness_is_not_called_counted(make_run: Make) -> None:
    assert said(make_run({"ibm": [0.5]}, expected=True))[1].startswith("ibm is expected to have kept 50.0 %")


def test_audits_are_told_beside_what_was_expected(make_run: Make) -> None:
    path = make_run({"ibm": [0.5]}, expected=True)
    evaluations = table_of(path, "evaluations").to_pylist()
    setting, last = evaluations[-1]["setting"], evaluations[-1]["t_ms"]
    rows = {"policy": ["ibm"] * 4, "setting": [setting] * 4, "t_ms": [last] * 4, "fresh": [True, True, False, None]}
    journal.write(path, "audits", [journal.table("audits", rows)])
    words = said(path)[1]
    assert "Audits found 66.7 % of 3 answers fresh: with 95 % confidence it is between 20.8 % and 93.9 %." in words


def test_labels_are_escaped(make_run: Make) -> None:
    found, _ = said(make_run({"<script>": [0.5]}))
    assert "&lt;script&gt;" in found.lead
    assert "<script>" not in found.lead


def swept_budgets(make_run: Make, **about: object) -> Path:
    fresh = {"1": {"ibm": [0.2], "plan": [0.3]}, "5": {"ibm": [0.6], "plan": [0.7]}, "9": {"ibm": [0.9], "plan": [0.8]}}
    settings = {name: {"varied": {"budget": int(name)}, "budget": int(name)} for name in fresh}
    return make_run(fresh, settings=settings, **about)


def test_the_headline_is_of_one_budget_and_never_a_mean_over_several(make_run: Make) -> None:
    words = said(swept_budgets(make_run))[1]
    assert words.startswith("With 9 cost units per evaluation ibm kept 90.0 % of the answers fresh, the most of 2")
    assert "Budgets from 1 to 9 were run, and the headline is of the least of them with which 90 % is fresh." in words


def test_the_given_target_is_the_one_that_is_told(make_run: Make) -> None:
    words = said(swept_budgets(make_run, config={"target": 0.65}))[1]
    assert words.startswith("With 5 cost units per evaluation plan kept 70.0 % of the answers fresh")
    assert "with which 65 % is fresh" in words
    assert "For 65 % fresh, plan needs about 4.5 cost units per evaluation" in words
    never = said(swept_budgets(make_run, name="never", config={"target": 0.99}))[1]
    assert "none that was run keeps 99 % fresh" in never
