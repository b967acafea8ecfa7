"""Shows exactly what would be executed, with every check; starts nothing."""

import shlex
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandParser

from benchsite.lib.serializing import Exit
from runs.documents.run_spec import load_spec
from runs.management.arguments import add_choice, preview_of
from runs.management.command import SiteCommand
from runs.management.run_text import print_checks
from runs.models import Preview
from runs.serializers.previews import preview_document


class Command(SiteCommand):
    help = (
        "Show exactly what a run would execute, with every check. Starts nothing; the preview is valid for 15 minutes."
    )

    def add_own_arguments(self, parser: CommandParser) -> None:
        add_choice(parser)

    def act(self, user: User, options: dict[str, Any]) -> Exit:
        preview = preview_of(user, options)
        self._print(preview)
        self.output.json(preview_document(preview))
        return Exit.BLOCKED if preview.blocking else Exit.DONE

    def _print(self, preview: Preview) -> None:
        self.output.line(f"preview {preview.id.hex} spec {preview.spec_sha256 or 'not resolved'}")
        if preview.spec:
            spec = load_spec(preview.spec.encode(), expected_sha256=preview.spec_sha256).content
            tasks = ", ".join(task.name for task in spec.tasks)
            self.output.line(f"tasks: {tasks}; at most {spec.limits.run_s} s on {preview.worker.name}")
            self.output.line(f"scope: {spec.coverage}")
            self.output.line(f"endpoint: {preview.endpoint.host}, model {preview.endpoint.model}")
        print_checks(self.output, preview.checks)
        if not preview.blocking:
            accept = "".join(f" --accept {shlex.quote(check['name'])}" for check in preview.to_accept)
            start = f"manage.py start --preview {preview.id.hex} --spec-sha256 {preview.spec_sha256}{accept} --wait"
            self.output.line(f"start exactly this within 15 minutes with: {start}")
