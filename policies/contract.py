"""The contract of every policy, as checks that its author can run: `check_contract(policy)`, or one round: `check`.

`freshkeeper policies --check` runs `check_contract`, and so do the tests of the built-in policies. It checks what hosts
check (`runner.py`) on single rounds and on sequences of evaluations, and what no host can see in one round: the choice
depends on the rounds, the seed and the restored state alone. It asks for three traits too (`Trait`), unless the policy
waives them. Each failure is one sentence that names the policy, the check and the line.
"""

import gc
import inspect
import os
import pickle
import random
import re
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import date
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from freshkeeper.maintenance.base.errors import ConfigError, OverspentError, PolicyError
from freshkeeper.policies.base import Budget, Case, Knowledge, Policy, Round, Scope, Selection, Structure, Trait
from freshkeeper.policies.bound.future import Future
from freshkeeper.policies.contract_rounds import Numbering, Scene, alike, examples
from freshkeeper.policies.ranked import Ranked
from freshkeeper.policies.registry import make
from freshkeeper.policies.runner import PolicyRunner, files_of, line_of, subject_of

SEED = 7
RESTART = 3
"""The evaluation before which a policy is restored in the middle of a scene."""
CLOCKS = {"time", "time_ns", "monotonic", "monotonic_ns", "now", "today", "utcnow"}
"""Functions that no choice may depend on; perf_counter measures, and is permitted."""
NUMPY_GENERATORS = ("default_rng", "rand", "randn", "random", "randint", "choice", "shuffle", "permutation", "normal")

Choice = tuple[str, ...]
"""The keys that a policy chose, best first, each behind its kind."""


def check(policy: Policy, round: Round, budget: Budget) -> Selection:
    """Run every check on one round; the first that fails is an error that says what is wrong.

    The policy itself is left as it was: what has state chooses on copies.

    >>> from freshkeeper import Budget, check_policy, policy, round_of
    >>> round = round_of([(0, 0), (0, 1), (1, 1)], counts=[[1], [2]], life=[1, 1])
    >>> check_policy(policy("gain"), round, Budget(1, 1)).chosen.tolist()
    [1]
    """
    before = fingerprint(round)
    selection = _select(PolicyRunner(deepcopy(policy)), round, budget)
    chosen = selection.chosen
    if fingerprint(round) != before:
        raise _failure(policy, "read-only rounds", "it changed the round that it was given")
    if expects(policy, Trait.NEVER_FRESH) and (round.fresh_if_kept[chosen, 0] >= 1).any():
        raise _failure(policy, "never fresh", f"it chose what is certainly fresh, among {chosen.tolist()}")
    if not np.array_equal(_select(PolicyRunner(deepcopy(policy)), round, budget).chosen, chosen):
        raise _failure(policy, "same seed", "it chose differently for the same round and seed")
    if expects(policy, Trait.ANY_SCALE) and _heeds_scale(policy, selection, round, budget):
        raise _failure(policy, "any scale", "it chose otherwise when every demand was 8 times as high")
    return selection


def check_contract(policy: Policy | type[Policy] | str, another_process: bool = True) -> int:
    """Run the whole contract on a policy, its class, or its name with settings; return the number of rounds.

    Raises PolicyError for the first check that fails. `another_process` repeats the choices in a process with another
    hash seed, which takes a second or two and needs a class at the top of a module.

    >>> from freshkeeper import check_contract
    >>> check_contract("lru", another_process=False) > 300
    True
    """
    if isinstance(policy, str):
        return Contract(make(policy)).check(another_process)
    if isinstance(policy, type):
        policy = policy()
    return Contract(policy).check(another_process)


