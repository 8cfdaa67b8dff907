"""Producer and consumer load from Spark executors; imports no other room, so that it can be shipped on its own."""

from spark_loadgen.delivery import Delivery
from spark_loadgen.histogram import Histogram
from spark_loadgen.launcher import SparkLauncher
from spark_loadgen.model import (
    FilePayload,
    GeneratedPayload,
    Generator,
    LoadFailed,
    LoadPlan,
    LoadResult,
    LoadSetupError,
    Progress,
    TaskDetails,
)

__all__ = [
    "Delivery",
    "FilePayload",
    "GeneratedPayload",
    "Generator",
    "Histogram",
    "LoadFailed",
    "LoadPlan",
    "LoadResult",
    "LoadSetupError",
    "Progress",
    "SparkLauncher",
    "TaskDetails",
]
