"""Static graphs from files: any format that pyoxigraph reads, by the file's ending, or a directory of such files."""

from pathlib import Path

from pyoxigraph import Quad, RdfFormat, parse

from freshkeeper.maintenance.base.errors import ConfigError, InputError
from freshkeeper.maintenance.base.nesting import readable


def load_graph(path: Path, named: bool = False) -> list[Quad]:
    """Load the triples of a file, or of all RDF files of a directory; `named` keeps their named graphs."""
    if not path.exists():
        raise ConfigError(f"there is no file {path} to load a graph from")
    files = [path]
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if RdfFormat.from_extension(file.suffix[1:]) is not None)
    if not files:
        raise ConfigError(f"the directory {path} holds no RDF file: .ttl, .nt, .nq, .trig, .jsonld, .rdf")
    return [quad for file in files for quad in _load(file, named)]


def _load(path: Path, named: bool) -> list[Quad]:
    kind = RdfFormat.from_extension(path.suffix[1:])
    if kind is None:
        raise ConfigError(f"{path} has no ending that says its format: .ttl, .nt, .nq, .trig, .jsonld or .rdf")
    try:
        text = readable(path, kind)
        quads = list(parse(text, format=kind, base_iri=path.resolve().as_uri(), rename_blank_nodes=True))
    except SyntaxError as error:
        raise InputError(f"{path}, line {error.lineno or 1}: {error.msg}") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    if named:
        return quads
    return [Quad(quad.subject, quad.predicate, quad.object) for quad in quads]
