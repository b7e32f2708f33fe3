"""Which addresses may be fetched from: public ones, so that a manifest cannot reach into the network it is built in."""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable, Sequence

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Host and port to addresses."""

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_UNICAST = ipaddress.IPv6Network("2000::/3")
"""What is given out to the public internet so far; Python takes more for global, such as IPv4 in old forms."""


async def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a host, as the system knows them.

    Raises:
        OSError: when there are none.
    """
    import asyncio
    import socket

    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def is_public(address: str) -> bool:
    """Tell whether an address belongs to the public internet: not private, loopback, link-local, shared or reserved.

    IPv6 has to be of the part that is given out, or a public IPv4 address by the common translator (64:ff9b::/96). One
    that carries an IPv4 address is judged by that, too.
    """
    try:
        parsed: Address = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv6Address) and parsed not in _UNICAST and parsed not in _NAT64:
        return False
    return all(one.is_global and not one.is_multicast for one in (parsed, *_inside(parsed)))


def _inside(address: Address) -> list[Address]:
    """Return the IPv4 addresses that an IPv6 one carries."""
    if isinstance(address, ipaddress.IPv4Address):
        return []
    found: list[Address] = [] if address.sixtofour is None else [address.sixtofour]
    if address.teredo is not None:
        found += list(address.teredo)
    if address in _NAT64:
        found.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return found
