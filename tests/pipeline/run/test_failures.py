"""Errors of Spark as one line and an exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.pipeline.errors import ClientError, DataLossError, SettingsError
from highwater.pipeline.run.failures import exit_code_of, first_error_in, not_accepted, reason_of, refusal_in

SAME_SETTINGS = "spark.authenticate*, spark.ssl.rpc.* and spark.network.crypto.* have to be those of the master"
IN_A_TASK = """\
[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted. SQLSTATE: XXKST
Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/x/worker.py", line 2020, in main
highwater.pipeline.errors.DataLossError: orders-0: the log begins at 7; failOnDataLoss=false goes on with what is there

\tat org.apache.spark.sql.Here(Here.scala:1)
"""
OF_A_USER = """\
An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "steps.py", line 3, in score
ZeroDivisionError: division by zero
"""


@pytest.mark.parametrize(
    ("error", "line", "code"),
    [
        (SettingsError("a.yaml:3: no"), "a.yaml:3: no", 2),
        (DataLossError("gone"), "gone; failOnDataLoss=false goes on with what is there", 3),
        (ClientError("no broker"), "no broker", 5),
        (RuntimeError(IN_A_TASK), IN_A_TASK.splitlines()[3].partition(": ")[2], 3),
        (RuntimeError(OF_A_USER), "ZeroDivisionError: division by zero", 5),
        (
            RuntimeError(
                "org.apache.spark.sql.AnalysisException: [UNRESOLVED_COLUMN] no column x. SQLSTATE: 42703; line 1"
            ),
            "[UNRESOLVED_COLUMN] no column x.",
            5,
        ),
        (RuntimeError(""), "RuntimeError", 5),
        (ZeroDivisionError("division by zero"), "ZeroDivisionError: division by zero", 5),
        (
            RuntimeError("[X] Multiple streaming jobs detected for 3."),
            "[X] Multiple streaming jobs detected for 3; another query runs with this checkpoint: stop one of them",
            5,
        ),
        (
            RuntimeError("The driver worker exited unexpectedly (crashed)."),
            "The driver worker exited unexpectedly (crashed); Spark's workers may lack protobuf: pip install protobuf",
            5,
        ),
    ],
)
def test_the_useful_line_and_the_code(error: Exception, line: str, code: int) -> None:
    assert (reason_of(error), exit_code_of(error)) == (line, code)


def test_the_log_of_java_is_read_for_its_first_error(tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    assert first_error_in(log) == "it printed nothing"
    log.write_text('starting\nException in thread "main" java.lang.Boom: no\n\tat x.Y.z(Y.java:1)\nend\n')
    assert first_error_in(log) == "java.lang.Boom: no"


OF_A_MASTER = """\
26/11/25 19:21:03 ERROR TransportClientFactory: Exception while bootstrapping client after 421 ms
java.lang.RuntimeException: java.io.IOException: Connection reset by peer
Caused by: java.io.IOException: Connection reset by peer
26/11/25 19:21:03 WARN StandaloneAppClient$ClientEndpoint: Failed to connect to master a:7077
"""


def test_a_master_refuses_if_none_of_its_addresses_takes_the_application() -> None:
    assert refusal_in(OF_A_MASTER, "local[2]") is None
    assert refusal_in(OF_A_MASTER, "spark://a:7077,b:7077") is None
    both = OF_A_MASTER + OF_A_MASTER.replace("a:7077", "b:7077")
    for log, master in ((OF_A_MASTER, "spark://a:7077"), (both, "spark://a:7077,b:7077")):
        assert refusal_in(log, master) == (
            f"the Spark master {master} refuses this application: Connection reset by peer; {SAME_SETTINGS}"
        )


def test_another_secret_is_named() -> None:
    log = OF_A_MASTER.replace("java.io.IOException: Connection reset by peer", "javax.security.sasl.SaslException: no")
    told = "the Spark master spark://a:7077 refuses spark.authenticate.secret: it has another one"
    assert refusal_in(log, "spark://a:7077") == told


def test_a_master_that_stays_silent() -> None:
    assert not_accepted("spark://a:7077") == (
        f"the Spark master spark://a:7077 did not accept this application; {SAME_SETTINGS}"
    )
