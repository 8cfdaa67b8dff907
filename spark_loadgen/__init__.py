"""Producer and consumer load from Spark executors; imports no other room, so that it can be shipped on its own."""

from highwater.spark_loadgen.delivery import Delivery, GroupDelivery
from highwater.spark_loadgen.errors import LoadFailed, LoadSetupError
from highwater.spark_loadgen.histogram import Histogram
from highwater.spark_loadgen.launcher import SparkLauncher
from highwater.spark_loadgen.model import (
    BacklogReport,
    Event,
    Generator,
    LoadPlan,
    LoadResult,
    PartitionCounts,
    Progress,
    Second,
    SteadyReport,
    SteadyWarmup,
    TaskDetails,
    TransactionPlan,
    TransactionReport,
)
from highwater.spark_loadgen.process_launcher import ProcessLauncher
from highwater.spark_loadgen.records import (
    FilePayload,
    FixedSize,
    GeneratedPayload,
    Headers,
    Keys,
    RandomKeys,
    RoundRobinKeys,
    Sizes,
    UniformSizes,
    WeightedSizes,
    ZipfKeys,
)
from highwater.spark_loadgen.schedule import OpenSchedule, Step

__all__ = [
    "BacklogReport",
    "Delivery",
    "Event",
    "FilePayload",
    "FixedSize",
    "GeneratedPayload",
    "Generator",
    "GroupDelivery",
    "Headers",
    "Histogram",
    "Keys",
    "LoadFailed",
    "LoadPlan",
    "LoadResult",
    "LoadSetupError",
    "OpenSchedule",
    "PartitionCounts",
    "ProcessLauncher",
    "Progress",
    "RandomKeys",
    "RoundRobinKeys",
    "Second",
    "Sizes",
    "SparkLauncher",
    "SteadyReport",
    "SteadyWarmup",
    "Step",
    "TaskDetails",
    "TransactionPlan",
    "TransactionReport",
    "UniformSizes",
    "WeightedSizes",
    "ZipfKeys",
]
