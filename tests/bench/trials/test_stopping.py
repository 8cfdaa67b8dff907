from __future__ import annotations

import os
import signal

import pytest

from highwater.bench.trials.stopping import StopRequest
from highwater.common.errors import StoppedError


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_the_first_signal_asks_and_the_second_ends(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    stop = StopRequest()
    with stop.taking_signals():
        stop.check()
        os.kill(os.getpid(), number)
        assert stop.requested
        with pytest.raises(StoppedError):
            stop.check()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
    assert signal.getsignal(number) is before