@dataclass(frozen=True, eq=False)
class Contract:
    """The checks of one policy, which stays as it is: copies of it choose."""

    policy: Policy

    def check(self, another_process: bool) -> int:
        """Run all checks; return the number of rounds."""
        policy, done = self.policy, 0
        self._check_declarations()
        kinds = [(case, level) for case in sorted(policy.cases) for level in sorted(policy.knowledge)]
        scenes = [Scene(seed, *kind, policy.scope) for kind in kinds for seed in range(2)]
        choices = []
        for scene in scenes:
            choices.append(self.play(scene, watched=scene.seed == 0))
            self._check_repetition(scene, choices[-1])
            if policy.scope is not Scope.ALL:  # there the numbers of entries are the same in all rounds
                self._check_numbers(scene, choices[-1])
        if another_process and not hasattr(policy, "foresee"):
            self._check_another_process(scenes, choices)
        for case, knowledge in kinds:
            self.play(Scene(5, case, knowledge, policy.scope, entries=200, horizon=32))
            for n, round in enumerate(examples(case, knowledge, count=30)):
                budget = Budget(float(n % 4) * (1.0, 7.0)[n % 2], 2.0, float(n % 3))
                if policy.scope is not Scope.EXPECTED:
                    round = replace(round, expected_arrivals=None)
                check(_with_future(deepcopy(policy), round, budget), round, budget)
                done += 1
            check_staler_first(policy, case, knowledge)
        return done + sum(map(len, choices)) + len(kinds) * scenes[0].evaluations

    def play(
        self,
        scene: Scene,
        numbering: Numbering = lambda k: k,
        evaluations: int | None = None,
        restart_at: int | None = None,
        watched: bool = False,
    ) -> list[Choice]:
        """Return the choices of a scene; at `restart_at` the policy is made anew and restored."""
        runner, fetched_at = PolicyRunner(deepcopy(self.policy)), scene.start()
        choices = []

        def evaluate(k: int) -> list[tuple[str, Any]]:
            entries, round = scene.round(k, fetched_at, numbering)
            budget = scene.budget(k)
            _with_future(runner.policy, round, budget)
            selection = _select(runner, round, budget, k)
            results = scene.results(k, entries, selection)
            for hook in (lambda: runner.observe(results), runner.dump, runner.metrics):
                _guarded(runner.policy, hook)
            fetched_at[results.srs[results.fetched]] = results.now
            assert results.kinds is not None
            kinds = results.kinds.tolist()
            choices.append(tuple(f"{kind} {key}" for kind, key in zip(kinds, results.keys, strict=True)))
            return _references(round)

        for k in range(evaluations or scene.evaluations):
            if k == restart_at:
                state, runner = runner.dump(), PolicyRunner(deepcopy(self.policy))
                _guarded(self.policy, lambda runner=runner, state=state: runner.load(state))  # type: ignore[misc]
            if not watched:
                evaluate(k)
                continue
            with _no_clock_and_generators(self.policy):
                references = evaluate(k)
            self._check_retention(runner.policy, references)
        return choices

    def _check_declarations(self) -> None:
        policy = self.policy
        for name, kind in (("cases", Case), ("knowledge", Knowledge)):
            declared = getattr(policy, name)
            if (
                not isinstance(declared, frozenset)
                or not declared
                or not all(isinstance(one, kind) for one in declared)
            ):
                raise _failure(
                    policy, "declarations", f"{name} must be a frozenset of {kind.__name__}, not {declared!r}"
                )
        for name, value in _attributes(policy).items():
            if isinstance(value, np.random.Generator | np.random.RandomState | random.Random):
                what = f"self.{name} is a generator of its own; use the rng that select() is given"
                raise _failure(policy, "own generator", what, _line_naming(policy, name))

    def _check_repetition(self, scene: Scene, choices: list[Choice]) -> None:
        """Play the scene again: with the same seeds, and with a restart in the middle."""
        difference = _difference(choices, self.play(scene))
        if difference:
            raise _failure(self.policy, "same seed", f"with the same rounds and seeds {difference}")
        difference = _difference(choices, self.play(scene, restart_at=RESTART))
        if difference:
            lacks = [hook for hook in ("state", "restore") if not hasattr(self.policy, hook)]
            what, method = f"restored at evaluation {RESTART} {difference}", "restore"
            if lacks:
                what, method = f"{what}; it has no {' and no '.join(f'{hook}()' for hook in lacks)}", "select"
            raise _failure(self.policy, "restart", what, line_of(self.policy, _method(self.policy, method)))

    def _check_numbers(self, scene: Scene, choices: list[Choice]) -> None:
        """Check that the choice is the same when earlier rounds number their entries differently."""
        for last in (1, 3):
            again = self.play(scene, lambda k, last=last: k + 100 * (k != last), last + 1)  # type: ignore[misc]
            # Where ties were broken differently before, the histories differ.
            same_before = all(set(one) == set(other) for one, other in zip(choices[:last], again, strict=False))
            if same_before and set(again[last]) != set(choices[last]):
                difference = _difference(choices[last : last + 1], again[last:])
                what = f"{difference} when earlier rounds had numbered their entries differently; remember keys instead"
                raise _failure(self.policy, "numbers of one round", what)

    def _check_retention(self, policy: Policy, references: list[tuple[str, Any]]) -> None:
        """Check that nothing of a round is alive after it; bounds keep the future that they were told."""
        gc.collect()
        kept = [(name, reference()) for name, reference in references if reference() is not None]
        if not kept or hasattr(policy, "foresee"):
            return
        referrers = [one for _, array in kept for one in gc.get_referrers(array)]
        held = [
            name
            for name, value in _attributes(policy).items()
            if any(value is array or getattr(value, "base", None) is array for _, array in kept)
            or any(value is one for one in referrers)
        ]
        line = None
        if held:
            line = _line_naming(policy, held[0])
        what = f"it keeps {kept[0][0]} when the evaluation is over; copy what is needed later"
        raise _failure(policy, "kept rounds", what, line)

    def _check_another_process(self, scenes: Sequence[Scene], choices: Sequence[list[Choice]]) -> None:
        """Play the scenes in a process with another hash seed."""
        for expected, found in zip(choices, _played_elsewhere(self.policy, scenes), strict=True):
            difference = _difference(expected, found)
            if difference:
                what = f"in a process with another hash seed {difference}"
                raise _failure(self.policy, "another process", what)


