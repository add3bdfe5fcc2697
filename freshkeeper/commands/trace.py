"""`freshkeeper trace generate|building|describe|convert`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from freshkeeper.commands.command_line import Argument, Option
from freshkeeper.commands.options import assignments
from freshkeeper.commands.screen import TextTable, print_json, say, show
from freshkeeper.maintenance.base.errors import ConfigError

if TYPE_CHECKING:
    from freshkeeper.simulator.trace.convert import Conversion

ARRIVALS = "a row per arrival; name its columns if they are neither t_ms,sn nor the first two"
EDGES = "the entries that a key needs; default: each key is its own entry"
CHANGES = "times of changes, or values over time; or a journal, for changes that its refreshes saw"
UNIT = "unit of times: ms, s or iso; default: detected from the values"


def generate(
    out: Annotated[Path, Argument(help="the directory to write")],
    config: Annotated[Path | None, Option(help="a config with the workload to draw")] = None,
    change: Annotated[list[str] | None, Option("--set", metavar="KEY=VALUE", help="any key of the workload")] = None,
    seed: Annotated[int, Option(min=0, help="random seed")] = 0,
    form: Annotated[str, Option("--format", help="csv, csv.gz or parquet")] = "csv",
    overwrite: Annotated[bool, Option(help="overwrite existing tables")] = False,
) -> None:
    """Draw a synthetic trace and write it.

    Example: `freshkeeper trace generate out/skewed --set degree_skew=0.7 --set edges=500`
    """
    from freshkeeper.simulator.experiment import experiment_config as configs
    from freshkeeper.simulator.trace.trace import write_trace
    from freshkeeper.simulator.trace.workload import generate as draw

    written = {f"workload.{key.removeprefix('workload.')}": value for key, value in assignments(change).items()}
    experiment = configs.load(config, written) if config else configs.resolve({}, written)
    trace = draw(experiment.workload, seed)
    write_trace(trace, out, form, overwrite)
    say(f"{out}: {len(trace.arrivals):,} arrivals, {len(trace.edges):,} edges, {len(trace.changes):,} changes")


def building(
    out: Annotated[Path, Argument(help="the directory to write")],
    triples: Annotated[int, Option(min=1, help="number of triples of the stream")] = 100_000,
    queries: Annotated[int, Option(min=1, help="number of queries over the stream")] = 1_000,
    change: Annotated[list[str] | None, Option("--set", metavar="KEY=VALUE", help="any key of the building")] = None,
    seed: Annotated[int, Option(min=0, help="random seed")] = 0,
    overwrite: Annotated[bool, Option(help="overwrite an existing building")] = False,
) -> None:
    """Draw the stream of a smart building's sensors, and conjunctive queries by random walks over it.

    Example: `freshkeeper trace building out/building --queries 2000 --set window=500`, and then
    `freshkeeper match out/building/queries --stream http://example.org/building/readings=out/building/readings.nq`
    """
    from freshkeeper.maintenance.base.validation import validated
    from freshkeeper.simulator.trace.building import Building, write_building

    wanted = validated(Building, assignments(change), "--set ")
    write_building(building=wanted, seed=seed, triples=triples, count=queries, out=out, overwrite=overwrite)
    say(f"{out}: {triples:,} triples in readings.nq, {queries:,} queries in queries/")


def conference(
    out: Annotated[Path, Argument(help="the directory to write")],
    sightings: Annotated[int, Option(min=1, help="number of triples of the stream")] = 10_000,
    change: Annotated[list[str] | None, Option("--set", metavar="KEY=VALUE", help="any key of the conference")] = None,
    seed: Annotated[int, Option(min=0, help="random seed")] = 0,
    overwrite: Annotated[bool, Option(help="overwrite an existing conference")] = False,
) -> None:
    """Draw a floor plan, authors with their papers, and a stream of sightings, with the five queries of CQELS's paper.

    Example: `freshkeeper trace conference out/iswc --set triples=1000000`, and then
    `freshkeeper run out/iswc/q3.cqels --stream http://deri.org/streams/rfid=out/iswc/rfid.nq
    --graph http://deri.org/floorplan/=out/iswc/floorplan.nt --default out/iswc/dblp.nt`
    """
    from freshkeeper.maintenance.base.validation import validated
    from freshkeeper.simulator.trace.conference import Conference, write_conference

    wanted = validated(Conference, assignments(change), "--set ")
    write_conference(wanted, seed, sightings, out, overwrite)
    say(f"{out}: {wanted.triples:,} triples in dblp.nt, {sightings:,} sightings in rfid.nq, q1.cqels to q5.cqels")


def describe(
    directory: Annotated[Path, Argument(help="a directory with arrivals, edges and changes")],
    window: Annotated[str, Option(help="the range of the window, as 4s or PT4S; default: a suggestion")] = "",
    step: Annotated[str, Option(help="the step of the window; default: a suggestion")] = "",
    as_json: Annotated[bool, Option("--json", help="print the numbers as JSON")] = False,
) -> None:
    """Describe a trace: entities, degrees, rates, and how stale answers would be without any refresh.

    Example: `freshkeeper trace describe out/skewed --window 4s --step 1s`
    """
    from freshkeeper.commands.options import duration
    from freshkeeper.simulator.trace.describe import describe as measure
    from freshkeeper.simulator.trace.describe import text
    from freshkeeper.simulator.trace.trace import read_trace

    found = measure(read_trace(directory), duration("window", window), duration("step", step))
    if as_json:
        print_json(dict(found))
        return
    show(TextTable(str(directory), ["what", "how much"], [list(row) for row in text(found)]))


def convert(
    places: Annotated[
        list[Path],
        Argument(metavar="[MAPPING] OUT", help="a YAML file that maps files and columns; the directory to write"),
    ],
    arrivals: Annotated[str, Option(metavar="FILE[:TIME,KEY]", help=ARRIVALS)] = "",
    edges: Annotated[str, Option(metavar="FILE[:KEY,ENTRY]", help=EDGES)] = "",
    changes: Annotated[str, Option(metavar="FILE[:TIME,ENTRY[,VALUE]]", help=CHANGES)] = "",
    unit: Annotated[str, Option(help=UNIT)] = "",
    form: Annotated[str, Option("--format", help="csv, csv.gz or parquet")] = "csv",
    overwrite: Annotated[bool, Option(help="overwrite existing tables")] = False,
) -> None:
    """Turn foreign CSV, JSONL or Parquet files into a trace; changes may be derived from observations.

    Columns are conversion_from_options by a mapping, or behind the files, as in
    `freshkeeper trace convert out/mine --arrivals clicks.csv:at,product --changes prices.csv:at,product,price`

    Example: `freshkeeper trace convert mapping.yaml out/mine`, with a mapping such as
    `{arrivals: {file: posts.csv, time: at, unit: iso, sn: topic}, edges: {file: members.csv, sn: topic, sr: user},
    changes: {file: polls.csv, time: at, unit: iso, sr: user, value: followers, observations: true}}`
    """
    from freshkeeper.simulator.trace.convert import convert as translate
    from freshkeeper.simulator.trace.trace import write_trace

    *mapping, out = places
    if len(mapping) > 1 or bool(mapping) == bool(arrivals):
        raise ConfigError("give a mapping and what to write, or what to write and --arrivals FILE with --changes FILE")
    wanted, notes = conversion_from_options(arrivals, edges, changes, unit) if arrivals else (_mapped(mapping[0]), [])
    trace = translate(wanted, Path() if arrivals else mapping[0].parent)
    write_trace(trace, out, form, overwrite)
    for note in notes:
        say(note)
    say(f"{out}: {len(trace.arrivals):,} arrivals, {len(trace.edges):,} edges, {len(trace.changes):,} changes")


def conversion_from_options(arrivals: str, edges: str, changes: str, unit: str) -> "tuple[Conversion, list[str]]":
    """Return the conversion that the options describe, and notes on how files were read."""
    from typing import get_args

    from freshkeeper.simulator.trace.convert import Unit
    from freshkeeper.simulator.trace.event_files import NamedFile
    from freshkeeper.simulator.trace.named_columns import conversion

    units = get_args(get_args(Unit)[0])
    if unit and unit not in units:
        raise ConfigError(f"--unit {unit}: it must be one of {', '.join(units)}")
    needs, history = (NamedFile.of(written) if written else None for written in (edges, changes))
    return conversion(NamedFile.of(arrivals), needs, history, next((one for one in units if one == unit), None))


def trace_of_files(trace: Path, arrivals: str, edges: str, changes: str, unit: str = "") -> list[str]:
    """Write the trace that files hold, and return notes on how they were read."""
    from freshkeeper.simulator.trace.convert import convert as translate
    from freshkeeper.simulator.trace.trace import write_trace

    wanted, notes = conversion_from_options(arrivals, edges, changes, unit)
    write_trace(translate(wanted, Path()), trace, "parquet", overwrite=True)
    return notes


def _mapped(mapping: Path) -> "Conversion":
    from freshkeeper.maintenance.base.validation import validated
    from freshkeeper.maintenance.base.yaml_file import read_yaml
    from freshkeeper.simulator.trace.convert import Conversion

    return validated(Conversion, read_yaml(mapping), f"{mapping}: ")
