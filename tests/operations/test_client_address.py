"""The address that bounds count by: the peer's, or what trusted proxies saw; never what a client claims."""

import pytest
import redis
from django.test import Client

from benchsite.accounts import throttle
from benchsite.accounts.client_address import client_address, is_direct_loopback, network_of

PEER = "198.51.100.9"


def address(settings, proxies: int, forwarded: str | None, peer: str = PEER) -> str:
    settings.TRUSTED_PROXIES = proxies
    header = {} if forwarded is None else {"HTTP_X_FORWARDED_FOR": forwarded}
    return client_address({"REMOTE_ADDR": peer, **header})


@pytest.mark.parametrize(
    ("proxies", "forwarded", "found"),
    [
        (0, None, PEER),
        (0, "192.0.2.7", PEER),
        (1, None, PEER),
        (1, "192.0.2.7", "192.0.2.7"),
        (1, "203.0.113.5, 192.0.2.7", "192.0.2.7"),
        (2, "203.0.113.5, 192.0.2.7, 192.0.2.8", "192.0.2.7"),
        (2, "192.0.2.8", PEER),
        (1, "192.0.2.7, nonsense", PEER),
        (1, "192.0.2.7,", PEER),
        (1, "192.0.2.7:4711", PEER),
        (1, "192.0.2.07", PEER),
        (1, "fe80::1%eth0", PEER),
        (1, "192.0.2.7\0", PEER),
        (1, "2001:DB8:0::1", "2001:db8::1"),
        (1, "::ffff:192.0.2.7", "192.0.2.7"),
        (1, f"{'192.0.2.1, ' * 500}192.0.2.7", PEER),
    ],
)
def test_only_what_a_trusted_proxy_added_counts(settings, proxies, forwarded, found):
    assert address(settings, proxies, forwarded) == found


def test_a_peer_that_is_no_address_is_kept_as_it_is(settings):
    assert address(settings, 1, "nonsense", peer="unix") == "unix"


@pytest.mark.parametrize("peer", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"])
def test_this_host_itself_is_known(peer):
    assert is_direct_loopback({"REMOTE_ADDR": peer})


@pytest.mark.parametrize("header", ["X_FORWARDED_FOR", "X_FORWARDED_PROTO", "X_REAL_IP", "FORWARDED", "VIA"])
def test_nobody_who_came_through_a_proxy_is_this_host(header):
    assert not is_direct_loopback({"REMOTE_ADDR": "127.0.0.1", f"HTTP_{header}": "127.0.0.1"})


@pytest.mark.parametrize("peer", ["", "unix", "192.0.2.7", "::2"])
def test_other_peers_are_not_this_host(peer):
    assert not is_direct_loopback({"REMOTE_ADDR": peer})


@pytest.mark.django_db
@pytest.mark.parametrize(("proxies", "statuses"), [(0, [429, 429]), (1, [429, 200])])
def test_a_forged_header_escapes_no_bound(settings, monkeypatch, proxies, statuses):
    """The client writes a new address before each attempt; the last entry is the proxy's."""
    monkeypatch.setattr(throttle, "_here", type(throttle._here)(list))
    settings.TRUSTED_PROXIES = proxies

    def attempt(forged: str, seen: str) -> int:
        data = {"username": "somebody", "password": "wrong"}
        headers = {"X-Forwarded-For": f"{forged}, {seen}"}
        return Client().post("/sign-in/", data, REMOTE_ADDR="127.0.0.1", headers=headers).status_code

    for number in range(throttle.PER_NAME):
        attempt(f"203.0.113.{number}", "192.0.2.7")
    assert [attempt("203.0.113.99", "192.0.2.7"), attempt("203.0.113.99", "192.0.2.8")] == statuses


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("::1", "::/64"),
        ("", ""),
        ("no address", "no address"),
    ],
)
def test_an_ipv6_network_is_one_address(address: str, counted: str) -> None:
    assert network_of(address) == counted


def test_a_new_ipv6_address_for_each_try_does_not_get_around_the_bound(monkeypatch) -> None:
    monkeypatch.setattr(throttle, "_here", type(throttle._here)(list))
    monkeypatch.setattr(throttle, "_client", _unreachable)
    for number in range(throttle.PER_NAME):
        assert not throttle.blocked("olga", "2001:db8::99")
        throttle.failed("olga", f"2001:db8::{number:x}")
    assert throttle.blocked("olga", "2001:db8::ffff") and not throttle.blocked("olga", "2001:db8:0:1::1")
    throttle.succeeded("olga", "2001:db8::abcd")
    assert not throttle.blocked("olga", "2001:db8::ffff")
    for number in range(throttle.PER_ADDRESS):
        throttle.failed(f"name{number}", f"2001:db8::{number:x}")
    assert throttle.blocked("vera", "2001:db8::1234") and not throttle.blocked("vera", "2001:db8:0:1::1")


def _unreachable() -> redis.Redis:
    raise redis.ConnectionError
