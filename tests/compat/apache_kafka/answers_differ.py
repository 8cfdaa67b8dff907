"""Compares the answers of Apache Kafka 3.9 and of our broker to a thousand requests with what is recorded.

    .venv/bin/python -m tests.compat.apache_kafka.answers_differ             both; exit status 1 if anything is new
    .venv/bin/python -m tests.compat.apache_kafka.answers_differ --ours      our broker alone, without Java
    .venv/bin/python -m tests.compat.apache_kafka.answers_differ --record    writes what Kafka answers, and what differs

`recorded/answers.txt` is what Kafka answers. `recorded/answers_differ.txt` has a line for each request that ours
answers otherwise, KAFKA'S WORDS -> OURS, below a line that says why: a new one is recorded as UNSORTED, which a test
refuses.
"""

from __future__ import annotations

import difflib
import re
import sys
import tempfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.broker.running import running_broker
from tests.compat.apache_kafka.answers.script import DEADLINE_S, PROPERTIES, THEN, Connection
from tests.compat.apache_kafka.answers.story import tell
from tests.compat.apache_kafka.server import running_kafka, running_zookeeper
from tests.waiting import wait_until

RECORDED: Final = Path(__file__).with_name("recorded")
ANSWERS: Final = RECORDED / "answers.txt"
DIFFERENCES: Final = RECORDED / "answers_differ.txt"
UNSORTED: Final = "not sorted yet"
_MOST: Final = 160
"""Characters of a difference that are kept; what is longer has its length and its CRC-32 too."""
_VERSIONS: Final = re.compile(r" v(\d+)(?:-(\d+))?(?= )")
_MEMBER: Final = re.compile(r"<m\d+>")
_WORD: Final = re.compile(r"[()\[\]]|[^\s()\[\]]+")
_BROKER: Final = 4
_DYNAMIC, _DYNAMIC_DEFAULT = 2, 3


class PatientConnection(Connection):
    """A connection to Kafka, which tells its own broker of that broker's settings after it has answered."""

    def ask(self, api: str, version: int, /, **fields: Any) -> Any:
        answer = super().ask(api, version, **fields)
        if api == "incremental_alter_configs" and not any(each.error_code for each in answer.responses):
            for resource in fields["resources"]:
                if resource["resource_type"] == _BROKER:
                    wait_until(partial(self._has, resource), f"Kafka's broker has {resource}", DEADLINE_S)
        return answer

    def _has(self, resource: Mapping[str, Any]) -> bool:
        """Whether the broker has these settings: it hears of them by a watch in ZooKeeper, in its own time."""
        name = resource["resource_name"]
        source = _DYNAMIC if name else _DYNAMIC_DEFAULT
        wanted = {each["name"]: each["value"] for each in resource["configs"]}
        asked = {"resource_type": _BROKER, "resource_name": name, "configuration_keys": list(wanted)}
        (told,) = super().ask("describe_configs", 4, resources=[asked], include_synonyms=True).results
        found = {
            config.name: synonym.value or wanted[config.name]  # Kafka shows no value of a setting that it does not know
            for config in told.configs
            for synonym in config.synonyms
            if synonym.source == source
        }
        return found == {key: value for key, value in wanted.items() if value is not None}


def of_kafka(directory: Path) -> str:
    (directory / "log").mkdir()
    with (
        running_zookeeper(directory) as zookeeper,
        running_kafka(directory / "log", zookeeper, PROPERTIES) as kafka,
    ):
        return tell(PatientConnection(kafka.port).ask)


def of_ours(directory: Path) -> str:
    properties = [f"{key}={value}" for key, value in PROPERTIES.items()]
    with running_broker(directory / "ours", properties=properties) as broker:
        return tell(Connection(broker.port).ask)


