"""The stages of a confirmed run in their order; whatever happens, the end follows.

The database row is claimed first, the owned directory exists before anything else does, and every failure is
written down as a fact of the run before the conclusion judges it.
"""

import logging
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import docker
from django.conf import settings

from benchsite.lib.database import retry_database
from benchsite.lib.disk import FULL
from benchsite.lib.problems import DocumentError
from benchsite.lib.redaction import Scrubber
from runs.containers import EngineError, connect
from runs.documents.run_spec import RunSpec, load_spec
from runs.documents.spending import Left, budget_words, left_document
from runs.engine.assets import AssetError, load_assets
from runs.engine.ending.conclusion import Secrets, conclude, resource_states
from runs.engine.host.ca_files import CaFileError, read_ca_file
from runs.engine.host.credentials import CredentialError, read_credential
from runs.engine.host.folder import RUN_FACTS_SCHEMA, FactsDamaged, RunFolder, write_document
from runs.engine.host.same_engine import remember_engine
from runs.engine.network.budgets import left_for_gateway, reached_before_trial
from runs.engine.network.egress import prove_egress
from runs.engine.network.endpoint_readiness import Readiness, check_readiness
from runs.engine.network.gateway import (
    GatewayError,
    GatewayPlan,
    RunGateway,
    open_networks,
    readiness_trial,
    start_gateway,
)
from runs.engine.network.switched import ended_by_switch
from runs.engine.preflight.run_preflight import PreflightFailed, copy_tasks, preflight
from runs.engine.trials.harbor_config import LimitsDoNotFit, write_trial_files
from runs.engine.trials.processes import LaunchFailed
from runs.engine.trials.run_log import RunLog
from runs.engine.trials.trial_process import Reason, TrialProcess
from runs.models import Run, Stage
from runs.ownership import Journal, JournalError, process_identity, utc_now
from runs.ownership.storage import replace_whole
from runs.services import endpoint_switch, endpoint_usage, lifecycle

log = logging.getLogger(__name__)

HEARTBEAT_S = 5.0
# What the end of a run may take of its limit: ingest, removal and verification.
ENDING_RESERVE_S = 60.0


class RunStopped(Exception):
    """The run was cancelled, or its limit is reached: no further stage starts."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


class BudgetReached(Exception):
    """A budget of the endpoint is used up, ``code`` as the gateway calls it: nothing further starts."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class RunTaken(Exception):
    """The run was ended elsewhere (its worker was declared lost): this process only has to stop its own part."""


class StageFailed(Exception):
    """A stage could not do its work: where, class and stable code; the detail is private."""

    def __init__(self, stage: Stage, failure_class: str, code: str, sentence: str, detail: str = "") -> None:
        super().__init__(code)
        self.document = {"stage": stage.value, "class": failure_class, "code": code, "detail": detail[:2000]}
        self.sentence = sentence


def execute(run_id: str) -> None:
    """Carry out the run ``run_id`` (32 hex characters) if this process can claim it; exit quietly otherwise.

    Raises HostBusy when this host executes another run. Any other failure becomes the run's own result.
    """
    identity = process_identity(os.getpid())
    if identity is None:
        raise RuntimeError("this process has no entry in /proc")
    if lifecycle.claim(run_id, worker=settings.WORKER_NAME, identity=identity, host=settings.WORKER_HOST):
        run = retry_database(Run.objects.select_related("bundle").filter(pk=run_id).get)
        Execution(run).carry_out()


