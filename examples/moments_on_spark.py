"""Moments and sample of partitions on Spark: map, then reduce; the fit runs on the driver.

Run with `pip install pyspark` and a Java runtime: python examples/moments_on_spark.py
"""

import os
import sys

import numpy as np
from pyspark.sql import SparkSession

from attnclust import AttentionClustering


def rows_of(number, n=20_000):
    """Rows of a partition, as a reader of your files would give them; centres are 0, 3, 6 and 9."""
    rng = np.random.default_rng(number)
    return 3.0 * rng.integers(0, 4, n)[:, None] + rng.standard_normal((n, 8))


def gather(number, partition):
    """The state of a partition: moments and a sample. Of a data frame, stack its rows."""
    parts = [rows_of(seed) for seed in partition]
    if parts:
        rows = np.concatenate(parts)
        yield AttentionClustering(4, random_state=0).gather(rows, stream=number)


def main():
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # of local[2]: one machine
    spark = (
        SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    )
    seeds = spark.sparkContext.parallelize(range(8), 8)
    state = seeds.mapPartitionsWithIndex(gather).treeReduce(lambda a, b: a + b)
    model = AttentionClustering(4, random_state=0).fit_state(state)
    print(state.n_rows, "rows; centres", np.sort(model.cluster_centers_.mean(1)).round(2))
    spark.stop()


if __name__ == "__main__":
    main()
