"""Builds, locks and verifies what a run needs on this worker; changes nothing that is already right."""

from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import CommandParser

from benchsite.lib.canonical import JsonObject
from benchsite.lib.serializing import Exit, error_document
from runs.management.command import SiteCommand
from runs.management.waiting import heartbeat
from runs.serializers.workers import prepare_document
from runs.services import access, bundle_import, workers


class Command(SiteCommand):
    help = (
        "Build and verify what runs need on this host: the Harbor environment and the container images. Changes "
        "nothing that is already right."
    )

    def add_own_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--offline", action="store_true", help="download nothing; name what is missing")

    def act(self, user: User, options: dict[str, Any]) -> Exit:
        access.require(user, access.START)
        from runs.containers import EngineError
        from runs.engine.assets import AssetError, prepare  # only workers import the engine
        from runs.engine.preflight.image_marks import prove_prepared
        from runs.ownership import JournalError

        try:
            with heartbeat(self.output, "looking at what is there") as report:
                assets = prepare(settings.ASSETS, offline=options["offline"], report=report)
                report("images: looking from inside")
                prove_prepared(assets.images)
        except (AssetError, EngineError, JournalError) as error:
            code = Exit.BLOCKED if isinstance(error, AssetError) and error.blocked else Exit.ERROR
            return self.output.error(error_document(error.code, error.sentence, code))
        images: dict[str, JsonObject] = {image.role: image.document() for image in assets.images.images}
        workers.record_harness_lock(settings.WORKER_NAME, assets.harness.lock.document)
        workers.record_image_locks(settings.WORKER_NAME, images)
        profile, bundle = bundle_import.install_packaged()
        self.output.line(f"bundle: {bundle} is {bundle.status}; profile: {profile}")
        self.output.json(prepare_document(assets.harness.lock.document, images))
        return Exit.DONE
