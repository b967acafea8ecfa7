"""Does the endpoint answer on the run's own path? An owned container asks it one question through the gateway.

The gateway adds the credential; the probe holds a token of its own. What is judged is the gateway's ledger line, which
neither the probe nor the endpoint can write.
"""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker

from evidence.ledger import LedgerRequest, read_ledger
from runs.checks import Check
from runs.containers import ContainerRequest, create_owned, engine_call, remove_owned, start_owned
from runs.engine.gateway import ALIAS, PORT, RunGateway
from runs.engine.gateway_log import container_log
from runs.ownership import Journal, Role
from runs.readiness import SECONDS, Answer, failure_class, judge, question

PROGRAM = Path(__file__).with_name("endpoint_probe.py")
# The probe's own start and end come on top of the question's time.
BOUND_SECONDS = int(SECONDS) + 10
_LINE_SECONDS = 2.0
_POLL_SECONDS = 0.05
_MEMORY = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Asked:
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


def ask_endpoint(
    api: docker.APIClient,
    journal: Journal,
    gateway: RunGateway,
    image_id: str,
    *,
    model: str,
    max_tokens: int,
    trial: int,
    has_credential: bool,
) -> Asked:
    """Ask as `trial`, a number that no trial of the run has, and judge the answer. Raises EngineError, JournalError.

    `max_tokens` is the limit that the gateway was told, for it takes no other.
    """
    plan = {
        "gateway": ALIAS,
        "port": PORT,
        "token": gateway.token(trial),
        "seconds": SECONDS,
        "question": question(model, max_tokens),
    }
    said = _run(api, journal, gateway, image_id, plan)
    line = _line(api, gateway, trial)
    answer = None if line is None else Answer(line.kind, line.code, line.status, str(said.get("error", "")).lower())
    seconds = said.get("seconds")
    return Asked(
        tuple(judge(answer, has_credential=has_credential)),
        round(seconds, 3) if isinstance(seconds, float) else None,
    )


def _line(api: docker.APIClient, gateway: RunGateway, trial: int) -> LedgerRequest | None:
    """The ledger's line of the question. The log may be a moment behind what was answered."""
    deadline = time.monotonic() + _LINE_SECONDS
    while True:
        requests = read_ledger(container_log(api, gateway.container.id)).trial(trial).requests
        if requests or time.monotonic() >= deadline:
            return requests[-1] if requests else None
        time.sleep(_POLL_SECONDS)


def _run(
    api: docker.APIClient, journal: Journal, gateway: RunGateway, image_id: str, plan: dict[str, Any]
) -> dict[str, Any]:
    request = ContainerRequest(
        role=Role.PROBE,
        image_id=image_id,
        command=("python3", "-I", "-S", "-c", PROGRAM.read_text(encoding="utf-8")),
        cpus=1.0,
        memory_bytes=_MEMORY,
        pids=16,
        nofile=64,
        network=gateway.networks.internal.id,
        hosts={ALIAS: gateway.address},  # as every agent has it
        env={"PLAN": json.dumps(plan)},
    )
    owned = create_owned(api, journal, {}, request)
    try:
        start_owned(api, journal, owned)
        with engine_call("wait for the endpoint probe"):
            api.wait(owned.id, timeout=BOUND_SECONDS)
            output = api.logs(owned.id, stdout=True, stderr=False)
    finally:
        remove_owned(api, journal, owned.intent.nonce)
    try:
        said = json.loads(output)
    except ValueError:
        said = None
    return said if isinstance(said, dict) else {}
