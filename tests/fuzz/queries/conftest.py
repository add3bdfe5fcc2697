"""The parts of the query fuzzer import each other by name."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
