"""What is used of HiGHS' own interface, which carries types only in part."""

from enum import Enum

import numpy as np
from numpy.typing import NDArray

kHighsInf: float  # noqa: N816

class MatrixFormat(Enum):
    kColwise = 1

class HighsStatus(Enum): ...

class HighsModelStatus(Enum):
    kOptimal = 7

class HighsSparseMatrix:
    format_: MatrixFormat
    start_: NDArray[np.int32]
    index_: NDArray[np.int32]
    value_: NDArray[np.float64]

class HighsLp:
    num_col_: int
    num_row_: int
    col_cost_: NDArray[np.float64]
    col_lower_: NDArray[np.float64]
    col_upper_: NDArray[np.float64]
    row_lower_: NDArray[np.float64]
    row_upper_: NDArray[np.float64]
    a_matrix_: HighsSparseMatrix

class HighsSolution:
    col_value: list[float]
    row_dual: list[float]

class Highs:
    def __init__(self) -> None: ...
    def setOptionValue(self, option_name: str, option_value: bool | int | float | str) -> HighsStatus: ...
    def passModel(self, lp: HighsLp) -> HighsStatus: ...
    def run(self) -> HighsStatus: ...
    def getModelStatus(self) -> HighsModelStatus: ...
    def modelStatusToString(self, model_status: HighsModelStatus) -> str: ...
    def getSolution(self) -> HighsSolution: ...
