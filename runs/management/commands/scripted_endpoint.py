"""`manage.py scripted_endpoint`: serve the scripted chat-completions endpoint until TERM or interrupt."""

import ipaddress
import json
import signal
import sys
from argparse import ArgumentParser
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError

from benchsite import environ
from runs.scripted.scripts import ALIAS_PREFIX, Mode
from runs.scripted.server import SLOW_SECONDS, ScriptedServer

KEY = "BENCHSITE_SCRIPTED_KEY"
PORT = 8017


class Command(BaseCommand):
    help = "Serve a scripted chat-completions endpoint, which is no model; the alias chooses the script."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--bind",
            default="127.0.0.1",
            help="address to listen on; containers reach 0.0.0.0 or the engine's bridge, never the default",
        )
        parser.add_argument("--port", type=int, default=PORT, help="port, 0 for any free one (%(default)s)")
        parser.add_argument(
            "--slow-seconds", type=float, default=SLOW_SECONDS, help="delay of scripted-slow (%(default)s)"
        )
        parser.add_argument("--json", action="store_true", help="print one JSON line instead of sentences")

    def handle(self, *args: Any, **options: Any) -> None:
        with _server(options["bind"], options["port"], _key(), options["slow_seconds"]) as server:
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
            self._announce(server, options["bind"], as_json=options["json"])
            try:
                server.serve_forever(poll_interval=0.1)
            except KeyboardInterrupt:
                return

    def _announce(self, server: ScriptedServer, bind: str, *, as_json: bool) -> None:
        url = f"http://{f'[{bind}]' if ':' in bind else bind}:{server.port}/v1"
        aliases = [ALIAS_PREFIX + mode for mode in Mode]
        if as_json:
            self.stdout.write(json.dumps({"base_url": url, "models": aliases, "scripted": True}))
        else:
            self.stdout.write(f"The scripted endpoint (not a model) answers at {url}")
            self.stdout.write(f"Model aliases: {', '.join(aliases)}")
            if ipaddress.ip_address(bind).is_loopback:
                self.stdout.write("No container reaches a loopback address; use --bind for a run's gateway.")
        self.stdout._out.flush()  # type: ignore[attr-defined]


def _key() -> str:
    try:
        key = environ.text(KEY).strip()
    except ImproperlyConfigured as error:
        raise CommandError(f"The scripted endpoint asks for a key like a real one. {error}") from error
    if not key:
        raise CommandError(f"{KEY} is empty; set it to any secret of one line.")
    return key


def _server(bind: str, port: int, key: str, slow_s: float) -> ScriptedServer:
    try:
        return ScriptedServer(bind, port, key, slow_s=slow_s)
    except (OSError, OverflowError) as error:
        raise CommandError(f"The scripted endpoint cannot listen on {bind} port {port}: {error}.") from error
