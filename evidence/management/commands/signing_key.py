"""Makes, lists, rotates, retires and revokes the keys that sign runs and what is published of them."""

from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import CommandParser

from benchsite.lib.serializing import Exit
from evidence.models import SigningKey, StatementReason
from evidence.origin.public_keys import ROLES
from evidence.register import keys
from evidence.register.signing import sign_again
from evidence.serializers import public_keys_document
from runs.management.command import SiteCommand
from runs.services import access
from runs.services.access import find_run
from runs.services.refusals import BadInput

_ACTS = ("make", "list", "rotate", "retire", "revoke", "sign")


class Command(SiteCommand):
    help = (
        "Make a key that signs on this host, list all public keys, replace a key, end one, or sign a run that ended "
        "without a key. A private key stays in a file of this host."
    )

    def add_own_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("act", choices=_ACTS, metavar="|".join(_ACTS), help="what to do")
        parser.add_argument("what", nargs="?", metavar="KEY|RUN", help="the key to end by its id, or the run to sign")
        parser.add_argument(
            "--role", choices=ROLES, default="worker", help="whose key: worker signs runs (%(default)s)"
        )
        parser.add_argument("--days", type=int, metavar="N", help="how long the new key counts; without it, for ever")
        parser.add_argument("--reason", default="", metavar="TEXT", help="why a key is retired or revoked")

    def act(self, user: User, options: dict[str, Any]) -> Exit:
        access.require(user, access.VIEW)
        match options["act"]:
            case "list":
                rows = list(SigningKey.objects.all())
            case "make":
                rows = [keys.make(user=user, role=options["role"], days=options["days"])]
            case "rotate":
                rows = [keys.rotate(user=user, role=options["role"], days=options["days"])]
            case "sign":
                return self._sign(user, options["what"])
            case act:
                end = keys.retire if act == "retire" else keys.revoke
                rows = [end(user=user, row=keys.find_key(options["what"] or ""), reason=options["reason"])]
        self.output.table(
            ("key", "role", "of", "since", "until", "state"),
            [
                (row.key_id[:16], row.role, row.name, f"{row.not_before:%Y-%m-%d}", _until(row), keys.state_word(row))
                for row in rows
            ],
        )
        self.output.json(public_keys_document(rows))
        return Exit.DONE

    def _sign(self, user: User, asked: str | None) -> Exit:
        """Needs the run's folder, so it works on the host that carried the run out."""
        from runs.engine.host.folder import RunFolder  # only workers import the engine

        access.require(user, access.START)
        if not asked:
            raise BadInput("Name the run that is to be signed.", code="input.no_target")
        run = find_run(asked)
        keys.signing_key("worker")
        folder = RunFolder.of(settings.DATA, run.key).path
        row = sign_again(run, folder, StatementReason.ASKED) if run.terminal and folder.is_dir() else None
        if row is None or row.key is None:
            sentence = "Nothing can be signed: the run has not ended, its folder is not here, or it was never judged."
            raise BadInput(sentence, code="signing.nothing_to_sign")
        self.output.line(f"run {run.key}: signed by {row.key.key_id[:16]} at {row.signed_at:%Y-%m-%d %H:%M:%S} UTC")
        self.output.json(public_keys_document([row.key]))
        return Exit.DONE


def _until(row: SigningKey) -> str:
    return f"{row.not_after:%Y-%m-%d}" if row.not_after else "no end"
