"""The environment provider inside the sandbox: Harbor's calls become questions to the trial's attendant (design 3.7).

It holds no engine, no journal and no record, and decides nothing: the attendant does, which trusts none of this.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, override

from harbor.environments.base import EnvironmentPath, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities, EnvironmentResourceCapabilities

from runs.harness import downloads
from runs.harness.client import Answer, attendant
from runs.harness.refusing import RefusingEnvironment
from runs.wire import tar_writer
from runs.wire.failures import Unsupported, translated
from runs.wire.tar_reader import Limits

VERIFIER_SUFFIX = "__verifier__trial"
# The attendant's plan has the bounds that count; these only keep one process from packing without end.
LIMITS = Limits(256 * 1024 * 1024, 4096)


class OwnedEnvironment(RefusingEnvironment):
    """One container of a trial. The constructor does no I/O and never raises; `start` refuses."""

    def __init__(self, *args: Any, plan: str = "", **kwargs: Any) -> None:
        # The plan is the attendant's; Harbor's config names it, so that it is known what was planned.
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
        """Let the container be made, then place the task's files. Raises StartRefused, EngineFailed, TransferFailed."""
        await self._ask(
            "start",
            trial_uuid=str(self.context_id),
            policies=[
                {"mode": str(policy.network_mode.value), "hosts": list(policy.allowed_hosts or [])}
                for policy in (self.network_policy, *self._phase_network_policies)
            ],
            refusals=[*self.refusals, *self._unsupported()],
            directories=self._mount_targets(writable_only=True),
        )
        await self._upload_environment_dir_after_start()
        if not self._is_verifier():
            await self._ask("flush")

    def _unsupported(self) -> list[str]:
        found = []
        if not self.task_env_config.docker_image:
            found.append("the task names no image")
        if self.extra_docker_compose_paths:
            found.append("Compose files are not supported")
        return found

    @override
    async def stop(self, delete: bool) -> None:
        await self._ask("stop")

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
        answer = await self._ask(
            "exec",
            command=command,
            cwd=cwd or self.task_env_config.workdir,
            env=dict(self._merge_env(env) or {}),
            timeout_s=float(timeout_sec) if timeout_sec else None,
            user=str(self._resolve_user(user) or ""),
        )
        return ExecResult(stdout=answer.text(0), stderr=answer.text(1), return_code=answer.fields["exit_code"])

    @override
    async def ensure_dirs(self, dirs: Sequence[EnvironmentPath], *, chmod: bool = True) -> ExecResult | None:
        if await self._without_command(dirs, chmod, emptied=False):
            return ExecResult(stdout="", stderr="", return_code=0)
        return await super().ensure_dirs(dirs, chmod=chmod)

    @override
    async def empty_dirs(self, dirs: Sequence[EnvironmentPath], *, chmod: bool = True) -> ExecResult | None:
        if await self._without_command(dirs, chmod, emptied=True):
            return ExecResult(stdout="", stderr="", return_code=0)
        return await super().empty_dirs(dirs, chmod=chmod)

    async def _without_command(self, dirs: Sequence[EnvironmentPath], chmod: bool, *, emptied: bool) -> bool:
        paths = [str(path) for path in dirs]
        answer = await self._ask("directories", paths=paths, world_writable=chmod, emptied=emptied)
        return bool(answer.fields["done"])

    # -- files in ---------------------------------------------------------------------------------------

    @override
    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        await self._send(tar_writer.of_file, Path(source_path), target_path)

    @override
    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        await self._send(tar_writer.of_directory, Path(source_dir), target_dir)

    async def _send(self, pack: Callable[..., tar_writer.Upload], source: Path, target: str) -> None:
        purpose = self._upload_purpose(source)
        if purpose == "agent_logs" and (await self._ask("skip_upload", target=target)).fields["skipped"]:
            return
        with translated("upload"):
            content = tar_writer.stream([pack(purpose, source, "/content", LIMITS)])
        await self._ask("upload", content=content, purpose=purpose, target=target)

    def _upload_purpose(self, source: Path) -> str:
        if source == self.environment_dir:
            return "tests" if self._is_verifier() else "environment"
        if self._is_verifier():
            return "artifacts_in"
        return "agent_logs" if source == self.trial_paths.agent_dir else "environment"

    # -- files out --------------------------------------------------------------------------------------

    @override
    async def is_dir(self, path: str, user: str | int | None = None) -> bool:
        """Answered by the download itself, so that what was looked at is what is taken."""
        return bool((await self._ask("look", path=path)).fields["root"] == "directory")

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
        answer = await self._ask("download", path=source)
        with translated("handover"):
            downloads.deliver(source, answer.fields, answer.contents[0] if answer.contents else None, target)

    # -- small things -----------------------------------------------------------------------------------

    async def _ask(self, do: str, **fields: Any) -> Answer:
        return await attendant().ask(do, session=self.session_id, **fields)

    def _is_verifier(self) -> bool:
        return str(self.session_id).endswith(VERIFIER_SUFFIX)
