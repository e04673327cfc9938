"""Found by Spark by its name: `spark.read.format("kinspect")` works without registering anything."""

from kinspect.spark.datasource import CaptureSource as DefaultSource

__all__ = ["DefaultSource"]
