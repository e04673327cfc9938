"""Which function reads which layer, and what the others are called in the summary.

A new link type or encapsulation is a function and a line here.
"""

from __future__ import annotations

from .cursor import ETHERTYPE, IP_PROTOCOL, UDP_PORT, Layer
from .frames import (
    ethernet,
    linux_cooked,
    linux_cooked_2,
    null,
    raw_ip,
    raw_ipv4,
    raw_ipv6,
    vlan,
)
from .ip import authentication, extension, fragment_header, ipv4, ipv6
from .transport import tcp, udp
from .tunnels import (
    BRIDGED,
    ERSPAN_1_OR_2,
    erspan_2,
    erspan_3,
    geneve,
    gre,
    ipv4_in_ip,
    ipv6_in_ip,
    mpls,
    vxlan,
)

# LINKTYPE_ values. 12 and 14 are what some systems wrote for raw IP.
LINK_TYPES: dict[int, Layer] = {
    0: null,
    1: ethernet,
    12: raw_ip,
    14: raw_ip,
    101: raw_ip,
    108: null,
    113: linux_cooked,
    228: raw_ipv4,
    229: raw_ipv6,
    276: linux_cooked_2,
}

LAYERS: dict[int, Layer] = {
    ETHERTYPE + 0x0800: ipv4,
    ETHERTYPE + 0x86DD: ipv6,
    ETHERTYPE + 0x8100: vlan,
    ETHERTYPE + 0x88A8: vlan,
    ETHERTYPE + 0x9100: vlan,
    ETHERTYPE + 0x22EB: erspan_3,
    BRIDGED: ethernet,
    ETHERTYPE + 0x8847: mpls,
    ETHERTYPE + 0x8848: mpls,
    ETHERTYPE + ERSPAN_1_OR_2: erspan_2,
    IP_PROTOCOL + 0: extension,  # hop-by-hop options
    IP_PROTOCOL + 4: ipv4_in_ip,
    IP_PROTOCOL + 6: tcp,
    IP_PROTOCOL + 17: udp,
    IP_PROTOCOL + 41: ipv6_in_ip,
    IP_PROTOCOL + 43: extension,  # routing
    IP_PROTOCOL + 44: fragment_header,
    IP_PROTOCOL + 47: gre,
    IP_PROTOCOL + 51: authentication,
    IP_PROTOCOL + 60: extension,  # destination options
    IP_PROTOCOL + 135: extension,  # mobility
    IP_PROTOCOL + 139: extension,  # host identity
    IP_PROTOCOL + 140: extension,  # shim6
    UDP_PORT + 4789: vxlan,
    UDP_PORT + 6081: geneve,
    UDP_PORT + 6635: mpls,
    UDP_PORT + 8472: vxlan,  # the default of Linux
}

NAMES: dict[int, str] = {
    ETHERTYPE + 0x0806: "arp",
    ETHERTYPE + 0x8035: "rarp",
    ETHERTYPE + 0x8863: "pppoe",
    ETHERTYPE + 0x8864: "pppoe",
    ETHERTYPE + 0x888E: "eapol",
    ETHERTYPE + 0x88CC: "lldp",
    ETHERTYPE + 0x88F7: "ptp",
    IP_PROTOCOL + 1: "icmp",
    IP_PROTOCOL + 2: "igmp",
    IP_PROTOCOL + 50: "esp",
    IP_PROTOCOL + 58: "icmpv6",
    IP_PROTOCOL + 59: "no next header",
    IP_PROTOCOL + 89: "ospf",
    IP_PROTOCOL + 103: "pim",
    IP_PROTOCOL + 112: "vrrp",
    IP_PROTOCOL + 132: "sctp",
}


def layer_name(code: int) -> str:
    """What the summary calls a layer that holds no TCP."""
    name = NAMES.get(code)
    if name is not None:
        return name
    if code >= UDP_PORT:
        return "udp"
    if code >= IP_PROTOCOL:
        return f"ip protocol {code - IP_PROTOCOL}"
    return f"ethertype 0x{code - ETHERTYPE:04x}"
