"""The runs app: what is set up again after each migration."""

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class RunsConfig(AppConfig):
    name = "runs"
    verbose_name = "Runs"

    def ready(self) -> None:
        from runs import access, guards

        # Roles need permissions that Django makes after migrating, and SQLite loses triggers whenever a
        # migration rebuilds a table; both are therefore set up here and not inside one migration.
        post_migrate.connect(guards.install, sender=self, dispatch_uid="runs.guards")
        post_migrate.connect(access.set_up_roles, sender=self, dispatch_uid="runs.roles")
