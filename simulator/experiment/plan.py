"""The plan of an experiment: its settings, and about how long its runs take, judged by short ones."""

import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from freshkeeper.simulator.experiment.experiment import runnable
from freshkeeper.simulator.experiment.experiment_config import Experiment, GridSetting, PolicySettings, settings_of
from freshkeeper.simulator.experiment.run_parts import Job, evaluations_of, perform_row, recorded_trace

MAX_PROBES = 5
"""Settings that are tried, spread over the grid."""
SHORT, LONG = 5, 25
"""Evaluations of the two runs of a probe: their difference tells what one more evaluation takes."""


@dataclass(frozen=True)
class PlannedSetting:
    """A setting with the number of its evaluations, and the policies that it runs."""

    setting: GridSetting
    evaluations: int
    policies: list[str]


@dataclass(frozen=True)
class ExperimentPlan:
    """The settings and runs of an experiment, and an estimate of their time."""

    settings: list[PlannedSetting]
    runs: int
    seconds: float
    """of all runs one after another"""
    probes: int


def plan_of(experiment: Experiment) -> ExperimentPlan:
    """Lay out the grid, and try some of its settings with few evaluations."""
    settings = settings_of(experiment)
    policies = runnable(settings)
    planned = []
    for setting in settings:
        chosen = setting.experiment
        trace = recorded_trace(chosen.trace) if chosen.trace else None
        titles = [policy.title for policy in policies[setting.name]]
        planned.append(PlannedSetting(setting, evaluations_of(chosen, trace), titles))
    places = np.unique(np.linspace(0, len(settings) - 1, MAX_PROBES).round().astype(int)).tolist()
    seed = experiment.seed_list[0]
    _seconds(settings[0], policies[settings[0].name], seed, SHORT)  # kernels are compiled, and traces read
    taken = []
    for place in places:
        setting, evaluations = settings[place], planned[place].evaluations
        short, long = (_seconds(setting, policies[setting.name], seed, length) for length in (SHORT, LONG))
        slope = max(0.0, long - short) / (LONG - SHORT)
        taken.append(short + slope * max(0, evaluations - SHORT))
    runs = len(settings) * len(experiment.seed_list)
    return ExperimentPlan(planned, runs, runs * float(np.mean(taken)), len(places))


def _seconds(setting: GridSetting, policies: list[PolicySettings], seed: int, evaluations: int) -> float:
    """Return the seconds of one run with so many evaluations; nothing of it is kept."""
    short = replace(setting, experiment=setting.experiment.model_copy(update={"evaluations": evaluations}))
    began = time.perf_counter()
    perform_row(Job(short, seed, tuple(policies), Path()), recorded_trace)
    return time.perf_counter() - began
