"""DSSE envelopes of in-toto statements, signed with Ed25519: written, read strictly, checked.

The signature is over the payload's type and its very bytes (DSSE's pre-authentication encoding), so nothing is made
canonical before it is checked, and bytes of one type are never taken for another's. Nothing in an envelope chooses the
algorithm: there is one.
"""

import base64
import binascii
import hashlib
import json
import re
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from benchsite.lib.strict_json import JsonProblem, load_object

PAYLOAD_TYPE = "application/vnd.in-toto+json"
MAX_BYTES = 16 * 1024 * 1024
MAX_SIGNATURES = 8
SIGNATURE_BYTES = 64
_KEY_ID = re.compile("[0-9a-f]{64}")


class EnvelopeProblem(ValueError):
    """Bytes that are no envelope of ours. `code` is stable, `sentence` says what is wrong."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(code)
        self.code = code
        self.sentence = sentence


@dataclass(frozen=True, slots=True)
class Signature:
    """`key_id` only says which key to try: it is not signed, and proves nothing."""

    key_id: str
    value: bytes


@dataclass(frozen=True, slots=True)
class Envelope:
    """`payload` are the signed bytes; without signatures it is a statement that nobody vouches for."""

    payload: bytes
    signatures: tuple[Signature, ...]

    @property
    def payload_sha256(self) -> str:
        """What one statement calls another by."""
        return hashlib.sha256(self.payload).hexdigest()


def signed_bytes(payload: bytes, payload_type: str = PAYLOAD_TYPE) -> bytes:
    """DSSE's pre-authentication encoding (PAE, version 1)."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def key_id_of(public: bytes) -> str:
    """The id of a key: the SHA-256 of its 32 bytes."""
    return hashlib.sha256(public).hexdigest()


def sign(payload: bytes, key: Ed25519PrivateKey) -> Signature:
    return Signature(key_id_of(key.public_key().public_bytes_raw()), key.sign(signed_bytes(payload)))


def is_signed_by(envelope: Envelope, public: bytes) -> bool:
    """Whether a signature that names this key is its own. Raises ValueError when it is no key."""
    key, key_id = Ed25519PublicKey.from_public_bytes(public), key_id_of(public)
    for signature in envelope.signatures:
        if signature.key_id != key_id:  # the name proves nothing; it bounds what is tried
            continue
        try:
            key.verify(signature.value, signed_bytes(envelope.payload))
        except InvalidSignature:
            continue
        return True
    return False


def write_envelope(envelope: Envelope) -> bytes:
    document = {
        "payload": base64.b64encode(envelope.payload).decode("ascii"),
        "payloadType": PAYLOAD_TYPE,
        "signatures": [
            {"keyid": signature.key_id, "sig": base64.b64encode(signature.value).decode("ascii")}
            for signature in envelope.signatures
        ],
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode("ascii")


def read_envelope(data: bytes) -> Envelope:
    """One envelope of exactly our form. Raises EnvelopeProblem; proves no signature."""
    try:
        document = load_object(data, size=MAX_BYTES, depth=4)
    except JsonProblem as problem:
        raise EnvelopeProblem("envelope.json", f"It is not one strict JSON object ({problem.code}).") from problem
    if document.keys() != {"payload", "payloadType", "signatures"}:
        raise EnvelopeProblem("envelope.fields", "It has not exactly the fields payload, payloadType and signatures.")
    if document["payloadType"] != PAYLOAD_TYPE:
        raise EnvelopeProblem("envelope.payload_type", f"Its payload is not of the type {PAYLOAD_TYPE}.")
    signatures = document["signatures"]
    if not isinstance(signatures, list) or len(signatures) > MAX_SIGNATURES:
        raise EnvelopeProblem("envelope.signatures", f"It has no list of at most {MAX_SIGNATURES} signatures.")
    return Envelope(_bytes(document["payload"]), tuple(_signature(found) for found in signatures))


def _signature(found: object) -> Signature:
    if not isinstance(found, dict) or found.keys() != {"keyid", "sig"}:
        raise EnvelopeProblem("envelope.signatures", "A signature has not exactly the fields keyid and sig.")
    key_id, value = found["keyid"], _bytes(found["sig"])
    if not isinstance(key_id, str) or not _KEY_ID.fullmatch(key_id) or len(value) != SIGNATURE_BYTES:
        raise EnvelopeProblem("envelope.signatures", "A signature is not one of Ed25519 with the id of its key.")
    return Signature(key_id, value)


def _bytes(text: object) -> bytes:
    """Base64 in its one form: of two texts for the same bytes only one is taken."""
    try:
        data = base64.b64decode(text.encode("ascii"), validate=True) if isinstance(text, str) else None
    except (UnicodeEncodeError, binascii.Error):
        data = None
    if data is None or base64.b64encode(data).decode("ascii") != text:
        raise EnvelopeProblem("envelope.base64", "A text in it is not base64.")
    return data
