"""The resources, log lines and stage times of a run. Mirrors for pages; the journal is the truth."""

from django.db import models

from runs.models.runs import Run
from runs.models.states import Stage

LOG_TEXT_LIMIT = 4096
LOG_LINES_KEPT = 1000
LOG_BYTES_KEPT = 1024 * 1024
GONE = ("removed", "absent")  # outcomes of what exists no more (runs.ownership.document.Outcome)


class OwnedResource(models.Model):
    """A container or network that a run created, as its journal has it. Ids are for operators only."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="resources")
    nonce = models.CharField(max_length=64)
    kind = models.CharField(max_length=16)
    role = models.CharField(max_length=16)
    trial = models.PositiveSmallIntegerField(null=True, blank=True)
    resource_id = models.CharField(max_length=64, blank=True)
    stage = models.CharField(max_length=16)
    outcome = models.CharField(max_length=16, blank=True)
    detail = models.CharField(max_length=500, blank=True)
    attempts = models.PositiveIntegerField(default=0)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["run", "nonce"], name="resource_nonce_once")]

    def __str__(self) -> str:
        return f"{self.role} {self.resource_id[:12]}"

    @property
    def left(self) -> bool:
        """Whether it may still exist: anything but removed or absent."""
        return self.outcome not in GONE


class LogLine(models.Model):
    """One bounded line of a run's log. ``seq`` never repeats; dropped lines are counted on the run."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="log_lines")
    seq = models.PositiveBigIntegerField()
    at = models.DateTimeField()
    source = models.CharField(max_length=32)
    text = models.CharField(max_length=LOG_TEXT_LIMIT)
    size = models.PositiveIntegerField(help_text="Bytes of the text in UTF-8")
    cut = models.BooleanField(default=False)

    class Meta:
        ordering = ["run", "seq"]
        constraints = [models.UniqueConstraint(fields=["run", "seq"], name="log_seq_once")]

    def __str__(self) -> str:
        return self.text


class StageMark(models.Model):
    """When a run entered a stage; the last mark without a successor is where it is or where it ended."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="stage_marks")
    stage = models.CharField(max_length=16, choices=Stage)
    trial = models.PositiveSmallIntegerField(null=True, blank=True)
    at = models.DateTimeField()

    class Meta:
        ordering = ["run", "id"]

    def __str__(self) -> str:
        return f"{self.stage} {self.trial or ''}".strip()
