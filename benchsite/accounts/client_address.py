"""The client's address of a request: the peer's, or the one that trusted proxies saw.

Each proxy adds the address of its own peer to the end of `X-Forwarded-For`. Only what trusted proxies added can be
believed: whatever stands before it, a client may have written itself.
"""

from collections.abc import Mapping
from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import Any

from django.conf import settings

_LONGEST = 4096
# A request that carries one of these came through some proxy, so its peer is not its client.
FORWARDING = (
    "HTTP_X_FORWARDED_FOR",
    "HTTP_X_FORWARDED_HOST",
    "HTTP_X_FORWARDED_PROTO",
    "HTTP_X_REAL_IP",
    "HTTP_FORWARDED",
    "HTTP_VIA",
)


def client_address(meta: Mapping[str, Any]) -> str:
    """The client's address in one form; the peer's when the header is short or malformed. May be empty.

    With `TRUSTED_PROXIES` n the n-th entry from the end of `X-Forwarded-For` counts, and nothing else.
    """
    peer, proxies = str(meta.get("REMOTE_ADDR", "")), int(settings.TRUSTED_PROXIES)
    forwarded = str(meta.get("HTTP_X_FORWARDED_FOR", ""))
    if proxies < 1 or not forwarded or len(forwarded) > _LONGEST:
        return _normal(peer) or peer
    entries = forwarded.split(",")
    found = _normal(entries[-proxies]) if len(entries) >= proxies else ""
    return found or _normal(peer) or peer


def network_of(address: str) -> str:
    """What one client of the internet has: an IPv4 address, or an IPv6 network of 64 bits, of which every home and
    every rented machine has at least one to itself. The text as it is when it is no address."""
    normal = _normal(address)
    if not normal:
        return address
    found = ip_address(normal)
    return normal if found.version == 4 else str(IPv6Network((found, 64), strict=False))


def is_direct_loopback(meta: Mapping[str, Any]) -> bool:
    """Whether a process of this very host asks without any proxy between: a proxy's peers are the world."""
    if any(meta.get(name) for name in FORWARDING):
        return False
    peer = _normal(str(meta.get("REMOTE_ADDR", "")))
    return bool(peer) and ip_address(peer).is_loopback


def _normal(text: str) -> str:
    """The address in its one form, an IPv4 address inside IPv6 as itself; empty when it is none."""
    try:
        address = ip_address(text.strip())
    except ValueError:
        return ""
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            return ""
        return str(address.ipv4_mapped or address)
    return str(address)
