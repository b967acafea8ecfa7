"""The runs app: what is set up again after each migration."""

from django.apps import AppConfig
from django.db.models.signals import post_migrate, pre_migrate


class RunsConfig(AppConfig):
    name = "runs"
    verbose_name = "Runs"

    def ready(self) -> None:
        from runs.models import triggers
        from runs.services import access

        # Roles need permissions that Django makes after migrating, and SQLite loses triggers whenever a
        # migration rebuilds a table, or refuses to; both are therefore set up here and not inside one migration.
        pre_migrate.connect(triggers.remove, sender=self, dispatch_uid="runs.models.triggers.remove")
        post_migrate.connect(triggers.install, sender=self, dispatch_uid="runs.models.triggers")
        post_migrate.connect(access.set_up_roles, sender=self, dispatch_uid="runs.roles")
