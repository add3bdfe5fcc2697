"""Files where Spark runs, and that one file alone knows what PySpark keeps for itself."""

import re
from pathlib import Path

from pyspark.sql import SparkSession

from freshkeeper.maintenance.analysis.cluster_files import ClusterFiles

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = (
    "freshkeeper/commands",
    "simulator",
    "maintenance",
    "policies",
    "benchmarks",
    "notebooks",
    "scripts",
    "tests",
)


def test_directories_are_put_fetched_and_removed_and_what_is_not_there_is_no_error(
    spark: SparkSession, tmp_path: Path
) -> None:
    files, place = ClusterFiles(spark), f"file://{tmp_path}/there"
    for text in ("first", "second"):
        (tmp_path / "made" / "deep").mkdir(parents=True, exist_ok=True)
        (tmp_path / "made" / "deep" / "a.txt").write_text(text)
        files.put(tmp_path / "made", place)
    files.fetch(place, tmp_path / "fetched")
    assert (tmp_path / "fetched" / "deep" / "a.txt").read_text() == "second"
    files.remove(place)
    files.remove(place)
    assert not (tmp_path / "there").exists()
    files.fetch(place, tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


def test_one_file_alone_takes_the_jvm_that_a_session_keeps_for_itself() -> None:
    own = re.compile(r"\._(jvm|jsc|jsparkSession|jdf|gateway)\b")
    files = [file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")]
    assert len(files) > 500
    assert [file.name for file in files if own.search(file.read_text("utf-8"))] == ["cluster_files.py"]
