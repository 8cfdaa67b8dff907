"""Studies run trials too, and these leave the host as it is."""

from tests.bench.conftest import _host_left_alone, host_settings_stay

__all__ = ["_host_left_alone", "host_settings_stay"]
