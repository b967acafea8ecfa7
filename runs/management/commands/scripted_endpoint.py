"""Serves the scripted chat-completions endpoint until TERM or Ctrl-C."""

import ipaddress
import signal
import sys
from contextlib import suppress
from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandParser

from benchsite.lib import environ
from benchsite.lib.serializing import Exit
from runs.management.command import CLI_USER, SiteCommand
from runs.scripted.scripts import ALIAS_PREFIX, Mode
from runs.scripted.server import SLOW_SECONDS, ScriptedServer
from runs.serializers.workers import scripted_endpoint_document
from runs.services.refusals import BadInput

KEY = "BENCHSITE_SCRIPTED_KEY"
PORT = 8017
NO_KEY = "scripted.no_key"
CANNOT_LISTEN = "scripted.cannot_listen"
LONGEST_DELAY_S = 3600


class Command(SiteCommand):
    help = (
        "Serve a scripted chat-completions endpoint, which is no model, until TERM or Ctrl-C. The requested "
        "model alias chooses the script; clients need the key in BENCHSITE_SCRIPTED_KEY (or _FILE)."
    )

    def add_own_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--bind",
            default="127.0.0.1",
            metavar="ADDRESS",
            help="address to listen on; containers reach 0.0.0.0 or the engine's bridge, never the default",
        )
        parser.add_argument(
            "--port", type=int, default=PORT, metavar="N", help="port, 0 for any free one (%(default)s)"
        )
        parser.add_argument(
            "--slow-seconds", type=float, default=SLOW_SECONDS, metavar="S", help="delay of scripted-slow (%(default)s)"
        )

    def user_of(self, options: dict[str, Any]) -> User:
        return User(username=CLI_USER)  # nobody is asked: it needs no database

    def act(self, user: User, options: dict[str, Any]) -> Exit:
        _check(options["bind"], options["slow_seconds"])
        try:
            key = environ.text(KEY).strip()
        except ImproperlyConfigured as error:
            raise BadInput(f"The scripted endpoint asks for a key like a real one. {error}", code=NO_KEY) from error
        if not key:
            raise BadInput(f"{KEY} is empty; set it to any secret of one line.", code=NO_KEY)
        with _server(options["bind"], options["port"], key, options["slow_seconds"]) as server:
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
            self._announce(server, options["bind"])
            with suppress(KeyboardInterrupt):
                server.serve_forever(poll_interval=0.1)
        return Exit.DONE

    def _announce(self, server: ScriptedServer, bind: str) -> None:
        url = f"http://{f'[{bind}]' if ':' in bind else bind}:{server.port}/v1"
        aliases = [ALIAS_PREFIX + mode for mode in Mode]
        self.output.line(f"The scripted endpoint (not a model) answers at {url}")
        self.output.line(f"Model aliases: {', '.join(aliases)}")
        if ipaddress.ip_address(bind).is_loopback:
            self.output.line("No container reaches a loopback address; use --bind for a run's gateway.")
        self.output.json(scripted_endpoint_document(url, aliases))


def _check(bind: str, slow_s: float) -> None:
    """Refuse what would fail only later: a name where an address belongs, or a delay that is none."""
    try:
        ipaddress.ip_address(bind)
    except ValueError as error:
        raise BadInput(f"--bind {bind!r} is no address; give one such as 127.0.0.1.", code=CANNOT_LISTEN) from error
    if not 0 <= slow_s <= LONGEST_DELAY_S:
        raise BadInput(f"--slow-seconds is 0 to {LONGEST_DELAY_S}.")


def _server(bind: str, port: int, key: str, slow_s: float) -> ScriptedServer:
    try:
        return ScriptedServer(bind, port, key, slow_s=slow_s)
    except (OSError, OverflowError) as error:
        why = str(error).rstrip(".")
        sentence = f"The scripted endpoint cannot listen on {bind} port {port}: {why}."
        raise BadInput(sentence, code=CANNOT_LISTEN) from error
