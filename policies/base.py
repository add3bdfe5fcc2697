"""The input and the output of a policy: Round, Budget, Selection, and the Policy protocol.

The words are SEMANTICS.md's: an SR is the unit of refresh, an SN joins with the window, H is the number of evaluations
looked at, the current one (m = 0) included.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from freshkeeper.maintenance.base.arrays import Bools, Floats, Ids, Ints, Kinds

NEVER = -(2**62)
"""The refresh time of an SR of which the view holds no copy."""

Values = TypeVar("Values", bound=NDArray[Any])


def read_only(array: Values) -> Values:
    """Return the array itself if nobody can write into it, and a view that is so otherwise."""
    if not array.flags.writeable:
        return array
    view: Values = array.view()
    view.setflags(write=False)
    return view


class Case(StrEnum):
    """The unit of an answer: one edge (BGP), or all inputs of an SN (aggregate).

    >>> from freshkeeper import Case
    >>> [case.value for case in Case]
    ['bgp', 'aggregate']
    """

    BGP = "bgp"
    AGGREGATE = "aggregate"


class Knowledge(StrEnum):
    """The amount that is known of changes; a table or plot never mixes the levels.

    >>> from freshkeeper import Knowledge, Learned
    >>> Learned().knowledge is Knowledge.LEARNED
    True
    """

    EXACT = "exact"
    PUBLISHED = "published"
    RATES = "rates"
    LEARNED = "learned"


class Scope(StrEnum):
    """The SRs in a round: those that the window needs, those that arrivals will need too, or all slots of the view."""

    NEEDED = "needed"
    EXPECTED = "expected"
    ALL = "all"


class Trait(StrEnum):
    """Properties that every policy is expected to have, unless it waives them.

    >>> from freshkeeper.policies.base import Trait
    >>> from freshkeeper.policies.random import Random
    >>> Random.waives == {Trait.STALER_FIRST}
    True
    """

    STALER_FIRST = "of entries that are alike the staler go first"
    ANY_SCALE = "multiplying all demands changes nothing"
    NEVER_FRESH = "what is certainly fresh is left alone"


@dataclass(frozen=True, eq=False)
class Graph:
    """The bipartite maintenance graph in CSR both ways; an edge (i, j) says that SN i needs SR j.

    >>> from freshkeeper import Graph
    >>> graph = Graph.from_edges([0, 0, 1], [0, 1, 1], sns=2, srs=2)
    >>> graph.inputs(0).tolist(), graph.dependants(1).tolist()
    ([0, 1], [0, 1])
    """

    sn_start: Ints
    sn_neighbours: Ids
    sr_start: Ints
    sr_neighbours: Ids

    def __post_init__(self) -> None:
        for name in ("sn_start", "sn_neighbours", "sr_start", "sr_neighbours"):
            object.__setattr__(self, name, read_only(getattr(self, name)))

    @property
    def sns(self) -> int:
        """The number of SNs."""
        return self.sn_start.size - 1

    @property
    def srs(self) -> int:
        """The number of SRs."""
        return self.sr_start.size - 1

    @classmethod
    def from_edges(cls, sn: Ids | Ints, sr: Ids | Ints, sns: int, srs: int) -> "Graph":
        """Build both directions from a list of distinct edges."""
        forward = sparse.csr_array((np.ones(len(sn), np.int8), (sn, sr)), shape=(sns, srs))
        backward = forward.T.tocsr()
        return cls(
            forward.indptr.astype(np.int64),
            forward.indices.astype(np.int32),
            backward.indptr.astype(np.int64),
            backward.indices.astype(np.int32),
        )

    def inputs(self, sn: int) -> Ids:
        """Return the SRs that SN `sn` needs."""
        return self.sn_neighbours[self.sn_start[sn] : self.sn_start[sn + 1]]

    def dependants(self, sr: int) -> Ids:
        """Return the SNs that need SR `sr`."""
        return self.sr_neighbours[self.sr_start[sr] : self.sr_start[sr + 1]]

    @cached_property
    def matrix(self) -> "sparse.csr_array[np.float64, tuple[int, int]]":
        """The adjacency A, SN × SR, as ones."""
        ones = np.ones(self.sn_neighbours.size)
        return sparse.csr_array((ones, self.sn_neighbours, self.sn_start), shape=(self.sns, self.srs))

    @cached_property
    def transposed(self) -> "sparse.csr_array[np.float64, tuple[int, int]]":
        """Aᵀ, SR × SN, as ones."""
        ones = np.ones(self.sr_neighbours.size)
        return sparse.csr_array((ones, self.sr_neighbours, self.sr_start), shape=(self.srs, self.sns))


@dataclass(frozen=True, eq=False)
class Structure:
    """The edges and how often each SN is in the window: what case 2 and expectations need beyond demand."""

    graph: Graph
    profile: Floats
    """C, SN × H"""
    arrival_rate: Floats
    """expected new window mappings of each SN per evaluation"""

    def __post_init__(self) -> None:
        for name in ("profile", "arrival_rate"):
            object.__setattr__(self, name, read_only(getattr(self, name)))


ARRAYS_OF_A_ROUND = (
    "demand", "fresh_if_refreshed", "fresh_if_kept", "cost", "last_refresh", "expected_arrivals", "kinds"
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Round:
    """A round is one evaluation as a policy sees it: the edges, the demand, and how long each copy would stay fresh.

    SRs are numbered within the round; it holds those that matter now, not the whole view. `expected_arrivals[j]` is how
    many new answers SR j is expected to take part in per evaluation, each for `span` of them. `change[j, m]` is the
    probability that SR j changes between the evaluations m − 1 and m whatever happened before, for policies that look
    past the first change. It and the structure are made when a policy first looks at them, within `select`.

    All arrays are read-only: a policy that wants to change one copies it.

    >>> from freshkeeper import round_of
    >>> round = round_of([(0, 0), (0, 1), (1, 1)], counts=[[1], [2]], life=[1, 1], fresh=[0])
    >>> round.demand[:, 0].tolist(), round.stale.tolist()
    ([1.0, 3.0], [False, True])
    """

    demand: Floats
    fresh_if_refreshed: Floats
    fresh_if_kept: Floats
    cost: Floats
    last_refresh: Ints
    build: Callable[[], Structure]
    foresee: Callable[[], Floats]
    expected_arrivals: Floats | None = None
    case: Case = Case.BGP
    knowledge: Knowledge = Knowledge.EXACT
    now: int = 0
    span: int = 1
    keys: Sequence[str] = ()
    """as the journal writes them: terms in N-Triples, those of a tuple separated by spaces; of a miss, and of edges,
    the key of the SN"""
    kinds: Kinds | None = None
    """None: copies all"""

    def __post_init__(self) -> None:
        values = vars(self)
        for name in ARRAYS_OF_A_ROUND:
            array = values[name]
            if array is not None:
                values[name] = read_only(array)

    @property
    def srs(self) -> int:
        """The number of SRs in the round."""
        return int(self.demand.shape[0])

    @property
    def horizon(self) -> int:
        """H, the number of evaluations looked at."""
        return int(self.demand.shape[1])

    @cached_property
    def structure(self) -> Structure:
        """Graph, profile and arrival rates."""
        return self.build()

    @cached_property
    def change(self) -> Floats:
        """SR × H, column 0 is 0."""
        return read_only(self.foresee())

    @property
    def graph(self) -> Graph:
        """The bipartite maintenance graph."""
        return self.structure.graph

    @property
    def profile(self) -> Floats:
        """C: window mappings of SN i that are still there m evaluations from now, SN × H."""
        return self.structure.profile

    @cached_property
    def candidates(self) -> Bools:
        """C: SRs with an SN in the current window."""
        return read_only(self.demand[:, 0] > 0)

    @cached_property
    def stale(self) -> Bools:
        """SRs whose copy is not known to be fresh now: the stale ones in `exact`, nearly all in `learned`."""
        return read_only(self.fresh_if_kept[:, 0] < 1)

    @cached_property
    def staleness(self) -> Floats:
        """1 − F⁰: the probability that the copy of each SR is stale now, 0 or 1 where that is known."""
        return read_only(1.0 - self.fresh_if_kept[:, 0])

    @cached_property
    def certain(self) -> bool:
        """True if staleness now and the next change are known: all probabilities are 0 or 1."""
        both = (self.fresh_if_kept, self.fresh_if_refreshed)
        first = (part[:256] for part in both)  # where nothing is certain they tell, without a look at all others
        return all(bool(((part == 0) | (part == 1)).all()) for part in (*first, *both))

    @cached_property
    def missing(self) -> Bools:
        """SRs whose copy is more likely stale than fresh: the inputs that an aggregate waits for."""
        return read_only(self.fresh_if_kept[:, 0] < 0.5)

    @cached_property
    def stale_candidates(self) -> Bools:
        """The candidates that a refresh could help."""
        return read_only(self.candidates & self.stale)

    @cached_property
    def expected_profile(self) -> Floats:
        """c̄: what is in the window plus expected arrivals, rate × evaluations ahead, saturating at ω/β."""
        return read_only(self.profile + np.outer(self.structure.arrival_rate, self._arrived))

    @cached_property
    def expected_demand(self) -> Floats:
        """w̄ = Aᵀ·c̄: the demand plus that of expected arrivals."""
        if self.expected_arrivals is None:
            return self.demand
        expected = np.multiply.outer(self._arrived, self.expected_arrivals)  # laid out as demand is
        expected += self.demand.T
        return read_only(expected.T)

    @property
    def _arrived(self) -> Floats:
        return np.minimum(np.arange(self.horizon, dtype=np.float64), self.span)


@dataclass(frozen=True)
class Budget:
    """The cost units that one evaluation may spend: `available` now, γ at every one, a bank of capacity `bank`.

    >>> from freshkeeper import Budget
    >>> Budget(available=3, per_evaluation=2, bank=1).lost_if_unspent
    2
    """

    available: float
    per_evaluation: float
    bank: float = 0.0
    remaining: int | None = None
    """evaluations that are still paid for, this one included, where the end of the run is known"""

    @property
    def lost_if_unspent(self) -> float:
        """The part that the bank has no room for, and at the end everything: it is spent now or never."""
        return max(0.0, self.available - (0.0 if self.remaining == 1 else self.bank))


@dataclass(frozen=True, eq=False)
class Selection:
    """The SRs to fetch again, best first, each with its score, and why in words.

    >>> import numpy as np
    >>> from freshkeeper import Selection
    >>> Selection(chosen=np.array([3, 1]), scores=np.array([0.9, 0.4]), reason="most demanded").chosen.tolist()
    [3, 1]
    """

    chosen: Ids
    scores: Floats
    reason: str = ""


@dataclass(frozen=True, eq=False)
class Results:
    """The outcome of a selection: per SR whether the fetch succeeded and whether the value had changed.

    An SR is known by its key, as in `round.keys`: the numbers of a round are good for that round alone.

    >>> import numpy as np
    >>> from freshkeeper import Results
    >>> results = Results(np.array([4]), np.array([True]), np.array([False]), now=1000, keys=("ann",))
    >>> dict(zip(results.keys, results.changed.tolist()))
    {'ann': False}
    """

    srs: Ids
    """the view's slots"""
    fetched: Bools
    changed: Bools
    now: int
    keys: tuple[str, ...] = ()
    kinds: Kinds | None = None
    """None: copies all"""


