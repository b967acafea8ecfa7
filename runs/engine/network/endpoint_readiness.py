"""The endpoint's readiness on the run's own path: an owned container asks it one question through the gateway.

The gateway adds the credential; the probe holds a token of its own. What is judged is the gateway's ledger line, which
neither the probe nor the endpoint can write.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker

from runs.checks.check import Check
from runs.checks.readiness import SECONDS, Answer, failure_class, judge, question
from runs.documents.ledger import LedgerRequest, read_ledger
from runs.engine.network.gateway import ALIAS, PORT, RunGateway
from runs.engine.network.gateway_log import container_log
from runs.engine.network.probing import said_by_probe
from runs.ownership import Journal

PROGRAM = Path(__file__).with_name("endpoint_probe.py")
# The probe's own start and end come on top of the question's time.
BOUND_SECONDS = int(SECONDS) + 60
_LINE_SECONDS = 20.0
_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Readiness:
    """What came of the question: four checks, and how long the endpoint took, in seconds."""

    checks: tuple[Check, ...]
    seconds: float | None

    @property
    def refusal(self) -> Check | None:
        """The check because of which nothing may start."""
        return next((check for check in self.checks if check.refuses), None)

    @property
    def failure_class(self) -> str:
        """The class of failure that the refusal gives the trials of a run."""
        return "" if self.refusal is None else failure_class(self.refusal.code)

    def as_json(self) -> dict[str, Any]:
        return {"checks": [check.as_json() for check in self.checks], "seconds": self.seconds}


def check_readiness(
    api: docker.APIClient,
    journal: Journal,
    gateway: RunGateway,
    image_id: str,
    *,
    model: str,
    max_tokens: int,
    sampling: Mapping[str, int | float],
    trial: int,
    has_credential: bool,
) -> Readiness:
    """Ask as `trial`, a number that no trial of the run has, and judge the answer. Raises EngineError, JournalError.

    `max_tokens` and `sampling` are what the gateway was told, for it takes nothing else.
    """
    plan = {
        "gateway": ALIAS,
        "port": PORT,
        "token": gateway.token(trial),
        "seconds": SECONDS,
        "question": question(model, max_tokens, sampling),
    }
    said = said_by_probe(api, journal, gateway, image_id, PROGRAM, plan, bound_s=BOUND_SECONDS) or {}
    line = _line(api, gateway, trial)
    answer = None if line is None else Answer(line.kind, line.code, _status(line), str(said.get("error", "")).lower())
    seconds = said.get("seconds")
    return Readiness(
        tuple(judge(answer, has_credential=has_credential)),
        round(seconds, 3) if isinstance(seconds, float) else None,
    )


def _status(line: LedgerRequest) -> int | None:
    """The status that counts: of an error inside a 2xx the one that it stands for."""
    return (line.said_status or None) if line.code == "error_in_success" else line.status


def _line(api: docker.APIClient, gateway: RunGateway, trial: int) -> LedgerRequest | None:
    """The ledger's line of the question. The log may be a moment behind what was answered."""
    deadline = time.monotonic() + _LINE_SECONDS
    while True:
        requests = read_ledger(container_log(api, gateway.container.id)).trial(trial).requests
        if requests or time.monotonic() >= deadline:
            return requests[-1] if requests else None
        time.sleep(_POLL_SECONDS)
