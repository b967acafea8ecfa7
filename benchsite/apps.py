"""The project's own app: templates' tags, static files, system checks."""

from django.apps import AppConfig


class BenchsiteConfig(AppConfig):
    name = "benchsite"

    def ready(self) -> None:
        from benchsite import system_checks  # noqa: F401 - registers itself
