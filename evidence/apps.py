"""The evidence app: what is set up again after each migration."""

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class EvidenceConfig(AppConfig):
    name = "evidence"
    verbose_name = "Evidence"

    def ready(self) -> None:
        from evidence.models import triggers

        # SQLite loses triggers whenever a migration rebuilds a table.
        post_migrate.connect(triggers.install, sender=self, dispatch_uid="evidence.models.triggers")
