"""A real queue for tests that need one: the embedded server, in the test session's own data folder."""

from collections.abc import Iterator

import django_rq
import pytest

from benchsite import embedded_redis


@pytest.fixture
def real_queue() -> Iterator[None]:
    """An empty embedded Valkey, stopped afterwards."""
    embedded_redis.ensure()
    django_rq.get_connection("default").flushall()
    yield
    embedded_redis.stop()
