"""Serves the site's tools to one MCP client over stdin and stdout, with the permissions of a named user."""

import json
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandParser

from benchsite.lib.serializing import Exit
from benchsite.mcp.server import SiteServer, tools_document
from runs.management.command import SiteCommand, acting_user
from runs.services.refusals import BadInput


class Command(SiteCommand):
    help = (
        "Serve the site's tools to one MCP client over stdin and stdout, with the permissions of --user. "
        "--schema prints the tools' JSON schemas instead."
    )

    default_user = ""  # whom the tools act for is always named

    def add_own_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--schema", action="store_true", help="print the tools' JSON schemas; needs no database")

    def user_of(self, options: dict[str, Any]) -> User:
        """Whom the tools act for: always somebody who was named."""
        if options["schema"]:
            return User()
        if not options["user"]:
            raise BadInput("Name whom the tools act for: manage.py mcp --user NAME.", code="mcp.no_user")
        return acting_user(options["user"])

    def act(self, user: User, options: dict[str, Any]) -> Exit:
        if options["schema"]:
            document = tools_document()
            for line in json.dumps(document, indent=2, sort_keys=True).splitlines():
                self.output.line(line)
            self.output.json(document)
        else:
            SiteServer(user).run("stdio")
        return Exit.DONE
