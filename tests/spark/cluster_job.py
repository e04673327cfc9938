"""Run by test_cluster.py: the exchanges of captures on a cluster, as JSON lines.

Tells on standard error when the first tasks that decode are done.
"""

import sys
import threading
import time

import orjson
from pyspark.sql import SparkSession

import kinspect.spark

master, partitions, *paths = sys.argv[1:]
settings = {
    "spark.driver.memory": "1g",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
}
builder = SparkSession.builder.master(master)
for name, value in settings.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
frame = kinspect.spark.read(
    spark, paths, partitions=int(partitions), fields=["api", "response.body", "topics"]
)


def watch():
    tracker = spark.sparkContext.statusTracker()
    while True:
        for stage in tracker.getActiveStageIds():
            info = tracker.getStageInfo(stage)
            if info and info.numTasks == int(partitions) and info.numCompletedTasks >= 2:
                print("DECODING", file=sys.stderr, flush=True)
                return
        time.sleep(0.02)


threading.Thread(target=watch, daemon=True).start()
rows = frame.collect()
for row in sorted(rows, key=lambda row: row["completion"]):
    sys.stdout.buffer.write(
        orjson.dumps([row["api"], row["topics"], row["response"]["body"] if row["response"] else None])
    )
    sys.stdout.buffer.write(b"\n")
sys.stdout.flush()
spark.stop()