@runtime_checkable
class Policy(Protocol):
    """Chooses what to fetch again. Settings are the fields of a dataclass; what it handles is declared on the class.

    Optional hooks, called where they exist: `observe(results)` after the fetch, `state()` after every evaluation that
    is kept and `restore(state)` after a restart, `metrics()` for numbers to be shown, `foresee(future)` for bounds that
    are given the whole trace.
    """

    name: ClassVar[str]
    cases: ClassVar[frozenset[Case]]
    knowledge: ClassVar[frozenset[Knowledge]]
    is_bound: ClassVar[bool]

    scope: ClassVar[Scope]
    """which SRs its rounds hold"""

    @property
    def keeps_budget(self) -> bool:
        """True if the policy keeps within the budget; one that does not is marked in every table."""

    @property
    def reach(self) -> int:
        """The number of windows that the policy looks ahead: H is `reach` times ω/β, and 1 where that is 0."""

    def select(self, round: Round, budget: Budget, rng: np.random.Generator) -> Selection:
        """Choose SRs of the round within the budget."""


class BasePolicy:
    """The declarations of most policies: both cases, every knowledge level, within the budget, one window ahead.

    A subclass with settings is a dataclass, frozen or not. Without a `name` it is called as its class, in lower case.

    >>> import numpy as np
    >>> from freshkeeper import BasePolicy, Budget, Selection, check_policy, round_of
    >>> class First(BasePolicy):
    ...     def select(self, round, budget, rng):
    ...         chosen = np.flatnonzero(round.stale_candidates)[: int(budget.available)]
    ...         return Selection(chosen, np.ones(chosen.size))
    >>> check_policy(First(), round_of([(0, 0), (0, 1)], counts=[[1]], life=[1, 1]), Budget(1, 1)).chosen.tolist()
    [0]
    """

    name: ClassVar[str] = ""

    cases: ClassVar[frozenset[Case]] = frozenset(Case)
    knowledge: ClassVar[frozenset[Knowledge]] = frozenset(Knowledge)
    is_bound: ClassVar[bool] = False
    budgeted: ClassVar[bool] = True
    """whether a budget means anything to it; one to which it does not is marked in every table, and ranked in none"""
    waives: ClassVar[frozenset[Trait]] = frozenset()
    """what it is not, by its own word, and the contract does not ask of it"""
    scope: ClassVar[Scope] = Scope.NEEDED
    scores_answers: ClassVar[frozenset[Case]] = frozenset()
    """where its scores are the answers that refreshes bring: views that share a budget are then compared by them"""

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if not cls.name and "name" not in vars(cls):
            cls.name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", cls.__name__).lower()

    @property
    def keeps_budget(self) -> bool:
        """True: what it chooses costs no more than is available."""
        return True

    @property
    def reach(self) -> int:
        """1: it looks one window ahead."""
        return 1


@dataclass(frozen=True)
class LooksAhead(BasePolicy):
    """Case 1, over `windows` windows ahead, with the arrivals that are expected in them (`expect`)."""

    name: ClassVar[str] = ""
    cases: ClassVar[frozenset[Case]] = frozenset({Case.BGP})
    scope: ClassVar[Scope] = Scope.EXPECTED
    scores_answers: ClassVar[frozenset[Case]] = frozenset({Case.BGP})
    expect: bool = True
    """count the arrivals that are expected"""
    windows: int = 3
    """windows ahead in which answers count"""

    @property
    def reach(self) -> int:
        return self.windows
