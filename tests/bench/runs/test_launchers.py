"""What results tell of how the load was started."""

from __future__ import annotations

import pytest

from highwater.bench.runs.launchers import told_arguments, told_settings


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--spark-conf", "spark.ssl.keyPassword=a=b"], ["--spark-conf", "spark.ssl.keyPassword=(secret)"]),
        (["--spark-conf=spark.hadoop.fs.s3a.secret.key=x"], ["--spark-conf=spark.hadoop.fs.s3a.secret.key=(secret)"]),
        (["--spark-conf", "spark.executor.cores=2"], ["--spark-conf", "spark.executor.cores=2"]),
        (
            ["--spark-conf", "spark.executor.extraJavaOptions=-Dkey.storePassword=x"],
            ["--spark-conf", "spark.executor.extraJavaOptions=(secret)"],
        ),
        (["run", "password.yaml", "--out=token", "a.key=b"], ["run", "password.yaml", "--out=token", "a.key=b"]),
    ],
)
def test_no_secret_of_the_command_line_is_told(given: list[str], told: list[str]) -> None:
    assert told_arguments(given) == told


def test_settings_are_told_by_the_same_rule() -> None:
    settings = {"spark.executor.cores": "2", "spark.authenticate.secret": "x", "spark.hadoop.fs.s3a.access.key": "y"}
    assert told_settings(settings) == {
        "spark.executor.cores": "2",
        "spark.authenticate.secret": "(secret)",
        "spark.hadoop.fs.s3a.access.key": "(secret)",
    }