def by_request(text: str) -> dict[tuple[str, int], str]:
    """The answer to each request in each version, by its text without the version; members have no numbers."""
    found: dict[tuple[str, int], str] = {}
    for line in text.splitlines():
        asked, is_answer, answer = line.partition(THEN)
        if not is_answer:
            continue
        versions = _VERSIONS.search(asked)
        first, last = (0, 0) if versions is None else (int(versions[1]), int(versions[2] or versions[1]))
        request = base = asked if versions is None else asked.replace(versions[0], "", 1)
        count = 1
        while (request, first) in found:
            count += 1
            request = f"{base} (time {count})"
        found |= {(request, version): _MEMBER.sub("<m>", answer) for version in range(first, last + 1)}
    return found


def differences(kafkas: str, ours: str) -> list[str]:
    """A line for each request that is answered otherwise: its versions, and what stands there in place of what."""
    of_kafka, of_ours = by_request(kafkas), by_request(ours)
    versions: dict[tuple[str, str], list[int]] = {}
    for request, version in (*of_kafka, *(each for each in of_ours if each not in of_kafka)):
        told = tuple(each.get((request, version), "not asked") for each in (of_kafka, of_ours))
        if told[0] != told[1]:
            versions.setdefault((request, _changes(*told)), []).append(version)
    return [f"{request} v{min(of)}-{max(of)}: {changes}" for (request, changes), of in versions.items()]


def _changes(kafkas: str, ours: str) -> str:
    words = _WORD.findall(kafkas), _WORD.findall(ours)
    found = []
    for tag, *ends in difflib.SequenceMatcher(None, *words, autojunk=False).get_opcodes():
        if tag != "equal":
            first, end, our_first, our_end = ends
            found.append(f"{_short(words[0][first:end])} -> {_short(words[1][our_first:our_end])}")
    return "; ".join(found)


def _short(words: Sequence[str]) -> str:
    text = " ".join(words) or "nothing"
    if len(text) <= _MOST:
        return text
    return f"{text[:_MOST]}... ({len(text)} characters, {zlib.crc32(text.encode()):08x})"


def sorted_differences(text: str) -> dict[str, str]:
    """The reason of each, from lines below a line that begins with # and gives the reason."""
    reasons: dict[str, str] = {}
    reason = ""
    for line in text.splitlines():
        if line.startswith("# "):
            reason = line.removeprefix("# ")
        elif line:
            reasons[line] = reason
    return reasons


def text_of(reasons: dict[str, str]) -> str:
    parts = [
        "\n".join([f"# {reason}", *(line for line, its in reasons.items() if its == reason)])
        for reason in sorted(set(reasons.values()))
    ]
    return "\n\n".join(parts) + "\n"


def news(ours: str) -> list[str]:
    """What our broker's answers have that is not recorded, and what is recorded and gone."""
    known, found = sorted_differences(DIFFERENCES.read_text("utf-8")), differences(ANSWERS.read_text("utf-8"), ours)
    new = [f"not recorded: {line}" for line in found if line not in known]
    return new + [f"recorded, and is no more: {line}" for line in known if line not in found]


def changes_of_kafka(kafkas: str) -> list[str]:
    recorded = ANSWERS.read_text("utf-8")
    return [f"Kafka answers otherwise than is recorded: {line}" for line in differences(recorded, kafkas)]


def record(kafkas: str, ours: str) -> None:
    known = sorted_differences(DIFFERENCES.read_text("utf-8")) if DIFFERENCES.exists() else {}
    ANSWERS.write_text(kafkas, "utf-8")
    DIFFERENCES.write_text(text_of({line: known.get(line, UNSORTED) for line in differences(kafkas, ours)}), "utf-8")


def main(arguments: Sequence[str]) -> int:
    if unknown := [word for word in arguments if word not in ("--ours", "--record")]:
        sys.stderr.write(f"no such option: {', '.join(unknown)}; there are --ours and --record\n")
        return 2
    with tempfile.TemporaryDirectory() as name:
        kafkas = "" if "--ours" in arguments else of_kafka(Path(name))
        ours = of_ours(Path(name))
    if "--record" in arguments:
        record(kafkas, ours)
        return 0
    found = [*(changes_of_kafka(kafkas) if kafkas else ()), *news(ours)]
    write(found)
    return 1 if found else 0


def write(found: Iterable[str]) -> None:
    sys.stdout.writelines(f"{each}\n" for each in found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
