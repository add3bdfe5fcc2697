"""A package for a policy of one's own, from the files in `template/`: entry point, settings, state, tests, CI."""

import keyword
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.policies.registry import names

TEMPLATE = Path(__file__).parent / "template"


def write_package(name: str, directory: Path) -> list[Path]:
    """Write the package of the policy `name` into a new directory; return its files."""
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name) or keyword.iskeyword(name):
        raise ConfigError(f"{name!r} is no name of a policy: use small letters, digits and single dashes, as my-policy")
    if name in names():
        raise ConfigError(f"there is a policy {name!r} already; give yours another name")
    if directory.exists():
        raise ConfigError(f"{directory} is there already: name another directory with --out")
    module = f"{name.replace('-', '_')}_policy"
    try:
        installed = version("freshkeeper")
    except PackageNotFoundError:
        installed = "0"
    words = {
        "NAME": name,
        "CLASS": "".join(part.capitalize() for part in name.split("-")),
        "MODULE": module,
        "VERSION": installed,
    }
    places = {
        "policy.py": f"{module}.py",
        "test_policy.py": f"test_{module}.py",
        "pyproject.toml": "pyproject.toml",
        "test.yml": ".github/workflows/test.yml",
        "README.md": "README.md",
    }
    for source, place in places.items():
        text = (TEMPLATE / f"{source}.txt").read_text(encoding="utf-8")
        text = re.sub(rf"\b({'|'.join(words)})\b", lambda found: words[found[1]], text)
        # MODULE is part of a longer word in the name of the test file.
        text = text.replace("test_MODULE", f"test_{module}")
        path = directory / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return [directory / place for place in places.values()]
