"""No byte of a record, of a header or of a client is in a trace."""

from __future__ import annotations

import random
import string
from pathlib import Path

from typer.testing import CliRunner

from highwater.studies.commands.capture import app
from tests.studies.capture.logs import batch, partition_folder, record

_LEAST = 6


def secret(chosen: random.Random, length: int) -> str:
    return "".join(chosen.choice(string.ascii_letters) for _ in range(length))


def test_no_secret_of_a_record_is_in_any_file_of_a_trace(tmp_path: Path) -> None:
    chosen = random.Random(27)
    secrets = [secret(chosen, chosen.randrange(8, 60)) for _ in range(400)]
    topic = "topic-of-" + secret(chosen, 12)
    batches, offset = [], 0
    for number in range(0, 400, 8):
        records = [
            record(
                number * 10,
                secrets[at].encode(),
                (secrets[at + 1] * 3).encode(),
                (secrets[at + 2], secrets[at + 3].encode()),
                ("client.id", secrets[at].encode()),
            )
            for at in range(number, number + 5)
        ]
        # A few keys come often: their ranks are kept, and their names are not.
        records += [record(number * 10 + 1, secrets[0].encode(), b"%d" % at) for at in range(20)]
        batches.append(batch(offset, records, producer_id=987_654_321_012 + number))
        offset += len(records)
    partition_folder(tmp_path / "host-of-the-broker", f"{topic}-0", b"".join(batches))
    out = tmp_path / "trace"
    found = CliRunner().invoke(app, [str(tmp_path / "host-of-the-broker"), "--out", str(out)])
    assert found.exit_code == 0, found.output

    content = b"\n".join(path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file())
    planted = [
        *secrets,
        topic,
        "host-of-the-broker",
        "987654321012",
        *(str(987_654_321_012 + n) for n in range(0, 400, 8)),
    ]
    pieces = {text[at : at + _LEAST] for text in planted for at in range(len(text) - _LEAST + 1)}
    assert [piece for piece in pieces if piece.encode() in content] == []
    # What a search would find, were it there.
    assert b"captured" in content
