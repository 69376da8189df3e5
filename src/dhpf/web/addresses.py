"""What an address tells: whether only this machine has it, and whose it is."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network


def address(host: str) -> IPv4Address | IPv6Address | None:
    """A host in digits, if it is; with IPv6, an IPv4 address in disguise is taken out of it."""
    try:
        found = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    found = address(host)
    return host == "localhost" if found is None else found.is_loopback


def client_at(host: str) -> str:
    """Who is at an address: with IPv6, one client has a whole network of 2^64 of them."""
    found = address(host)
    return str(ip_network((int(found), 64), strict=False)) if isinstance(found, IPv6Address) else str(found)
