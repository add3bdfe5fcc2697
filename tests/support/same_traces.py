"""When two traces are the same."""

import numpy as np

from freshkeeper.simulator.trace.trace import Trace, columns_of


def same(one: Trace, other: Trace) -> bool:
    """Whether both say the same of the same ids, however these are numbered."""
    mine, theirs = (
        {(name, column): values for name, table in columns_of(trace).items() for column, values in table.items()}
        for trace in (one, other)
    )
    return mine.keys() == theirs.keys() and all(np.array_equal(mine[name], theirs[name]) for name in mine)
