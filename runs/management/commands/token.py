"""Makes, lists and revokes the tokens with which programs use the HTTP API."""

from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandParser

from benchsite.lib.serializing import Exit
from runs.management.command import SiteCommand
from runs.models import ApiToken
from runs.serializers.tokens import token_document, tokens_document
from runs.services import access, tokens
from runs.services.refusals import BadInput, whole_number

_ACTS = ("create", "list", "revoke")


class Command(SiteCommand):
    help = (
        "Make a token for the HTTP API, which is shown once, list tokens, or revoke one. A token acts for the account "
        "of --user, within what that may do."
    )

    def add_own_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("action", choices=_ACTS, metavar="|".join(_ACTS), help="what to do")
        parser.add_argument("what", nargs="?", metavar="NAME|KEY", help="what a new token is for; the one to revoke")
        parser.add_argument(
            "--scope",
            action="append",
            default=[],
            choices=list(tokens.Scope),
            help="what it may be used for; may be repeated (read alone)",
        )
        parser.add_argument("--days", metavar="N", help="how long a new token counts; without it, until it is revoked")

    def act(self, user: User, options: dict[str, Any]) -> Exit:
        access.require(user, access.VIEW)
        if options["action"] == "list":
            every = ApiToken.objects.select_related("user")
            rows = list(every if access.may(user, access.REVOKE_TOKEN) else every.filter(user=user))
            self._show(rows)
            self.output.json(tokens_document(rows))
            return Exit.DONE
        if not options["what"]:
            raise BadInput("Name what the token is for, or the token to revoke.", code="input.no_target")
        if options["action"] == "revoke":
            token = tokens.find_own(user, options["what"])
            done = tokens.revoke(by=user, token=token)
            self.output.line(f"{token}: {'revoked' if done else 'was revoked before'}")
            self.output.json(token_document(token))
            return Exit.DONE
        days = None if options["days"] is None else whole_number("--days", options["days"])
        scopes = options["scope"] or [tokens.Scope.READ]
        token, text = tokens.create(user=user, by=user, name=options["what"], scopes=scopes, days=days)
        self._show([token])
        self.output.line(f"token  {text}")
        self.output.line("It is shown once and stored nowhere; whoever has it acts for this account.")
        self.output.json(token_document(token, text))
        return Exit.DONE

    def _show(self, rows: list[ApiToken]) -> None:
        self.output.table(
            ("key", "name", "of", "scopes", "state", "until", "last used"),
            [
                (
                    row.key,
                    row.name,
                    row.user.get_username(),
                    ", ".join(row.scopes),
                    tokens.state_word(row),
                    f"{row.expires_at:%Y-%m-%d}" if row.expires_at else "no end",
                    f"{row.last_used_at:%Y-%m-%d %H:%M}" if row.last_used_at else "never",
                )
                for row in rows
            ],
        )
