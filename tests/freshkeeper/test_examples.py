"""Every public name shows in its docstring how it is used, and what is shown there is true."""

import doctest

import pytest

import freshkeeper

WITHOUT = {
    "ChangeModel": "a protocol: Learned and the others are its examples",
    "Endpoint": "a protocol: InMemory is its example",
    "Remote": "a protocol: docs/writing-a-source.md has an example",
    "Policy": "a protocol: BasePolicy has the example",
    "__version__": "a text",
    "enrich_windows": "needs Spark: notebooks/03-spark-enrichment.py is its example",
    "parse_query": "continuous_query has the example, which parses one and answers it",
}


@pytest.mark.parametrize("name", [name for name in freshkeeper.__all__ if name not in WITHOUT])
def test_a_public_name_has_an_example_that_holds(name: str) -> None:
    (found,) = doctest.DocTestFinder(exclude_empty=False, recurse=False).find(
        getattr(freshkeeper, name), name, globs={}
    )
    assert found.examples, f"{name} has no example in its docstring"
    said: list[str] = []
    doctest.DocTestRunner().run(found, out=said.append)
    assert not said, "".join(said)


def test_what_is_excused_is_public_and_has_none() -> None:
    assert set(WITHOUT) <= set(freshkeeper.__all__)
    assert not [name for name in WITHOUT if ">>>" in (getattr(freshkeeper, name).__doc__ or "")]
