"""A linear program put together block by block, solved by HiGHS, with a bound that holds whatever the solver did."""

from collections.abc import Callable
from dataclasses import dataclass, field

import highspy
import numpy as np
from scipy import sparse

from freshkeeper.maintenance.base.arrays import Floats, Ints
from freshkeeper.maintenance.base.errors import FreshkeeperError

SIMPLEX_BELOW = 20_000
"""Entries of the matrix up to which simplex is the quicker; at 300,000 interior point takes 7 s and simplex 80 s."""

NEW_SOLVER: Callable[[], highspy.Highs] = highspy.Highs
"""The constructor with its type: highspy carries types for all but this."""

LARGEST_VALUE = 1e3
"""Values are scaled to this: one answer's share of a long trace (1e−8) would vanish below HiGHS' tolerance (1e−7)."""


@dataclass(frozen=True, eq=False)
class Solution:
    """A vertex: the value of each variable, the price of each row, and the bound on the optimum that prices prove."""

    values: Floats
    prices: Floats
    bound: float


@dataclass
class Program:
    """max value·v subject to A·v ≤ right and 0 ≤ v ≤ upper."""

    _right: list[Floats] = field(default_factory=list)
    _upper: list[Floats] = field(default_factory=list)
    _value: list[Floats] = field(default_factory=list)
    _entries: list[tuple[Ints, Ints, Floats]] = field(default_factory=list)
    _rows: int = 0
    _columns: int = 0

    def rows(self, right: Floats) -> Ints:
        """Add one row per right-hand side; their numbers."""
        self._right.append(right)
        self._rows += right.size
        return np.arange(self._rows - right.size, self._rows)

    def variables(self, upper: Floats, value: Floats | None = None) -> Ints:
        """Add one variable per upper limit; their numbers."""
        self._upper.append(upper)
        self._value.append(np.zeros(upper.size) if value is None else value)
        self._columns += upper.size
        return np.arange(self._columns - upper.size, self._columns)

    def put(self, row: Ints, column: Ints, coefficient: Floats | float) -> None:
        """Write coefficients into the matrix; entries of the same place add up."""
        self._entries.append((row, column, np.broadcast_to(np.asarray(coefficient, dtype=np.float64), row.shape)))

    def solve(self) -> Solution:
        """Solve to a vertex: simplex, or for a large program interior point followed by crossover."""
        matrix, right = self._matrix(), np.concatenate(self._right)
        upper, value = np.concatenate(self._upper), np.concatenate(self._value)
        # Values may all be 0, or too small to divide by.
        scale = LARGEST_VALUE / max(float(value.max(initial=0.0)), 1e-300)
        solver = NEW_SOLVER()
        solver.setOptionValue("output_flag", False)
        solver.setOptionValue("solver", "simplex" if matrix.nnz <= SIMPLEX_BELOW else "ipm")
        solver.passModel(_model(matrix, right, upper, -scale * value))
        solver.run()
        self._check(solver)
        found = solver.getSolution()
        prices = np.maximum(-np.array(found.row_dual, dtype=np.float64), 0) / scale
        values = np.array(found.col_value, dtype=np.float64)
        return Solution(values, prices, _proved(matrix, right, upper, value, prices))

    def _check(self, solver: highspy.Highs) -> None:
        status = solver.getModelStatus()
        if status != highspy.HighsModelStatus.kOptimal:
            raise FreshkeeperError(
                f"HiGHS found no optimum of a program with {self._rows} rows and {self._columns} columns "
                f"({solver.modelStatusToString(status)}); there is one, as every variable may be 0 and has a limit"
            )

    def _matrix(self) -> "sparse.csc_array[np.float64]":
        row, column, coefficient = (np.concatenate(part) for part in zip(*self._entries, strict=True))
        return sparse.csc_array((coefficient, (row, column)), shape=(self._rows, self._columns))


def _model(matrix: "sparse.csc_array[np.float64]", right: Floats, upper: Floats, cost: Floats) -> highspy.HighsLp:
    """min cost·v as HiGHS takes it."""
    model = highspy.HighsLp()
    model.num_row_, model.num_col_ = matrix.shape
    model.col_cost_, model.col_lower_, model.col_upper_ = cost, np.zeros(upper.size), upper
    model.row_lower_, model.row_upper_ = np.full(right.size, -highspy.kHighsInf), right
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_ = matrix.indptr.astype(np.int32)
    model.a_matrix_.index_ = matrix.indices.astype(np.int32)
    model.a_matrix_.value_ = matrix.data
    return model


def _proved(
    matrix: "sparse.csc_array[np.float64]", right: Floats, upper: Floats, value: Floats, prices: Floats
) -> float:
    """λ·right + Σ upper · max(0, value − λᵀA): at least the optimum for any λ ≥ 0, equal to it for the right ones."""
    left_over = np.maximum(value - matrix.T @ prices, 0)
    return float(prices @ right + left_over @ upper)
