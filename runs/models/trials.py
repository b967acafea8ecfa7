"""Trials: what happened to each task of a run."""

from django.db import models
from django.db.models import F, Q

from runs.models.runs import Run
from runs.outcomes.buckets import EVALUATED, Bucket


class Trial(models.Model):
    """One attempt at one task. The row is made with the run; bucket and result are written once.

    ``stage`` is live and coarse (``""``, ``setup``, ``agent``, ``verifier``, ``ended``). ``reward`` of a trial that was
    not evaluated is kept but never counted. ``timings``: ``{"setup_s", "agent_s", "verifier_s", "total_s",
    "clock"}``, a missing key was not recorded. ``result`` is the normalized result (design 5) as
    canonical JSON. Tokens are null when not reported. ``cost_units`` are millionths of a millionth of the currency,
    null for an unknown cost; ``cost_basis`` says whether it was reported, computed by prices, or estimated.
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="trials")
    ordinal = models.PositiveSmallIntegerField()
    task_name = models.CharField(max_length=255)
    task_checksum = models.CharField(max_length=64)
    trial_uuid = models.UUIDField(null=True, blank=True)
    stage = models.CharField(max_length=16, blank=True)
    bucket = models.CharField(max_length=16, choices=Bucket.choices(), null=True, blank=True)
    failure_class = models.CharField(max_length=32, blank=True)
    failure_code = models.CharField(max_length=64, blank=True)
    reward = models.SmallIntegerField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    timings = models.JSONField(default=dict)
    steps = models.PositiveIntegerField(null=True, blank=True)
    prompt_tokens = models.PositiveBigIntegerField(null=True, blank=True)
    completion_tokens = models.PositiveBigIntegerField(null=True, blank=True)
    cost_units = models.PositiveBigIntegerField(null=True, blank=True)
    cost_currency = models.CharField(max_length=3, blank=True)
    cost_basis = models.CharField(max_length=16, blank=True)
    badges = models.JSONField(default=list)
    result = models.TextField(blank=True)

    class Meta:
        ordering = ["run", "ordinal"]
        constraints = [
            models.UniqueConstraint(fields=["run", "ordinal"], name="trial_ordinal_once"),
            models.CheckConstraint(
                condition=Q(bucket__isnull=True)
                | (Q(bucket="passed") & Q(reward__isnull=False) & Q(reward=1) & Q(failure_class=""))
                | (Q(bucket="failed") & Q(reward__isnull=False) & Q(reward=0) & Q(failure_class=""))
                | (Q(bucket="error") & ~Q(failure_class=""))
                | Q(bucket="cancelled"),
                name="trial_bucket_has_its_reason",
            ),
            models.CheckConstraint(
                condition=Q(reward__isnull=True) | Q(reward__in=[0, 1]), name="trial_reward_is_binary"
            ),
            models.CheckConstraint(
                condition=Q(started_at__isnull=True) | Q(ended_at__isnull=True) | Q(ended_at__gte=F("started_at")),
                name="trial_times_in_order",
            ),
        ]
        indexes = [models.Index(fields=["task_name", "task_checksum"], name="trial_task")]

    def __str__(self) -> str:
        return f"trial {self.ordinal} {self.task_name}"

    @property
    def evaluated(self) -> bool:
        """Whether it was independently graded: only then does its reward count."""
        return self.bucket in EVALUATED
