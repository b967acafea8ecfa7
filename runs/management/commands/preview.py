"""Shows exactly what would be executed, with every check; starts nothing."""

import shlex
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandParser

from benchsite.lib.canonical import load_object
from runs.management.choosing import add_choice, preview_of
from runs.management.output import Exit, SiteCommand
from runs.management.telling import tell_checks
from runs.models import Preview


class Command(SiteCommand):
    help = (
        "Show exactly what a run would execute, with every check; starts nothing and is valid for 15 minutes. Exit 0, "
        "2 for bad input, 3 when a check blocks the start."
    )

    def add_own_arguments(self, parser: CommandParser) -> None:
        add_choice(parser)

    def act(self, user: User, options: dict[str, Any]) -> Exit:
        preview = preview_of(user, options)
        self._tell(preview)
        self.output.json("benchsite.preview/v1", preview_json(preview))
        return Exit.BLOCKED if preview.blocking else Exit.DONE

    def _tell(self, preview: Preview) -> None:
        self.output.line(f"preview {preview.id.hex} spec {preview.spec_sha256 or 'not resolved'}")
        if preview.spec:
            spec: Any = load_object(preview.spec.encode())
            tasks = ", ".join(task["name"] for task in spec["tasks"])
            self.output.line(f"tasks: {tasks}; at most {spec['limits']['run_s']} s on {preview.worker.name}")
            self.output.line(f"endpoint: {preview.endpoint.host}, model {preview.endpoint.model}")
        tell_checks(self.output, preview.checks)
        if not preview.blocking:
            self.output.line(f"start just this within 15 minutes with: {_start_line(preview)}")


def _start_line(preview: Preview) -> str:
    accept = "".join(f" --accept {shlex.quote(check['name'])}" for check in preview.to_accept)
    return f"manage.py start --preview {preview.id.hex} --spec-sha256 {preview.spec_sha256}{accept} --wait"


def preview_json(preview: Preview) -> dict[str, Any]:
    """The preview as documented for ``--json`` (schema ``benchsite.preview/v1``)."""
    return {
        "preview": preview.id.hex,
        "spec_sha256": preview.spec_sha256 or None,
        "spec": load_object(preview.spec.encode()) if preview.spec else None,
        "checks": preview.checks,
        "blocked": bool(preview.blocking),
        "accept": [check["name"] for check in preview.to_accept],
        "expires_at": preview.expires_at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
    }
