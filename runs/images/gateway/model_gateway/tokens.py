"""Who is asking: bearer tokens that only the holder of the run key can make, one per trial."""

import hashlib
import hmac


def derive_token(run_key: bytes, trial: int) -> str:
    """The bearer of one trial: hex HMAC-SHA256 of `trial:<n>` (the engine's `tokens.py` says the same)."""
    return hmac.new(run_key, f"trial:{trial}".encode("ascii"), hashlib.sha256).hexdigest()


class TokenBook:
    """The tokens of a run's trials 1..n."""

    def __init__(self, run_key: bytes, trials: int) -> None:
        self._tokens = {
            trial: f"Bearer {derive_token(run_key, trial)}".encode("ascii") for trial in range(1, trials + 1)
        }

    def trial_of(self, authorization: bytes) -> int | None:
        """The trial whose token this header value carries, or None. All are compared, in constant time."""
        found = None
        for trial, expected in self._tokens.items():
            if hmac.compare_digest(expected, authorization):
                found = trial
        return found