def expects(policy: Policy, trait: Trait) -> bool:
    """Return whether a policy has to have a trait.

    It does not if it waives it; a cache without a budget need not spare what is fresh, and a policy that plays back
    what it foresaw need not put staler entries first.
    """
    spared = {Trait.STALER_FIRST: hasattr(policy, "foresee"), Trait.NEVER_FRESH: not getattr(policy, "budgeted", True)}
    return trait not in getattr(policy, "waives", ()) and not spared.get(trait, False)


def fingerprint(round: Round) -> tuple[bytes, ...]:
    """Return the content of a round's arrays, to tell whether a policy wrote to them."""
    graph, rate = round.graph, round.structure.arrival_rate
    arrays = (
        round.profile, round.demand, round.fresh_if_refreshed, round.fresh_if_kept, round.cost, round.last_refresh,
        round.change, round.expected_arrivals, rate, graph.sn_start, graph.sn_neighbours, graph.sr_start,
        graph.sr_neighbours,
    )  # fmt: skip
    return tuple(array.tobytes() for array in arrays if array is not None)


def check_staler_first(policy: Policy, case: Case, knowledge: Knowledge) -> None:
    """Check that of entries that differ only in how likely they are stale, the staler go first.

    >>> from freshkeeper.policies.contract import check_staler_first
    >>> from freshkeeper import Case, Knowledge, policy
    >>> check_staler_first(policy("plan"), Case.BGP, Knowledge.LEARNED)
    """
    if not expects(policy, Trait.STALER_FIRST):
        return
    for seed in range(20):
        rng = np.random.default_rng([seed, 13])
        round = alike(rng, case, knowledge)
        if policy.scope is not Scope.EXPECTED:
            round = replace(round, expected_arrivals=None)
        money = float(rng.integers(1, round.srs))
        chosen = _select(PolicyRunner(deepcopy(policy)), round, Budget(money, money)).chosen
        fresh = round.fresh_if_kept[:, 0]
        left_out = np.delete(fresh, chosen)
        if chosen.size and left_out.size and left_out.min() < fresh[chosen].max():
            what = (
                f"it left out a staler entry for a fresher one: it chose {chosen.tolist()} where the copies are fresh "
                f"with the probabilities {fresh.round(3).tolist()}; one that is meant to says "
                "waives = frozenset({Trait.STALER_FIRST})"
            )
            raise _failure(policy, "staler first", what)


def _heeds_scale(policy: Policy, selection: Selection, round: Round, budget: Budget) -> bool:
    eightfold = replace(
        round,
        demand=8 * round.demand,
        expected_arrivals=None if round.expected_arrivals is None else 8 * round.expected_arrivals,
        build=lambda: Structure(round.graph, 8 * round.profile, 8 * round.structure.arrival_rate),
    )
    scaled = _select(PolicyRunner(deepcopy(policy)), eightfold, budget)
    return set(scaled.chosen.tolist()) != set(selection.chosen.tolist())


