"""Rows on their way to the driver, of a query that is not deterministic, when what an executor had is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from highwater.pipeline.sink import arrow_pieces as arrow_pieces_module
from highwater.pipeline.sink.arrow_pieces import arrow_pieces
from highwater.pipeline.sink.errors import TaskLostError
from tests.pipeline.spark_session import spark_session

pytestmark = [pytest.mark.slow, pytest.mark.spark]

ROWS = 2000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="module")
def spark(folder: Path) -> Iterator[SparkSession]:
    # Many pieces in several partitions: the driver takes one partition, and the next one meanwhile.
    many = {"spark__default__parallelism": "6", "spark__sql__execution__arrow__maxRecordsPerBatch": "10"}
    with spark_session(folder, spark__master="local[2]", **many) as session:
        yield session


@pytest.fixture
def shuffled(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> DataFrame:
    """Each row goes to another partition whenever it is computed; taken as from executors on other hosts."""
    monkeypatch.setattr(arrow_pieces_module, "runs_in_one_process", lambda _: False)

    def anywhere(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import random

        for batch in batches:
            places = [random.randrange(4) for _ in range(batch.num_rows)]
            yield pa.RecordBatch.from_pydict({"id": batch.column(0), "place": pa.array(places, pa.int64())})

    return spark.range(0, ROWS, 1, 4).mapInArrow(anywhere, "id long, place long").repartition(4, "place")


def ids(pieces: Iterator[pa.RecordBatch]) -> list[int]:
    return [each for piece in pieces for each in piece.column(0).to_pylist()]


def test_every_row_once(shuffled: DataFrame) -> None:
    assert sorted(ids(arrow_pieces(shuffled))) == list(range(ROWS))


def test_rows_that_are_computed_again_are_refused(shuffled: DataFrame, folder: Path) -> None:
    """Without that, some rows of the batch would be there twice, and others would be missing."""
    pieces = arrow_pieces(shuffled)
    next(pieces)
    for file in folder.rglob("shuffle_*"):
        file.unlink()
    with pytest.raises(TaskLostError, match=r"^rows were computed a second time"):
        ids(pieces)
