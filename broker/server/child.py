"""Runs one of several broker processes of a host, as its parent orders; ends with the parent."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from typing import Final

from highwater.broker.handlers.shared.reply import Listener
from highwater.broker.server import broker
from highwater.broker.server.listeners import BoundListener
from highwater.broker.server.start_check import SETUP_ERRORS
from highwater.broker.settings.config import BrokerConfig, Setting
from highwater.common.child_process import ends_with_parent
from highwater.common.exit_codes import EXIT_USAGE
from highwater.common.log_lines import log_to_standard_error

REFUSED: Final = "refused: "
"""What standard output begins with when the process cannot start; the reason follows, in one line."""


def main() -> int:
    ends_with_parent(signal.SIGKILL)()
    order = json.load(sys.stdin)
    if os.getppid() != order["parent"]:
        return EXIT_USAGE  # it died before the kernel was asked to signal that
    log_to_standard_error(f"process-{order['index']} ", order["log_level"])
    shared = {
        name: [socket.socket(fileno=descriptor) for descriptor in descriptors]
        for name, descriptors in order["shared"].items()
    }
    metrics = None
    if order["metrics"] is not None:
        metrics_socket = socket.socket(fileno=order["metrics"])
        host, port = metrics_socket.getsockname()
        metrics = BoundListener(Listener("HTTP", host, port), [metrics_socket])
    try:
        config = BrokerConfig(Setting(*fields) for fields in order["settings"])
        if order["index"]:
            config.warnings.clear()  # the first process says them
        return broker.run(config, shared, metrics)
    except SETUP_ERRORS as error:
        sys.stdout.write(f"{REFUSED}{error}\n")
        sys.stdout.flush()
        return EXIT_USAGE


if __name__ == "__main__":
    sys.exit(main())
