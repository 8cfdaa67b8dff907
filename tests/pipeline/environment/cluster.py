"""A standalone Spark with a secret and TLS, whose executors have a Python without any package, and a broker."""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12
from cryptography.x509.oid import NameOID

from highwater.common.java_properties import format_properties
from tests.broker.running import running_broker
from tests.pipeline.source.topics import Topics
from tests.spark_loadgen.standalone import standalone_spark

SECRET: Final = "a-secret-of-this-cluster"  # noqa: S105 - of a test
PASSWORD: Final = "a-password-of-the-stores"  # noqa: S105 - of a test
RECORDS: Final = 300


@dataclass(frozen=True, slots=True)
class Cluster:
    """master: its URL. settings: of Spark, with the secret. folder: where environment/ and its archive are."""

    master: str
    settings: dict[str, str]
    folder: Path
    topics: Topics

    def run(self, *command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        """In the folder, as a user would."""
        return subprocess.run(
            list(map(str, command)),
            cwd=self.folder,
            env={
                **os.environ,
                "PYSPARK_DRIVER_PYTHON": sys.executable,
                "PYSPARK_PYTHON": "./environment/bin/python",
                "SPARK_LOCAL_IP": "127.0.0.1",
                **environment,
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=1200,
        )


@contextmanager
def secured_cluster(scratch: Path) -> Iterator[Cluster]:
    bare = scratch / "bare"
    venv.create(bare, with_pip=False)
    settings = secured(scratch)
    with (
        running_broker(scratch / "log") as broker,
        standalone_spark(scratch / "spark", settings, f"{bare}/bin:/usr/bin:/bin") as spark,
    ):
        spark.start_worker(cores=2)
        topics = Topics(broker.address)
        topics.create("numbers", 2)
        topics.produce("numbers", RECORDS)
        folder = scratch / "user"
        folder.mkdir()
        (folder / "spark.properties").write_text(format_properties(settings))
        yield Cluster(spark.url, settings, folder, topics)


def secured(scratch: Path) -> dict[str, str]:
    """Settings for a master, its workers and its applications, with the files that they name."""
    key, trust = scratch / "key.p12", scratch / "trust.p12"
    own = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "spark")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(own.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(own, hashes.SHA256())
    )
    locked = BestAvailableEncryption(PASSWORD.encode())
    key.write_bytes(pkcs12.serialize_key_and_certificates(b"spark", own, certificate, None, locked))
    trusted = pkcs12.PKCS12Certificate(certificate, b"spark")
    trust.write_bytes(pkcs12.serialize_java_truststore([trusted], locked))
    return {
        "spark.authenticate": "true",
        "spark.authenticate.secret": SECRET,
        "spark.ssl.rpc.enabled": "true",
        "spark.ssl.rpc.keyStore": str(key),
        "spark.ssl.rpc.keyStorePassword": PASSWORD,
        "spark.ssl.rpc.keyPassword": PASSWORD,
        "spark.ssl.rpc.trustStore": str(trust),
        "spark.ssl.rpc.trustStorePassword": PASSWORD,
        "spark.ssl.rpc.protocol": "TLSv1.3",
    }
