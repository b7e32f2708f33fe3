"""Which addresses are public."""

from __future__ import annotations

import asyncio

import pytest

from data_build.cogcanvas.addresses import is_public, resolve


@pytest.mark.parametrize(
    "address",
    [
        *("10.0.0.1", "172.16.0.1", "192.168.1.1", "127.0.0.1", "127.255.0.9", "169.254.169.254", "0.0.0.0"),
        *("100.64.0.1", "192.0.2.1", "198.18.0.1", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255"),
        *("::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12::1", "ff02::1", "2001:db8::1"),
        *("::ffff:127.0.0.1", "::ffff:10.1.1.1", "2002:7f00:1::", "2002:a00:1::1", "64:ff9b::7f00:1", "64:ff9b::a00:1"),
        # IPv4 in old forms, behind a network's own translator, and IPv6 of one site.
        *("::127.0.0.1", "::a00:1", "::ffff:0:7f00:1", "64:ff9b:1::7f00:1", "64:ff9b:1::a00:1", "fec0::1", "5f00::1"),
        *("", "localhost", "1.2.3", "1.2.3.4.5"),
    ],
)
def test_addresses_that_lead_inside_are_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "93.184.216.34", "2606:2800:220:1::1", "64:ff9b::808:808"])
def test_addresses_of_the_internet_are_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "2130706433", "0x7f000001", "127.1"])
def test_every_way_to_write_this_machine_resolves_to_an_address_that_is_not_public(host: str) -> None:
    found = asyncio.run(resolve(host, 80))
    assert found
    assert not any(map(is_public, found))
