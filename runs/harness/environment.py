"""The environment provider: how Harbor's calls become owned containers and recorded transfers (design 3.7).

Speaks to the engine directly, without Compose and without bind mounts. Both containers of a trial come from
here; the role is told by the suffix of Harbor's session id.
"""

import os
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, override

from harbor.environments.base import EnvironmentPath, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities, EnvironmentResourceCapabilities
from harbor.models.task.config import NetworkMode, NetworkPolicy

from runs.harness import handover, packing, preloading, trial_token
from runs.harness.commands import Purpose, is_install, purpose_of, script_made_executable
from runs.harness.container import Container, Who, record_failure
from runs.harness.execs import Command
from runs.harness.failures import ProviderError, StartRefused, Unsupported, translated
from runs.harness.observed import Observed, observed_at
from runs.harness.plan import Plan, load_plan
from runs.harness.refusing import RefusingEnvironment
from runs.harness.session import Session
from runs.harness.threads import in_thread
from runs.harness.transfer import Limits
from runs.ownership import Journal

OPEN_DIRECTORY = 0o777
EXEC_LIMIT_S = 3600.0
AGENT_SUFFIX, VERIFIER_SUFFIX = "__env", "__verifier__trial"
ROLES = {AGENT_SUFFIX: "agent", VERIFIER_SUFFIX: "verifier"}
# One request per step and no hidden repeats (design 3.8); nothing is fetched while the agent is imported.
AGENT_ENV = {"MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}


class OwnedEnvironment(RefusingEnvironment):
    """One container of a trial. The constructor does no I/O and never raises; `start` refuses."""

    def __init__(self, *args: Any, plan: str = "", **kwargs: Any) -> None:
        self._plan_path = Path(plan)
        self._plan: Plan | None = None
        self._observed: Observed | None = None
        self._session: Session | None = None
        super().__init__(*args, **kwargs)

    # -- what Harbor asks before anything runs ----------------------------------------------------------

    @staticmethod
    @override
    def type() -> str:
        return "benchsite-owned"

    @property
    @override
    def capabilities(self) -> EnvironmentCapabilities:
        return EnvironmentCapabilities(
            disable_internet=True, network_allowlist=True, network_allowlist_hostnames=True, mounted=False
        )

    @classmethod
    @override
    def resource_capabilities(cls) -> EnvironmentResourceCapabilities:
        return EnvironmentResourceCapabilities(cpu_limit=True, memory_limit=True)

    # -- start and stop ---------------------------------------------------------------------------------

    @override
    async def start(self, force_build: bool) -> None:
        """Check, create, start, place the task's files. Raises StartRefused, EngineFailed, TransferFailed."""
        try:
            with translated("start"):
                await in_thread(self._open)
        except ProviderError as error:
            self._record_failure("start", error)
            raise
        session = self._require()
        session.make_directories(self._mount_targets(writable_only=True), OPEN_DIRECTORY)
        await self._upload_environment_dir_after_start()
        if self._role() == "agent":
            await session.flush()

    def _open(self) -> None:
        plan = self._plan = load_plan(self._plan_path)
        observed = self._observed = observed_at(plan.directory / "observed.jsonl")
        self._check(plan)
        who = Who(self._role(), plan.trial, self.session_id, str(self.context_id))
        ready = preloading.take(self.session_id)
        container = ready or _container(plan, who, observed)
        # Known before it is created, so that `stop` finds it however far this comes.
        self._session = Session(
            container,
            who,
            plan,
            observed,
            artifacts=self._declared_artifacts(),
            check_agent_logs=handover.agent_logs_problem,
            beside_agent=lambda: self._prepare_verifier(plan, observed),
            # Most likely no verifier comes any more; after a deadline one does, and starts on its own.
            after_cancel=preloading.discard_all,
        )
        if ready is None:
            container.start()
        container.announce()

    def _prepare_verifier(self, plan: Plan, observed: Observed) -> None:
        expected = self.session_id.removesuffix(AGENT_SUFFIX) + VERIFIER_SUFFIX
        who = Who("verifier", plan.trial, expected, str(self.context_id))
        preloading.prepare(expected, lambda: _container(plan, who, observed))

    def _check(self, plan: Plan) -> None:
        """Refuse whatever would soften the trial: another role, another network, a task that wants more."""
        problems = list(self.refusals)
        role = self._role()
        if role not in plan.roles:
            problems.append(f"the session {self.session_id} has no role in the plan")
        elif any(not _is_allowed(policy, role, plan) for policy in self._policies()):
            problems.append("the network policy is not the one that this role has")
        if not self.task_env_config.docker_image:
            problems.append("the task names no image")
        if self.extra_docker_compose_paths:
            problems.append("Compose files are not supported")
        if self.context_id is None:
            problems.append("Harbor gave no trial id")
        if problems:
            raise StartRefused(
                "start.refused",
                "This trial asks for something that benchsite does not run.",
                "; ".join(problems),
            )

    def _policies(self) -> list[NetworkPolicy]:
        return [self.network_policy, *self._phase_network_policies]

    @override
    async def stop(self, delete: bool) -> None:
        """Counters, stop, state, removal. Never raises: what fails is in the record and the journal."""
        if self._session is not None:
            await self._session.close()

    # -- commands ---------------------------------------------------------------------------------------

    @override
    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        """Run a shell line as Harbor's own Docker backend does. Raises ExecTimedOut, never TimeoutError."""
        session, role = self._require(), self._role()
        script = script_made_executable(command) if role == "verifier" else None
        if script is not None and session.make_executable(script):
            return ExecResult(stdout="", stderr="", return_code=0)
        purpose = purpose_of(command, role)
        who = str(self._resolve_user(user) or "")
        finished = await session.execute(
            purpose,
            Command(
                ("bash", "-c", command),
                user=who,
                workdir=cwd or self.task_env_config.workdir,
                env=self._exec_env(env, purpose),
            ),
            float(timeout_sec) if timeout_sec else EXEC_LIMIT_S,
            who,
        )
        if role == "agent" and finished.exit_code == 0 and is_install(command):
            session.learn_version(who)
        return ExecResult(stdout=finished.stdout, stderr=finished.stderr, return_code=finished.exit_code)

    def _exec_env(self, env: dict[str, str] | None, purpose: Purpose) -> dict[str, str]:
        merged = dict(self._merge_env(env) or {})
        if purpose is not Purpose.AGENT or self._plan is None:
            return merged
        return trial_token.in_place_of(self._plan.placeholder, {**merged, **AGENT_ENV})

    @override
    async def ensure_dirs(self, dirs: Sequence[EnvironmentPath], *, chmod: bool = True) -> ExecResult | None:
        session = self._require()
        if self._role() == "verifier" and session.commands_run == 0:
            session.make_directories(map(str, dirs), OPEN_DIRECTORY if chmod else packing.DIRECTORY_MODE)
            return ExecResult(stdout="", stderr="", return_code=0)
        return await super().ensure_dirs(dirs, chmod=chmod)

    @override
    async def empty_dirs(self, dirs: Sequence[EnvironmentPath], *, chmod: bool = True) -> ExecResult | None:
        session = self._require()
        if self._role() == "verifier" and all(session.is_fresh_below(str(path)) for path in dirs):
            session.make_directories(map(str, dirs), OPEN_DIRECTORY if chmod else packing.DIRECTORY_MODE)
            return ExecResult(stdout="", stderr="", return_code=0)
        return await super().empty_dirs(dirs, chmod=chmod)

    # -- files in ---------------------------------------------------------------------------------------

    @override
    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        await self._send(packing.of_file, Path(source_path), target_path)

    @override
    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        await self._send(packing.of_directory, Path(source_dir), target_dir)

    async def _send(self, pack: Callable[..., packing.Upload], source: Path, target: str) -> None:
        session, purpose = self._require(), self._upload_purpose(source)
        if purpose == "agent_logs":
            # Harbor would put the agent's own logs back into a container that it stops next.
            session.skip_upload(purpose, target)
            return
        with translated("upload"):
            session.queue(await in_thread(lambda: pack(purpose, source, target, self._limits())))
        if self._role() == "agent" and session.agent_ran:
            await session.flush()

    def _upload_purpose(self, source: Path) -> str:
        if source == self.environment_dir:
            return "tests" if self._role() == "verifier" else "environment"
        if self._role() == "verifier":
            return "artifacts_in"
        return "agent_logs" if source == self.trial_paths.agent_dir else "environment"

    # -- files out --------------------------------------------------------------------------------------

    @override
    async def is_dir(self, path: str, user: str | int | None = None) -> bool:
        """Answered by the download itself, so that what was looked at is what is taken."""
        return (await self._require().bring(path)).root == "directory"

    @override
    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        await self._receive(source_dir, Path(target_dir))

    @override
    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        await self._receive(source_path, Path(target_path))

    @override
    async def download_dir_with_exclusions(
        self, *, source_dir: str, target_dir: Path | str, exclude: list[str]
    ) -> None:
        raise Unsupported("transfer.exclusions", "Artifacts with exclusions are not supported.", source_dir)

    @override
    async def download_dir_filtered(
        self,
        *,
        source_dir: str,
        target_dir: Path | str,
        include: Sequence[str] | None = None,
        exclude: Sequence[str] | None = None,
        protect: Sequence[str] | None = None,
    ) -> None:
        raise Unsupported("transfer.filters", "Filtered log downloads are not supported.", source_dir)

    async def _receive(self, source: str, target: Path) -> None:
        fetched = await self._require().bring(source)
        with translated("handover"):
            await in_thread(lambda: handover.hand_over(fetched, target))

    # -- small things -----------------------------------------------------------------------------------

    def _role(self) -> str:
        return next((role for suffix, role in ROLES.items() if self.session_id.endswith(suffix)), "unknown")

    def _require(self) -> Session:
        if self._session is None:
            raise StartRefused("container.not_started", "The container was never started.")
        return self._session

    def _limits(self) -> Limits:
        assert self._plan is not None
        return Limits(self._plan.bounds.transfer_bytes, self._plan.bounds.transfer_files)

    def _declared_artifacts(self) -> list[str]:
        """The task's own artifact paths, only to fetch them together; Harbor still asks for each."""
        try:
            declared = tomllib.loads((self.environment_dir.parent / "task.toml").read_text()).get("artifacts", [])
            sources = [item if isinstance(item, str) else item["source"] for item in declared]
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return []
        return [source for source in sources if isinstance(source, str)]

    def _record_failure(self, where: str, error: ProviderError) -> None:
        if self._observed is not None:
            record_failure(self._observed, self._role(), where, error)


def _container(plan: Plan, who: Who, observed: Observed) -> Container:
    journal = Journal(plan.journal_directory, process=os.getpid())
    return Container(journal, who, plan.roles[who.role], observed)


def _is_allowed(policy: NetworkPolicy, role: str, plan: Plan) -> bool:
    if role == "verifier":
        return bool(policy.network_mode == NetworkMode.NO_NETWORK)
    hosts = [plan.roles["agent"].gateway_host]
    return policy.network_mode == NetworkMode.ALLOWLIST and list(policy.allowed_hosts) == hosts
