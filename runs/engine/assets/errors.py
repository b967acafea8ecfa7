"""The error of an asset that cannot be used, and the finding of a verification."""

from dataclasses import dataclass

from benchsite.lib.problems import CodedError


class AssetError(CodedError):
    """An asset that is missing, cannot be built or must not be used.

    `code` is `assets.…`, `harness.…` or `image.…`, `detail` command output or paths.
    """

    @property
    def blocked(self) -> bool:
        """Something that the operator supplies is missing, as opposed to a failure of the work itself."""
        return self.code in BLOCKING


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding of a verification, in the same three parts; ``integrity``: something is not what was locked."""

    code: str
    sentence: str
    detail: str = ""
    integrity: bool = False


BLOCKING = frozenset(
    {
        "assets.missing_offline",
        "assets.not_prepared",
        "assets.tool_missing",
        "assets.busy",
        "assets.disk_full",
        "engine.no_ps",
        "harness.python_too_old",
        "image.engine_unreachable",
        "image.mark_missing",
        "image.needs_root",
        "image.no_package_lock",
    }
)
