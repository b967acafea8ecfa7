"""Connection tests: whether an endpoint was ready when a worker last asked it."""

import uuid
from datetime import timedelta

from django.db import models
from django.db.models import Q
from django.utils import timezone

from runs.models.documents import Endpoint
from runs.models.workers import Worker

# A worker that carries out a long run cannot ask meanwhile; then the test is not made, and says so.
WAITS_AT_MOST = timedelta(minutes=10)


class ConnectionState(models.TextChoices):
    """Moves only forward, each by compare-and-set."""

    WAITING = "waiting", "Waiting for the worker"
    RUNNING = "running", "Being made"
    DONE = "done", "Done"


class ConnectionOutcome(models.TextChoices):
    """What it amounts to: ready, a check that fails, something unproved, or no answer of the worker at all."""

    READY = "ready", "Ready"
    NOT_READY = "not_ready", "Not ready"
    UNPROVED = "unproved", "Not proved"
    NOT_MADE = "not_made", "Not made"


class EndpointTest(models.Model):
    """One connection test: of a version of an endpoint, from a worker, asked for by a person.

    ``checks``: ``[{"name", "passed", "code", "detail", "remedy", "level"}]``. ``failure_code`` and ``failure`` say why
    it was not made; ``seconds`` is how long the endpoint took.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    endpoint = models.ForeignKey(Endpoint, on_delete=models.PROTECT, related_name="tests")
    worker = models.ForeignKey(Worker, on_delete=models.PROTECT, related_name="endpoint_tests")
    state = models.CharField(max_length=16, choices=ConnectionState, default=ConnectionState.WAITING)
    outcome = models.CharField(max_length=16, choices=ConnectionOutcome, blank=True)
    checks = models.JSONField(default=list)
    seconds = models.FloatField(null=True, blank=True)
    failure_code = models.CharField(max_length=64, blank=True)
    failure = models.CharField(max_length=500, blank=True)
    requested_by_name = models.CharField(max_length=150)
    requested_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-requested_at"]
        constraints = [
            models.UniqueConstraint(
                fields=["endpoint", "worker"], condition=~Q(state="done"), name="endpoint_test_one_open"
            ),
            models.CheckConstraint(
                condition=~Q(state="done") | (Q(ended_at__isnull=False) & ~Q(outcome="")),
                name="endpoint_test_done_has_outcome",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.endpoint} from {self.worker}"

    @property
    def done(self) -> bool:
        return self.state == ConnectionState.DONE

    @property
    def overdue(self) -> bool:
        """Whether its worker should have made it long ago; it counts as not made."""
        return not self.done and timezone.now() - self.requested_at > WAITS_AT_MOST

    @property
    def live(self) -> bool:
        """Whether its result is still to come."""
        return not self.done and not self.overdue
