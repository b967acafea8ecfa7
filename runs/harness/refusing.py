"""A Harbor environment that remembers what is asked wrongly, and lets `start` say it.

An exception in a provider's constructor, in its validation or in that of a network policy would end Harbor's
whole job, so each of Harbor's checks is run and what it says is kept.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, override

from harbor.environments.base import BaseEnvironment


class RefusingEnvironment(BaseEnvironment):
    """A Harbor environment whose constructor does no I/O and never raises; `refusals` says what was asked wrongly."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.refusals: list[str] = []
        super().__init__(*args, **kwargs)

    @override
    def _validate_definition(self) -> None:
        """Nothing to validate here: the plan and the image lock decide, in `start`."""

    @override
    def _validate_gpu_support(self) -> None:
        self._keep_refusal(super()._validate_gpu_support)

    @override
    def _validate_tpu_support(self) -> None:
        self._keep_refusal(super()._validate_tpu_support)

    @override
    def _validate_windows_support(self) -> None:
        self._keep_refusal(super()._validate_windows_support)

    @override
    def _validate_resource_mode_support(self) -> None:
        self._keep_refusal(super()._validate_resource_mode_support)

    @override
    def _validate_network_policy_support(self) -> None:
        self._keep_refusal(super()._validate_network_policy_support)

    @override
    def _validate_extra_docker_compose_support(self) -> None:
        self._keep_refusal(super()._validate_extra_docker_compose_support)

    @override
    def _maybe_resolve_task_env(self) -> None:
        self._keep_refusal(super()._maybe_resolve_task_env)

    @staticmethod
    @override
    def _normalize_extra_docker_compose_paths(paths: Sequence[Path | str] | None) -> list[Path]:
        return [Path(path) for path in paths or []]

    def _keep_refusal(self, check: Callable[[], None]) -> None:
        # An exception in a constructor would end Harbor's whole job, so `start` says it instead.
        try:
            check()
        except Exception as error:
            self.refusals.append(f"{type(error).__name__}: {error}")
