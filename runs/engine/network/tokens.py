"""Which bearer is a trial's own? The engine's side of the gateway's attribution (gateway.md)."""

import hashlib
import hmac
import secrets

RUN_KEY_BYTES = 32


def new_run_key() -> bytes:
    """A fresh key of one run; it lives in the worker's and the gateway's memory only."""
    return secrets.token_bytes(RUN_KEY_BYTES)


def derive_token(run_key: bytes, trial: int) -> str:
    """The bearer of one trial: hex HMAC-SHA256 of `trial:<n>`. The gateway's program computes the same."""
    return hmac.new(run_key, f"trial:{trial}".encode("ascii"), hashlib.sha256).hexdigest()
