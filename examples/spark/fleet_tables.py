"""The tables of a fleet's report, merged by Spark (3.5 or later) out of what `cqlens export --parquet` has written.

    cqlens export --from s3://reviews/cqlens --since 30d --parquet windows
    spark-submit fleet_tables.py windows tables

Leaves JSON lines in tables/statements, tables/tables and tables/applications: what `cqlens report` has of the same windows. Counts and means are
exact, quantiles within 1 %, distinct partitions the same estimate, since the sketches are merged and not the estimates.
"""

import sys

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f

QUANTILES = {"p50": 0.5, "p99": 0.99}


def quantiles(rows: DataFrame, keys: list[str], column: str) -> DataFrame:
    """The smallest value that at least this share of all values does not exceed, by key: bins of all windows are added up first."""
    bins = (
        rows.select(*keys, f.explode(f"{column}.bins").alias("value", "times"))
        .groupBy(*keys, "value")
        .agg(f.sum("times").alias("times"))
    )
    whole = Window.partitionBy(*keys)
    upwards = whole.orderBy("value").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    ranked = bins.withColumns({"below": f.sum("times").over(upwards), "all": f.sum("times").over(whole)})
    found = [
        f.min(f.when(f.col("below") >= f.ceil(f.lit(share) * f.col("all")), f.col("value"))).alias(f"{column}_{name}")
        for name, share in QUANTILES.items()
    ]
    return ranked.groupBy(*keys).agg(*found)


def statements(patterns: DataFrame) -> DataFrame:
    """One row for each statement of a cluster, without those on system keyspaces, which drivers send on their own."""
    patterns = patterns.where("not system")
    keys = ["cluster", "pattern"]
    merged = patterns.groupBy(*keys).agg(
        f.first("cql").alias("cql"),
        f.first("kind").alias("kind"),
        f.first("keyspace").alias("keyspace"),
        f.first("table").alias("table"),
        f.sum("count").alias("count"),
        f.sum("errors").alias("errors"),
        f.sum("reads").alias("reads"),
        f.sum("partitions.sum").alias("partitions"),
        f.sum("rows.sum").alias("rows"),
        (f.sum("latency_us.sum") / f.sum("latency_us.count")).alias("latency_us_mean"),
        f.max("latency_us.max").alias("latency_us_max"),
    )
    return merged.join(quantiles(patterns, keys, "latency_us"), keys, "left").orderBy("cluster", f.desc("count"), "pattern")


def tables(rows: DataFrame) -> DataFrame:
    """One row for each table of a cluster. Sketches of several keys of the hashes do not merge: `windows.key_id` must be one."""
    return (
        rows.groupBy("cluster", "keyspace", "table")
        .agg(
            f.sum("reads").alias("reads"),
            f.sum("writes").alias("writes"),
            f.sum("partitions_per_read.sum").alias("partitions_read"),
            f.hll_sketch_estimate(f.hll_union_agg("distinct_partitions")).alias("distinct_partitions"),
        )
        .orderBy("cluster", "keyspace", "table")
    )


def applications(clients: DataFrame) -> DataFrame:
    """One row for each application of a cluster."""
    merged = clients.groupBy("cluster", "application").agg(f.sum("requests").alias("requests"))
    return merged.orderBy("cluster", f.desc("requests"), "application")


def main(source: str, target: str) -> None:
    spark = SparkSession.builder.appName("cqlens").getOrCreate()
    read = {name: spark.read.parquet(f"{source}/{name}") for name in ("windows", "patterns", "tables", "clients")}
    keys = read["windows"].groupBy("cluster").agg(f.countDistinct("key_id").alias("keys")).where("keys > 1").collect()
    for row in keys:
        print(f"{row.cluster}: windows of {row.keys} hash keys: a partition seen by several counts twice", file=sys.stderr)
    made = {
        "statements": statements(read["patterns"]),
        "tables": tables(read["tables"]),
        "applications": applications(read["clients"]),
    }
    for name, rows in made.items():
        rows.coalesce(1).write.mode("overwrite").json(f"{target}/{name}")
    spark.stop()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
