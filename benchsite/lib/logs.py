"""The process's log: lines with time, level, logger, request, run and job, and never a secret.

One formatter for the site, the commands and the worker: JSON lines in production, readable lines on a terminal. Known
secrets are taken out of the finished line, in every form that `benchsite.lib.redaction` knows.
"""

import logging
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Literal
from urllib.parse import parse_qs, unquote, urlsplit

import structlog
from structlog.contextvars import bound_contextvars, merge_contextvars
from structlog.typing import EventDict, Processor, WrappedLogger

from benchsite.lib.redaction import Scrubber
from benchsite.lib.visible_text import visible

Format = Literal["json", "console", "auto"]
FORMATS: tuple[Format, ...] = ("auto", "json", "console")
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


class Hidden:
    """The secrets that this process knows: the site's own, and those of the runs that it carries out."""

    def __init__(self) -> None:
        self._values: frozenset[str] = frozenset()
        self._scrubber = Scrubber(())

    def add(self, values: Iterable[str]) -> None:
        wider = self._values.union(value for value in values if value)
        if wider != self._values:
            self._values, self._scrubber = wider, Scrubber(wider)

    def scrub(self, text: str) -> str:
        return self._scrubber.scrub_text(text)


_hidden = Hidden()


def hide(*values: str) -> None:
    """Keep these values out of every line for as long as this process lives. Very short ones are no secrets."""
    _hidden.add(values)


@contextmanager
def about(**names: str) -> Iterator[None]:
    """Put these names (`run`, `job`, `request_id`) into every line of this thread while the context lasts."""
    with bound_contextvars(**names):
        yield


def secrets_of_url(url: str) -> list[str]:
    """The password that stands in a URL, as it is written and as it is meant; a queue's may also stand in its query."""
    try:
        parts = urlsplit(url)
        found = [parts.password, *parse_qs(parts.query).get("password", [])]
    except ValueError:
        return []
    return [form for password in found if password for form in dict.fromkeys((password, unquote(password)))]


def logging_config(*, form: Format, level: str) -> dict[str, Any]:
    """Django's LOGGING: everything goes to stderr through one handler."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"structured": {"()": formatter, "form": form}},
        "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "structured"}},
        "root": {"handlers": ["console"], "level": level},
    }


def formatter(form: Format = "auto") -> logging.Formatter:
    """The formatter of every line. `auto`: readable when stderr is a terminal, else JSON."""
    as_json = form == "json" or (form == "auto" and not sys.stderr.isatty())
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[
            merge_contextvars,
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            # Only these: Django's own lines carry the whole request.
            structlog.stdlib.ExtraAdder(allow=["status_code", "run", "job", "tool", "code"]),
            structlog.processors.TimeStamper(fmt="iso", utc=True),
        ],
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            *(
                [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(sort_keys=True)]
                if as_json
                else _console()
            ),
            _scrubbed,
        ],
    )


def _console() -> list[Processor]:
    plain = structlog.dev.plain_traceback  # never rich's, which shows local variables
    return [
        _harmless,
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain, pad_event_to=0),
    ]


def _harmless(_logger: WrappedLogger, _name: str, event: EventDict) -> EventDict:
    """Nothing steers the terminal, and no line inside a message looks like a line of the log."""
    for key, value in event.items():
        if isinstance(value, str):
            event[key] = visible(value).replace("\n", "\n    ")
    return event


def _scrubbed(_logger: WrappedLogger, _name: str, line: Any) -> Any:
    return _hidden.scrub(line)
