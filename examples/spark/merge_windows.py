"""Snapshots of a fleet, merged by cqlens itself on the machines of Spark: one snapshot for each day, as input for `cqlens report`.

    spark-submit --files cqlens merge_windows.py snapshots merged
    cqlens report merged -o month.html

`snapshots` has a folder for each day, as `--sink` writes them: DAY/SOURCE/*.cqlens.json.gz. What cqlens merges is associative, so the report has the same
findings and figures as one of all snapshots, and the one machine that makes it reads thirty files instead of hundreds of thousands. Folders must be
mounted on all machines; the program is found in PATH, or beside the script with --files.
"""

import subprocess
import sys
from pathlib import Path

from pyspark import SparkFiles
from pyspark.sql import SparkSession


def program() -> str:
    """cqlens, as it was sent along or is installed."""
    sent = Path(SparkFiles.getRootDirectory()) / "cqlens"
    return str(sent) if sent.exists() else "cqlens"


def merge(day: str, target: str) -> str:
    """All snapshots of a day as one."""
    sources = sorted(str(source) for source in Path(day).iterdir() if source.is_dir())
    merged = f"{target}/{Path(day).name}.cqlens.json.gz"
    done = subprocess.run([program(), "export", *sources, "--snapshot", merged], stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{day}: {done.stderr}")
    return merged


def main(source: str, target: str) -> None:
    spark = SparkSession.builder.appName("cqlens").getOrCreate()
    Path(target).mkdir(parents=True, exist_ok=True)
    days = sorted(str(day) for day in Path(source).iterdir() if day.is_dir())
    merged = spark.sparkContext.parallelize(days, max(len(days), 1)).map(lambda day: merge(day, target)).collect()
    print(f"{len(merged)} days in {target}")
    spark.stop()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
