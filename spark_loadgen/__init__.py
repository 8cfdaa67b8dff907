"""Producer and consumer load from Spark executors; imports no other room, so that it can be shipped on its own."""

from spark_loadgen.delivery import Delivery
from spark_loadgen.errors import LoadFailed, LoadSetupError
from spark_loadgen.histogram import Histogram
from spark_loadgen.launcher import SparkLauncher
from spark_loadgen.model import (
    Generator,
    LoadPlan,
    LoadResult,
    Progress,
    SteadyWarmup,
    TaskDetails,
    TransactionPlan,
    TransactionReport,
)
from spark_loadgen.records import (
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
from spark_loadgen.schedule import OpenSchedule, Step

__all__ = [
    "Delivery",
    "FilePayload",
    "FixedSize",
    "GeneratedPayload",
    "Generator",
    "Headers",
    "Histogram",
    "Keys",
    "LoadFailed",
    "LoadPlan",
    "LoadResult",
    "LoadSetupError",
    "OpenSchedule",
    "Progress",
    "RandomKeys",
    "RoundRobinKeys",
    "Sizes",
    "SparkLauncher",
    "SteadyWarmup",
    "Step",
    "TaskDetails",
    "TransactionPlan",
    "TransactionReport",
    "UniformSizes",
    "WeightedSizes",
    "ZipfKeys",
]
