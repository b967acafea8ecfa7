"""The addresses that a connection may go to: never link-local and metadata ones, private ones as the record says.

An IPv6 address that carries an IPv4 address is judged as both, so that no spelling leads where the plain one may not.
"""

import ipaddress
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Union

Address = Union[ipaddress.IPv4Address, ipaddress.IPv6Address]
Network = Union[ipaddress.IPv4Network, ipaddress.IPv6Network]
Kind = Literal["never", "private", "public"]


def _networks(*texts: str) -> "tuple[Network, ...]":
    return tuple(map(ipaddress.ip_network, texts))


# Link-local, "this" network, multicast, reserved and broadcast; then where clouds hand out credentials and settings.
_NEVER = _networks(
    "169.254.0.0/16", "fe80::/10", "0.0.0.0/8", "::/128", "224.0.0.0/4", "240.0.0.0/4", "ff00::/8",
    "100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32", "fd00:ec2::/32", "fd20:ce::/32",
)  # fmt: skip
# Besides what Python calls not global; written out where its releases differ.
_PRIVATE = _networks(
    "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "198.18.0.0/15",
    "fc00::/7", "fec0::/10", "::/96", "64:ff9b:1::/48", "2001::/23", "2002::/16",
)  # fmt: skip
_NAT64 = _networks("64:ff9b::/96", "64:ff9b:1::/48")


@dataclass(frozen=True)
class AddressRules:
    """`private`: whether loopback, private, unique-local and shared addresses may be used. `within`: the site's list,
    of which an address must be one, whatever the record says; None without a list."""

    private: bool
    within: "tuple[Network, ...] | None" = None

    def permits(self, text: str) -> bool:
        """Whether an address, as the resolver writes it, may be connected to."""
        address = _plain(ipaddress.ip_address(text.partition("%")[0]))
        kind = kind_of(address)
        if kind == "never" or (kind == "private" and not self.private):
            return False
        return self.within is None or _is_in(address, self.within)


def kind_of(address: Address) -> Kind:
    """What an address is, or the worst of what it carries."""
    kinds = [_kind(each) for each in (address, *_carried(address))]
    return "never" if "never" in kinds else "private" if "private" in kinds else "public"


def _kind(address: Address) -> Kind:
    if _is_in(address, _NEVER):
        return "never"
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return "public"  # it is what it carries
    return "private" if _is_in(address, _PRIVATE) or not address.is_global else "public"


def _carried(address: Address) -> "Iterator[ipaddress.IPv4Address]":
    """The IPv4 addresses within: mapped, compatible, 6to4, Teredo, ISATAP, NAT64."""
    if isinstance(address, ipaddress.IPv4Address) or address.is_loopback:
        return
    last = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    upper = (int(address) >> 32) & 0xFFFFFFFF
    if address.ipv4_mapped is not None or _is_in(address, (*_NAT64, *_networks("::/96"))):
        yield last
    if upper in (0x00005EFE, 0x02005EFE):
        yield last
    first, second = (int(address) >> 64) & 0xFFFF, (int(address) >> 40) & 0xFFFF
    if first and _is_in(address, _NAT64[1:]):  # RFC 6052: behind 48 bits of prefix, around the eight bits that are zero
        yield ipaddress.IPv4Address(first << 16 | second)
    if address.sixtofour is not None:
        yield address.sixtofour
    yield from address.teredo or ()


def _plain(address: Address) -> Address:
    """The IPv4 address that a mapped one is for the kernel."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return address if mapped is None else mapped


def _is_in(address: Address, networks: "Sequence[Network]") -> bool:
    return any(address.version == network.version and address in network for network in networks)
