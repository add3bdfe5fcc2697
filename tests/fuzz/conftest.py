"""The fuzzer's modules, by their names."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
