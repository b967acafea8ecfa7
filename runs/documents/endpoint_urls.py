"""Rules for an endpoint's base URL on its route. No sentence here quotes the URL: it may hold a secret."""

import ipaddress
import re
import socket
from collections.abc import Iterator
from urllib.parse import SplitResult, urlsplit

from benchsite.lib.problems import Problem

MAX_URL = 500
DIRECT = "direct"
HOST_GATEWAY = "host-gateway"
_HOST = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)(\.(?!-)[a-z0-9-]{1,63}(?<!-))*")
_PATH = re.compile(r"(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*")
_LOOPBACK_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback")

type _Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def url_problems(url: str, route: str) -> Iterator[Problem]:
    """Everything that is wrong with `url` as the base URL of an endpoint on `route`."""
    if (parts := _split(url)) is None:
        yield Problem("base_url", "endpoint.bad_url", "it is not an http or https URL in plain ASCII")
        return
    if "@" in parts.netloc:
        sentence = "the URL carries user information; name the credential's file or variable instead"
        yield Problem("base_url", "endpoint.user_info", sentence)
    if "?" in url:
        yield Problem("base_url", "endpoint.query", "the URL carries a query; a base URL ends with its path")
    if "#" in url:
        yield Problem("base_url", "endpoint.fragment", "the URL carries a fragment")
    if not _PATH.fullmatch(parts.path):
        yield Problem("base_url", "endpoint.bad_path", "the path is not plain, or ends with a slash")
    yield from _host_problems(parts.hostname or "", route)


def host_of(url: str) -> str:
    """Host, and port if one is written, of a URL without problems: `models.example:8000`."""
    return urlsplit(url).netloc.lower()


def is_loopback(host: str) -> bool:
    """Whether a host names the machine that asks, as a name or in any way of writing the address."""
    if host.rstrip(".").lower() in _LOOPBACK_NAMES or host.rstrip(".").lower().endswith(".localhost"):
        return True
    address = literal_address(host)
    return address is not None and (address.is_loopback or address.is_unspecified)


def _split(url: str) -> SplitResult | None:
    if not url.isascii() or len(url) > MAX_URL or not re.fullmatch(r"[!-~]+", url) or "\\" in url:
        return None
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        return None
    return parts


def _host_problems(host: str, route: str) -> Iterator[Problem]:
    address = literal_address(host)
    if address is None and not _HOST.fullmatch(host.rstrip(".").lower()):
        yield Problem("base_url", "endpoint.bad_host", "the host is neither a name nor an address")
    elif address is not None and str(address) != host and not host.startswith("::"):
        yield Problem("base_url", "endpoint.odd_address", "the address is not written in its usual form")
    if address is not None and (address.is_link_local or address.is_multicast):
        yield Problem("base_url", "endpoint.bad_host", "a link-local or multicast address is no endpoint")
    if is_loopback(host) and route == DIRECT:
        sentence = (
            "the host is a loopback address: inside the gateway's container that is the container itself. "
            "If the model is served on the worker's host, declare the route host-gateway; nothing is rewritten silently"
        )
        yield Problem("base_url", "endpoint.loopback_without_route", sentence)
    if not is_loopback(host) and route == HOST_GATEWAY:
        sentence = "the route host-gateway leads to the worker's host, but the URL names another host"
        yield Problem("route", "endpoint.route_without_loopback", sentence)


def literal_address(host: str) -> _Address | None:
    """The address that a host stands for, also written as `127.1`, `0x7f000001`, `2130706433` or with a final dot."""
    host = host.rstrip(".")
    try:
        address: _Address = ipaddress.ip_address(host)
    except ValueError:
        try:
            address = ipaddress.IPv4Address(socket.inet_aton(host))
        except (OSError, ValueError):
            return None
    mapped = getattr(address, "ipv4_mapped", None)
    return mapped if isinstance(mapped, ipaddress.IPv4Address) else address
