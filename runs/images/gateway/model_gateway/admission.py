"""The standing of each trial: one request at a time, and no more to the endpoint than it has steps."""

from .config import Limits


class NotAdmitted(Exception):
    """`code` is stable: busy or steps_used_up."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class Desk:
    """The standing of one trial."""

    def __init__(self, max_steps: int) -> None:
        self._left = max_steps
        self._busy = False
        self._session: bytes | None = None

    def __enter__(self) -> "Desk":
        if self._busy:
            raise NotAdmitted("busy")
        if self._left <= 0:
            raise NotAdmitted("steps_used_up")
        self._busy = True
        return self

    def __exit__(self, *_: object) -> None:
        self._busy = False

    def take_step(self) -> None:
        """Count a request that goes to the endpoint now. Only inside `with desk:`."""
        self._left -= 1

    def compare_session(self, value: bytes | None) -> bool | None:
        """Does this `X-Session-ID` equal the first one of the trial? None before there is any."""
        if self._session is None:
            self._session = value
            return None if value is None else True
        return value == self._session


def open_desks(limits: Limits) -> dict[int, Desk]:
    """One desk per trial 1..n."""
    return {trial: Desk(limits.max_steps) for trial in range(1, limits.trials + 1)}