def _select(runner: PolicyRunner, round: Round, budget: Budget, k: int = 0) -> Selection:
    """Return a choice as hosts check it; an error says which check failed."""
    try:
        return runner.select(round, budget, np.random.default_rng([SEED, k]))
    except PolicyError as error:
        needs_arrivals = round.expected_arrivals is None and isinstance(error.__cause__, TypeError | AttributeError)
        if needs_arrivals and _works(runner.policy, replace(round, expected_arrivals=np.zeros(round.srs)), budget):
            what = "it uses round.expected_arrivals, which are None unless its scope is Scope.EXPECTED"
            line = line_of(runner.policy, _method(runner.policy), error.__cause__)
            raise _failure(runner.policy, "expected arrivals", what, line) from error
        raise _as_failure(runner.policy, error) from error


def _works(policy: Policy, round: Round, budget: Budget) -> bool:
    try:
        PolicyRunner(deepcopy(policy)).select(round, budget, np.random.default_rng(SEED))
    except PolicyError:
        return False
    return True


def _guarded(policy: Policy, call: Callable[[], object]) -> None:
    try:
        call()
    except PolicyError as error:
        raise _as_failure(policy, error) from error


def _as_failure(policy: Policy, error: PolicyError) -> PolicyError:
    """Return the error of a host as that of a check, with its name and the line."""
    what = str(error).removeprefix(subject_of(policy)).lstrip(": ")
    if "read-only" in what:
        check = "read-only rounds"
    elif isinstance(error, OverspentError):
        check = "within the budget"
    elif error.__cause__ is None or isinstance(error.__cause__, PolicyError):
        check = "valid choice"
    else:
        return _failure(policy, "no exception", what, "")
    if re.search(r" at \S+:\d+", what):
        return _failure(policy, check, what, "")
    return _failure(policy, check, what)


def _failure(policy: Policy, check: str, what: str, line: str | None = None) -> PolicyError:
    """Return an error in one sentence that names policy, check and line; of no known line that of its choice."""
    where = line_of(policy, _method(policy)) if line is None else line
    said = f"{subject_of(policy)} fails the check {check!r}: {what}"
    return PolicyError(f"{said} ({where})" if where else said)


def _method(policy: Policy, wanted: str = "select") -> str:
    """Return the method to name: score() of a ranked policy whose choice is not its own."""
    if not hasattr(policy, wanted):
        wanted = "select"
    own = getattr(type(policy), wanted)
    return "score" if wanted == "select" and isinstance(policy, Ranked) and own is Ranked.select else wanted


def _attributes(policy: Policy) -> dict[str, Any]:
    return dict(getattr(policy, "__dict__", {}))


def _line_naming(policy: Policy, attribute: str) -> str | None:
    """Return the first line of the class that assigns or declares an attribute."""
    try:
        lines, first = inspect.getsourcelines(type(policy))
    except (OSError, TypeError):
        return None
    pattern = re.compile(rf"\b{attribute}\b\s*[:=]")
    found = next((n for n, line in enumerate(lines) if pattern.search(line)), 0)
    return f"{Path(inspect.getfile(type(policy))).name}:{first + found}"


def _references(round: Round) -> list[tuple[str, Any]]:
    """Return weak references to a round and to what owns the memory of its arrays."""
    found: list[tuple[str, Any]] = [("the round", weakref.ref(round))]
    for name, value in vars(round).items():
        if isinstance(value, np.ndarray):
            owner = value if value.base is None else value.base
            found.append((f"round.{name}", weakref.ref(owner)))
    return found


def _difference(expected: Sequence[Choice], found: Sequence[Choice]) -> str:
    """Return how choices differ first, in words; empty if they do not."""
    for k, (one, other) in enumerate(zip(expected, found, strict=True)):
        if one != other:
            told = [", ".join(key.partition(" ")[2] for key in choice[:2]) or "nothing" for choice in (other, one)]
            return f"it chose {told[0]} instead of {told[1]}, of {len(one)} at evaluation {k}"
    return ""


def _with_future(policy: Policy, round: Round, budget: Budget) -> Policy:
    """Tell a bound the future of a run that ends with this round."""
    foresee = getattr(policy, "foresee", None)
    if foresee is not None:
        from scipy import sparse

        present = Future.of(
            sparse.csr_array(round.profile[:, :1].T),
            round.graph,
            changed_at=np.empty(0, np.int64),
            changed_sr=np.empty(0, np.int64),
            weight=np.ones(1),
            pay=np.array([budget.available]),
            fresh_at_start=~round.stale,
            cost=round.cost,
        )
        foresee(present)
    return policy


