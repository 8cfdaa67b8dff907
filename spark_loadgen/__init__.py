"""The load generator: producer and consumer load from Spark executors or plain processes.

It needs `common` and the histogram of `results`, which Spark ships to executors with it.
"""

from highwater.spark_loadgen.delivery import Delivery, GroupDelivery
from highwater.spark_loadgen.errors import LoadFailed, LoadSetupError
from highwater.spark_loadgen.launcher import SparkLauncher
from highwater.spark_loadgen.model import (
    BacklogReport,
    Event,
    GeneratorReport,
    LoadPlan,
    LoadResult,
    PartitionCounts,
    Progress,
    Second,
    SteadyReport,
    SteadyWarmup,
    TaskReport,
    TelemetryReport,
    TelemetryTarget,
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
from highwater.spark_loadgen.traces import TracedArrivals, TracedHeaders, TracedKeys, TracedSizes

__all__ = [
    "BacklogReport",
    "Delivery",
    "Event",
    "FilePayload",
    "FixedSize",
    "GeneratedPayload",
    "GeneratorReport",
    "GroupDelivery",
    "Headers",
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
    "TaskReport",
    "TelemetryReport",
    "TelemetryTarget",
    "TracedArrivals",
    "TracedHeaders",
    "TracedKeys",
    "TracedSizes",
    "TransactionPlan",
    "TransactionReport",
    "UniformSizes",
    "WeightedSizes",
    "ZipfKeys",
]