@dataclass
class Execution:
    """One run on its way through the stages. Holds what later stages need of earlier ones."""

    run: Run
    folder: RunFolder = field(init=False)
    journal: Journal = field(init=False)
    spec: RunSpec = field(init=False)
    run_log: RunLog = field(init=False)
    secrets: Secrets = field(default_factory=Secrets)
    gateway: RunGateway | None = None
    waiting: dict[int, TrialProcess] = field(default_factory=dict)
    _left: dict[str, Left] = field(default_factory=dict)
    _mono_started: float = field(default_factory=time.monotonic)
    _heartbeat: float = 0.0

    def carry_out(self) -> None:
        self.folder = RunFolder.of(settings.DATA, self.run.key)
        self.run_log = RunLog(self.run.key)
        try:
            self._stages()
        except RunStopped as stopped:
            if stopped.reason.deadline == "run":
                self.run_log.say("The run's limit is reached; nothing further starts")
                self.folder.update_facts(deadline="run")
            else:
                self.run_log.say("A cancellation was asked for; nothing further starts")
        except BudgetReached as reached:
            endpoint = self.spec.endpoint
            words = budget_words(reached.code, endpoint.budgets, endpoint.prices)
            self.run_log.say(f"{words[:1].upper()}{words[1:]} is used up; nothing further starts")
            self._note_budgets(reached.code)
        except StageFailed as failure:
            self._note_failure(failure)
        except RunTaken:
            log.warning("run %s was ended elsewhere; stopping what is left of it here", self.run.key)
        except Exception as error:  # the run's own result must say so; nothing may escape before the end
            log.exception("run %s failed unexpectedly", self.run.key)
            detail = f"{type(error).__name__}: {error}"
            stage = Stage(retry_database(Run.objects.filter(pk=self.run.pk).values_list("stage", flat=True).get))
            self._note_failure(
                StageFailed(stage, "harness", "harness.unexpected", "The run failed unexpectedly.", detail)
            )
        finally:
            conclude(self.run.key, secrets=self.secrets, gateway=self.gateway)

    def _stages(self) -> None:
        with self._failing(Stage.PREFLIGHT):
            self._open_folder()
            api = connect(settings.DOCKER_TIMEOUT_S)
            remember_engine(self.folder.path, api)
            assets = load_assets(settings.ASSETS)
            self.run_log.say("Copying the reviewed tasks and checking every byte")
            copy_tasks(self.run.bundle, self.spec, self.folder)
            self._assets = assets
            checks = preflight(self.spec, assets, api, self.journal, self.folder, settings.WORKER_NAME)
            self.folder.update_facts(preflight=[check.as_json() for check in checks])
            self._start_early(1)  # not before the environment that it runs was verified
        self._enter(Stage.GATEWAY, "Starting the networks and the gateway")
        self._left = left_for_gateway(self.spec)
        if (reached := endpoint_usage.reached(self._left)) is not None:
            raise BudgetReached(reached)
        self._note_budgets(None)
        with self._failing(Stage.GATEWAY):
            credential = read_credential(self.spec.endpoint.credential)
            self.secrets.add_credential(credential, self.folder)
            networks = open_networks(api, self.journal)
            self._networks = networks
            ca = read_ca_file(self.spec.endpoint.ca_file)
            ca_pem = None if ca is None else ca.pem
            plan = GatewayPlan.from_spec(
                self.spec, self.run.spec_sha256, settings.GATEWAY_ADDRESSES, ca_pem, self._left
            )
            self.gateway = start_gateway(api, self.journal, networks, plan, credential, self.folder.ledger)
            self.gateway.follow_transcript(self.folder.trials)
            self.secrets.add(self.gateway.run_key.hex())
            self.secrets.add(*(self.gateway.token(number) for number in range(1, plan.trials + 1)))
            self.folder.update_facts(gateway={"container_id": self.gateway.container.id, "closed": False})
        with ended_by_switch(self.spec.endpoint.name, self.gateway):
            self._show_owned()
            self._probe(api)
            for task in self.spec.tasks:
                self._require_budget(api)
                self._trial(task.ordinal, task.name)

    def _require_budget(self, api: docker.APIClient) -> None:
        with self._failing(Stage.TRIAL):
            reached = reached_before_trial(api, self._required_gateway(), self.spec, self.run.key)
        if reached is not None:
            raise BudgetReached(reached)

    def _note_budgets(self, reached: str | None) -> None:
        if self.spec.endpoint.budgets is not None:
            self.folder.update_facts(budgets={"left": left_document(self._left), "reached": reached})

    def _open_folder(self) -> None:
        self.spec = self._confirmed_spec()
        self.folder.create()
        self.journal = Journal.create(self.folder.path, run_id=self.run.key)
        replace_whole(self.folder.spec, self.run.spec.encode())
        replace_whole(self.folder.manifest, self.run.bundle.manifest.encode())
        write_document(
            self.folder.facts,
            {
                "schema": RUN_FACTS_SCHEMA,
                "run_id": self.run.key,
                "spec_sha256": self.run.spec_sha256,
                "started_at": utc_now(),
                "ended_at": None,
                "cancel_requested_at": None,
                "interrupted": False,
                "deadline": None,
                "failure": None,
                "preflight": None,
                "worker": None,
                "probe": None,
                "readiness": None,
                "gateway": None,
                "budgets": None,
            },
        )

    def _confirmed_spec(self) -> RunSpec:
        """The spec of the row, which must be the one whose hash was confirmed: before anything is created."""
        try:
            return load_spec(self.run.spec.encode(), expected_sha256=self.run.spec_sha256).content
        except DocumentError as error:
            sentence = "The stored spec is not the one that was confirmed, so nothing was started. Preview again."
            raise StageFailed(Stage.PREFLIGHT, "integrity", "integrity.spec_mismatch", sentence, str(error)) from error

    def _start_early(self, ordinal: int) -> None:
        """Launch a trial's process ahead of its turn; it waits, and owns nothing, until it is told to go."""
        if ordinal > len(self.spec.tasks) or ordinal in self.waiting:
            return
        self.folder.make_trial(ordinal)
        harness, seconds = self._assets.harness.path, self.spec.limits.trial_s
        process = TrialProcess(self.folder, self.journal, ordinal, harness, seconds, settings.SANDBOX_UIDS)
        process.start_early()
        self.waiting[ordinal] = process

    def _probe(self, api: docker.APIClient) -> None:
        """Two owned probes at once, so that the second costs no time of its own: confinement and readiness."""
        words = "Proving that the run's network reaches nothing but the gateway, and that the endpoint is ready"
        self._enter(Stage.PROBE, words)
        with self._failing(Stage.PROBE), ThreadPoolExecutor(max_workers=1) as pool:
            readiness = pool.submit(self._check_readiness)
            report = prove_egress(
                api,
                self.journal,
                self._required_gateway(),
                self.spec.images.verifier,
                endpoint_url=self.spec.endpoint.base_url,
            )
            self.folder.update_facts(probe=report.as_json())
            found = readiness.result()
            self.folder.update_facts(readiness=found.as_json())
        if not report.passed:
            raise StageFailed(Stage.PROBE, "worker_runtime", "egress.not_confined", report.sentence, report.detail)
        # An endpoint that is not ready ends the run; one that is only slow is left to its trials.
        refusal = found.refusal
        if refusal is not None:
            raise StageFailed(Stage.PROBE, found.failure_class, refusal.code, refusal.sentence)
        for check in found.checks:
            if not check.passed:
                self.run_log.say(check.sentence)

    def _check_readiness(self) -> Readiness:
        """In a thread: with a client of its own, and without the database."""
        with closing(connect(settings.DOCKER_TIMEOUT_S)) as api:
            return check_readiness(
                api,
                self.journal,
                self._required_gateway(),
                self.spec.images.verifier,
                model=self.spec.endpoint.model,
                max_tokens=self.spec.controls.max_completion_tokens,
                sampling=self.spec.controls.sampling.fixed,
                trial=readiness_trial(self.spec),
                has_credential=self.spec.endpoint.credential.kind != "none",
            )

    def _trial(self, ordinal: int, task: str) -> None:
        self._enter(Stage.TRIAL, f"Trial {ordinal}: {task}", trial=ordinal)
        lifecycle.start_trial(self.run.key, ordinal)
        gateway = self._required_gateway()
        with self._failing(Stage.TRIAL):
            self._start_early(ordinal)
            process = self.waiting.pop(ordinal)
            write_trial_files(
                self.spec,
                ordinal=ordinal,
                trial_directory=self.folder.trial(ordinal),
                task_directory=self.folder.task(task),
                network=self._networks.internal,
                gateway_address=gateway.address,
                gateway_url=gateway.url,
            )
        process.go(gateway.token(ordinal))
        until = process.mono_started + self.spec.limits.trial_s
        reason = process.watch(partial(self._reason_to_stop, until), partial(self._on_event, ordinal))
        process.record(reason)
        lifecycle.trial_over(self.run.key, ordinal)
        self._show_owned()
        self.run_log.trial_ended(ordinal, reason)
        if reason.cancelled or reason.deadline == "run":
            raise RunStopped(reason)

    def _on_event(self, ordinal: int, event: dict[str, Any]) -> None:
        stage = self.run_log.observed(ordinal, event)
        if stage is not None:
            lifecycle.start_trial(self.run.key, ordinal, stage=stage)
            self._show_owned()
        if stage == "agent":
            with self._failing(Stage.TRIAL):
                self._start_early(ordinal + 1)

    def _show_owned(self) -> None:
        """Let pages show what the run owns right now; the journal stays the truth, and is mirrored whole at the end."""
        with suppress(JournalError):
            lifecycle.mirror_journal(self.run.key, resource_states(self.journal.read()))

    def _reason_to_stop(self, trial_until: float) -> Reason | None:
        """Asked about ten times a second: cancelled, past a limit, or no longer ours to carry out?"""
        moment = time.monotonic()
        if self._cancelled():
            return Reason(cancelled=True)
        if moment >= self._run_until:
            return Reason(deadline="run")
        if moment >= trial_until:
            return Reason(deadline="trial")
        if moment - self._heartbeat >= HEARTBEAT_S:
            self._heartbeat = moment
            if not lifecycle.heartbeat(self.run.key):
                raise RunTaken(self.run.key)
        return None

    @property
    def _run_until(self) -> float:
        return self._mono_started + self.spec.limits.run_s - ENDING_RESERVE_S

    def _enter(self, stage: Stage, words: str, *, trial: int | None = None) -> None:
        """The door of every stage: a run that was cancelled or is past its limit does not go through."""
        reason = self._reason_to_stop(float("inf"))
        if reason is not None:
            raise RunStopped(reason)
        lifecycle.enter_stage(self.run.key, stage, trial=trial)
        self.run_log.say(words)

    def _cancelled(self) -> bool:
        if lifecycle.cancel_requested_at(self.run.key) is not None:
            return True
        # Started beside the very act of stopping its endpoint, so that nobody has asked for its end yet.
        if endpoint_switch.stopped(self.spec.endpoint.name) is None:
            return False
        lifecycle.request_cancel(self.run.key, user=None)
        return True

    def _required_gateway(self) -> RunGateway:
        if self.gateway is None:
            raise RuntimeError("the gateway is started before any trial")
        return self.gateway

    @contextmanager
    def _failing(self, stage: Stage) -> Iterator[None]:
        """Turn what the parts below raise into a failure of this stage."""
        try:
            yield
        except (
            EngineError,
            JournalError,
            GatewayError,
            AssetError,
            CredentialError,
            CaFileError,
            LaunchFailed,
        ) as error:
            raise StageFailed(stage, "worker_runtime", error.code, error.sentence, error.detail) from error
        except LimitsDoNotFit as error:
            raise StageFailed(stage, "harness", error.code, error.sentence, error.detail) from error
        except PreflightFailed as error:
            raise StageFailed(stage, error.failure_class, error.code, error.sentence, error.detail) from error
        except OSError as error:
            code, sentence = _disk_words(error)
            raise StageFailed(stage, "worker_runtime", code, sentence, str(error)) from error

    def _note_failure(self, failure: StageFailed) -> None:
        # Its detail may quote what others said; the record that it goes into is never changed afterwards.
        detail = Scrubber(self.secrets.values).scrub_text(failure.document["detail"])
        self.secrets.failure = {**failure.document, "detail": detail}
        self.run_log.say(failure.sentence)
        if self.folder.facts.exists():
            # A full disk may be the very failure; the end is told of it all the same.
            with suppress(OSError, FactsDamaged):
                self.folder.update_facts(failure=self.secrets.failure)


def _disk_words(error: OSError) -> tuple[str, str]:
    if error.errno in FULL:
        return "worker_runtime.disk_full", "The worker's disk is full. Free space and start the run again."
    return "worker_runtime.files", "The worker could not write the run's files."
