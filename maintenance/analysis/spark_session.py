"""The Spark session that everything shares: local by default, any master and `spark.*` settings on request.

Quiet logs, this interpreter on the executors, and stack enough on the driver to stop queries over Python data sources.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from freshkeeper.maintenance.base.errors import ConfigError, naming_extra

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEAST_JAVA = 17
HOW_TO_GET_JAVA = (
    f"Spark needs Java {LEAST_JAVA} or newer: install it (openjdk-17-jre-headless on Debian and Ubuntu) "
    "or set JAVA_HOME"
)
QUIET = f"-Dlog4j2.configurationFile={Path(__file__).resolve().with_name('log4j2.properties').as_uri()}"
SETTINGS = {
    "spark.driver.extraJavaOptions": f"-Xss16m {QUIET}",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def spark_session(master: str = "local[*]", settings: Mapping[str, str] | None = None) -> "SparkSession":
    """Return the running session or a new one; raise ConfigError if Java or PySpark is missing."""
    java = java_version()
    if java is None or java < LEAST_JAVA:
        raise ConfigError(HOW_TO_GET_JAVA + ("" if java is None else f" (found Java {java})"))
    with naming_extra("Spark"):
        from pyspark.sql import SparkSession
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.Builder().appName("freshkeeper").master(master)
    for key, value in {**SETTINGS, **(settings or {})}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def first_words(error: Exception) -> str:
    """Return what an error of Spark says: the last line of a Python traceback, or the first line of a Java one."""
    lines = [line.strip(" :") for line in str(error).splitlines() if line.strip(" :")]
    if any(line.startswith("Traceback (most recent call last)") for line in lines):
        return lines[-1]
    return next((line for line in lines if not line.startswith("An error occurred")), "it does not say why")


def java_version() -> int | None:
    """Return the major version of the Java that Spark would start, or None."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else None)
    if java is None:
        return None
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'"(?:1\.)?(\d+)', said)
    return int(found[1]) if found else None
