"""Sets faults of a running broker, and reads what they hit: for tests in Python."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from typing import Any, Final

from highwater.common.errors import UsageError

_TIMEOUT_S: Final = 10.0


class Faults:
    """Faults of a broker that runs with `--faults-listen ADDRESS`.

        faults = Faults("127.0.0.1:7000")
        faults.set({"rules": [{"when": {"api": "Produce"}, "then": {"kind": "drop_after"}, "times": 1}]})
        ...
        assert [hit["api"] for hit in faults.history()] == ["Produce"]
        faults.clear()

    All methods raise UsageError for a script that cannot be read, and OSError if the broker does not answer.
    """

    def __init__(self, address: str) -> None:
        """address: HOST:PORT of `--faults-listen`."""
        self.address = address

    def set(self, script: str | Mapping[str, Any]) -> None:
        """Begin anew with a script, as YAML or as a mapping. The history is empty then."""
        self._ask("PUT", script if isinstance(script, str) else json.dumps(script))

    def clear(self) -> None:
        """End all faults. The history stays."""
        self._ask("DELETE")

    def history(self) -> list[dict[str, Any]]:
        """Return the faults since the script was set, the oldest first, each with the request that it hit."""
        history: list[dict[str, Any]] = json.loads(self._ask("GET"))["history"]
        return history

    def _ask(self, method: str, body: str = "") -> str:
        connection = http.client.HTTPConnection(self.address, timeout=_TIMEOUT_S)
        try:
            connection.request(method, "/faults", body.encode())
            response = connection.getresponse()
            text = response.read().decode()
        except http.client.HTTPException as error:
            raise ConnectionError(f"{self.address} is not where a broker's --faults-listen is: {error!r}") from error
        finally:
            connection.close()
        if response.status != http.HTTPStatus.OK:
            raise UsageError(text.strip())
        return text
