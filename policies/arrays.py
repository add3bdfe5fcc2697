"""Names for the array types that every other file uses."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Ids: TypeAlias = NDArray[np.int32]
Kinds: TypeAlias = NDArray[np.int8]
Bools: TypeAlias = NDArray[np.bool_]
