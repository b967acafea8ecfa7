"""An embedded queue that takes its time is neither started twice nor a failure of whoever waits for it."""

import logging
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchsite.lib import embedded_redis


class Slow:
    """A server that is there and answers nothing, as one whose host's disk is busy."""

    def __init__(self, place: Path) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(place))
        self._listener.listen(16)
        self._held: list[socket.socket] = []
        self.place = place
        self._thread = threading.Thread(target=self._take, daemon=True)
        self._thread.start()

    def _take(self) -> None:
        while True:
            try:
                self._held.append(self._listener.accept()[0])
            except OSError:
                return

    def end(self) -> None:
        self.place.unlink()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        for held in [self._listener, *self._held]:
            held.close()


@pytest.fixture
def slow(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    settings.REDIS_URL, settings.REDIS_SOCKET = "", tmp_path / "s"
    monkeypatch.setattr(embedded_redis, "_ASK_S", 0.05)
    monkeypatch.setattr(embedded_redis, "PATIENCE_S", 0.3)
    server = Slow(tmp_path / "s")
    yield server
    if server.place.exists():
        server.end()


def test_a_slow_one_is_not_started_a_second_time(slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second server would take the first one's socket away, and with it every job."""
    started: list[Path] = []
    monkeypatch.setattr(embedded_redis, "_start", started.append)
    embedded_redis.ensure()
    assert started == []
    slow.end()
    embedded_redis.ensure()
    assert started == [slow.place]


def test_one_that_does_not_end_in_time_is_a_warning(slow: Slow, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert embedded_redis.stop() is False
    assert "still runs" in caplog.text
    slow.end()
    assert embedded_redis.stop() is True


def test_a_slow_one_that_ends_is_waited_for(slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded_redis, "PATIENCE_S", 30.0)
    told = threading.Event()

    class Client:
        def __enter__(self) -> "Client":
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def ping(self) -> bool:
            return True

        def shutdown(self, **_: Any) -> None:
            told.set()
            threading.Timer(0.2, slow.end).start()
            raise embedded_redis.redis.TimeoutError

    monkeypatch.setattr(embedded_redis, "_client", Client)
    assert embedded_redis.stop() is True and told.is_set()
