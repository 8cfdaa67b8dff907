"""Brokers of a test run: stopped, killed, and started again with the same log at the same address."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

from highwater.broker.commands.ephemeral import FOR_TESTS
from highwater.broker.faults.client import Faults
from highwater.common.child_process import last_words_in, program
from highwater.common.errors import UsageError

_HOST: Final = "127.0.0.1"
_TRIES: Final = 100
_END_WITHIN_S: Final = 60.0
_MOST_PROCESSES: Final = 20
"""More on the host of a test are a mistake."""


Script = str | Mapping[str, Any]
"""A script of faults: YAML, or the mapping that it would be."""


class BrokerError(Exception):
    """A broker that does not start or is not there. The text is one line."""


class KafkaBroker:
    """A broker for a test, or several processes of one that clients see as a cluster of as many brokers."""

    def __init__(
        self, brokers: Brokers, folder: Path, settings: Mapping[str, str], log_level: str, faults: Script | bool
    ) -> None:
        self._brokers = brokers
        self._folder = folder
        self._log_level = log_level
        self._script = None if isinstance(faults, bool) else faults
        self.process_id: int | None = None
        """None after `stop` and `kill`."""
        self._held = ExitStack()
        processes = settings.get("highwater.processes", "")
        port = _hold_ports(self._held, 2 + (int(processes) if processes.isdigit() else 0))
        self._faults = Faults(f"{_HOST}:{port + 1}") if faults is not False else None
        defaults = {**FOR_TESTS, "listeners": f"PLAINTEXT://{_HOST}:{{port}}", "log.dirs": str(folder / "log")}
        self._settings = {name: text.replace("{port}", str(port)) for name, text in {**defaults, **settings}.items()}
        self._log_file = folder / "broker.log"
        self.bootstrap_servers = ""
        """HOST:PORT, the same over all restarts."""
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    @property
    def log(self) -> str:
        """What the broker has logged so far."""
        return self._log_file.read_text("utf-8", "replace")

    def stop(self) -> None:
        """Stop it in order, with SIGTERM."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it with SIGKILL, as if its host had lost it; what it has acknowledged is in its log after `restart`."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stop it if it runs, and start it with the same log at the same address. Raises BrokerError."""
        self.stop()
        self._start()

    @property
    def faults(self) -> Faults:
        """Where a test sets, clears and reads faults. Raises BrokerError if the broker was started without them."""
        if self._faults is None:
            raise BrokerError("this broker does not fail on command: start it with faults=True, or with a script")
        return self._faults

    def create_topic(
        self, name: str, partitions: int = 1, replication_factor: int = 1, config: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic and wait for it. Raises confluent_kafka.KafkaException."""
        # Here, as many tests create none.
        from confluent_kafka.admin import AdminClient
        from confluent_kafka.cimpl import NewTopic

        topic = NewTopic(name, partitions, replication_factor, config=dict(config or {}))
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        admin.create_topics([topic], operation_timeout=30)[name].result()

    def close(self) -> None:
        """Kill it and remove its log."""
        with suppress(BrokerError):
            self.kill()
        self._held.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self) -> None:
        order = {"settings": self._settings, "log": str(self._log_file), "log_level": self._log_level}
        answer = self._brokers.ask({**order, "faults": None if self._faults is None else self._faults.address})
        if not answer["address"]:
            raise BrokerError(f"the broker does not start: {last_words_in(self._log_file)}")
        self.process_id, self.bootstrap_servers = answer["process_id"], answer["address"]
        if self._script is not None:
            try:
                self.faults.set(self._script)
            except UsageError as error:
                raise BrokerError(f"faults: {error}") from None

    def _end(self, number: signal.Signals) -> None:
        process_id, self.process_id = self.process_id, None
        if process_id is not None:
            self._brokers.ask({"end": process_id, "signal": number})


class Brokers:
    """Starts brokers of one test run, or of one `with` statement; its end ends all of them."""

    def __init__(self) -> None:
        """Start the template process; no call waits for it yet."""
        self._lock = threading.Lock()
        self._count = 0
        self._folder: Path | None = None
        self._template = subprocess.Popen(
            program("highwater.testing.template"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # Ctrl-C is for the tests, which end their brokers in their order.
            start_new_session=True,
        )

    def start(
        self,
        properties: Mapping[str, object] | None = None,
        processes: int | None = None,
        faults: Script | bool = False,
        log_level: str = "INFO",
    ) -> KafkaBroker:
        """Start a broker. `{port}` in a property is its port. Raises BrokerError.

        faults: whether it fails on command, or the script of faults that it has after each start.
        """
        settings = {name: _text(value) for name, value in (properties or {}).items()}
        if processes is not None:
            if not 1 <= processes <= _MOST_PROCESSES:
                raise BrokerError(f"processes={processes}: a test can have 1 to {_MOST_PROCESSES}")
            settings["highwater.processes"] = str(processes)
        with self._lock:
            if self._folder is None:
                self._folder = Path(self._answer()["folder"])
            self._count += 1
            folder = self._folder / str(self._count)
        return KafkaBroker(self, folder, settings, log_level, faults)

    @property
    def is_alive(self) -> bool:
        """Whether it can start brokers."""
        return self._template.poll() is None

    def ask(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """Have the template do something, and return its answer. Raises BrokerError if it has died."""
        with self._lock:
            assert self._template.stdin is not None
            try:
                with suppress(OSError, ValueError):  # it has ended: the answer says why
                    self._template.stdin.write(json.dumps(order) + "\n")
                    self._template.stdin.flush()
                return self._answer()
            except BaseException:
                self._template.kill()  # a Ctrl-C came before the answer, which nobody will read now
                raise

    def close(self) -> None:
        """Kill all brokers and remove their logs."""
        with self._lock, suppress(OSError, ValueError, subprocess.TimeoutExpired):
            self._template.communicate("null\n", _END_WITHIN_S)
        self._template.kill()
        self._template.wait()

    def __enter__(self) -> Brokers:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _answer(self) -> dict[str, Any]:
        assert self._template.stdout is not None
        assert self._template.stderr is not None
        line = "" if self._template.stdout.closed else self._template.stdout.readline()
        if not line:
            words = "" if self._template.stderr.closed else self._template.stderr.read().strip().rpartition("\n")[2]
            raise BrokerError(f"the process that starts brokers has ended: {words or 'it was stopped'}")
        answer: dict[str, Any] = json.loads(line)
        return answer


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _hold_ports(held: ExitStack, count: int) -> int:
    """Bind so many ports in a row, and return the first. They listen not, and so a broker can bind them too.

    Meanwhile the kernel gives them to nobody else, also not while the broker is down.
    """
    for _ in range(_TRIES):
        with ExitStack() as bound:
            first = 0
            try:
                for position in range(count):
                    holder = bound.enter_context(socket.socket())
                    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    holder.bind((_HOST, first + position if first else 0))
                    first = first or holder.getsockname()[1]
            except (OSError, OverflowError):
                continue
            held.push(bound.pop_all())
            return first
    raise BrokerError(f"no {count} ports in a row are free on {_HOST}")
