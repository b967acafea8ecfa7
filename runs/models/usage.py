"""What each run used of its endpoint, for the budgets that count over runs."""

from django.db import models


class EndpointUsage(models.Model):
    """Tokens and money of one run, by its gateway's ledger, the readiness question included.

    ``endpoint_name`` is every version's. ``day`` is the one (UTC) on which the gateway began, and all of the run counts
    for it. ``money`` is pico-units of ``currency``, both empty without prices. It outlives the run's row.
    """

    run_key = models.CharField(max_length=32, unique=True)
    endpoint_name = models.CharField(max_length=128)
    day = models.DateField()
    tokens = models.PositiveBigIntegerField()
    money = models.PositiveBigIntegerField(default=0)
    currency = models.CharField(max_length=3, blank=True)

    class Meta:
        indexes = [models.Index(fields=["endpoint_name", "day"], name="endpoint_usage_day")]

    def __str__(self) -> str:
        return f"{self.endpoint_name} on {self.day}: {self.tokens}"
