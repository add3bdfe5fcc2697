# What freshkeeper uses of jupytext, which ships no types.
from pathlib import Path
from typing import Any

def read(fp: Path) -> Any: ...