class _Watch:
    """Notes calls of clocks and of generators by the policy's own lines."""

    def __init__(self, policy: Policy) -> None:
        self._files = files_of(policy)
        self.notes: list[tuple[str, str, str]] = []

    def note(self, check: str, what: str, frame: FrameType | None) -> None:
        """Note a call if it is one of the policy's own lines."""
        if frame is not None and frame.f_code.co_filename in self._files:
            self.notes.append((check, what, f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"))

    def __call__(self, frame: FrameType, event: str, function: Any) -> None:
        """Look at one call, as `sys.setprofile` reports it."""
        module_random = "it uses the module random; use the rng that select() is given"
        if event == "call" and frame.f_code.co_filename == random.__file__:
            self.note("own generator", module_random, frame.f_back)
        elif event == "c_call":
            owner, name = getattr(function, "__self__", None), getattr(function, "__name__", "")
            of_time = getattr(function, "__module__", "") == "time"
            if name in CLOCKS and (of_time or (isinstance(owner, type) and issubclass(owner, date))):
                what = f"it reads the clock with {name}(); round.now is the time of the evaluation"
                self.note("wall clock", what, frame)
            elif isinstance(owner, random.Random):
                self.note("own generator", module_random, frame)


@contextmanager
def _no_clock_and_generators(policy: Policy) -> Iterator[None]:
    """Raise PolicyError if the policy's own lines read the clock or draw from a generator that they were not given."""
    watch = _Watch(policy)

    def noting(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*values: Any, **more: Any) -> Any:
            what = f"it uses np.random.{name}; use the rng that select() is given"
            watch.note("own generator", what, sys._getframe(1))
            return function(*values, **more)

        return call

    plain = {name: getattr(np.random, name) for name in NUMPY_GENERATORS}
    before = sys.getprofile()
    for name, function in plain.items():
        setattr(np.random, name, noting(name, function))
    sys.setprofile(watch)
    try:
        yield
    finally:
        sys.setprofile(before if callable(before) else None)  # a profiler of C is no function
        for name, function in plain.items():
            setattr(np.random, name, function)
    if watch.notes:
        raise _failure(policy, *watch.notes[0])


def _played_elsewhere(policy: Policy, scenes: Sequence[Scene]) -> list[list[Choice]]:
    """Return the choices of a process with another hash seed."""
    kind = type(policy)
    if "<locals>" in kind.__qualname__:
        raise ConfigError(f"{kind.__qualname__} is defined in a function, where no other process finds it: move it out")
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    paths = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
    try:
        state = pickle.dumps(policy.__reduce_ex__(4)[2:3])
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        raise _failure(policy, "another process", f"it cannot be pickled: {error}") from error
    job = pickle.dumps((kind.__module__, inspect.getfile(kind), kind.__qualname__, state, scenes))
    done = subprocess.run(
        [sys.executable, "-c", "from freshkeeper.policies.contract import play_job; play_job()"],
        input=job,
        capture_output=True,
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": paths},
    )
    if done.returncode:
        said = done.stderr.decode().strip().splitlines()[-1:]
        raise _failure(policy, "another process", f"a process that repeats its choices failed: {''.join(said)}")
    played: list[list[Choice]] = pickle.loads(done.stdout)
    return played


def play_job() -> None:
    """Play the scenes of the job on standard input; write the choices to standard output."""
    module, file, name, state, scenes = pickle.load(sys.stdin.buffer)
    out, sys.stdout = sys.stdout, sys.stderr  # whatever the policy prints is no choice
    try:
        if module == "__main__":
            raise ModuleNotFoundError
        found = import_module(module)
    except ModuleNotFoundError:
        spec = spec_from_file_location("__mp_main__" if module == "__main__" else module, file)
        assert spec is not None
        assert spec.loader is not None
        found = module_from_spec(spec)
        sys.modules[module] = found
        spec.loader.exec_module(found)
    kind: Any = found
    for part in name.split("."):
        kind = getattr(kind, part)
    policy: Policy = kind.__new__(kind)
    for part in pickle.loads(state):
        # With __slots__ a state has two parts: attributes, and slots.
        for values in (part, {}) if not isinstance(part, tuple) else part:
            for attribute, value in (values or {}).items():
                object.__setattr__(policy, attribute, value)
    contract = Contract(policy)
    out.buffer.write(pickle.dumps([contract.play(scene) for scene in scenes]))
