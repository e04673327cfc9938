"""Tables of layers: the function that reads each, and the names of all others in the summary.

A new link type or encapsulation is a function and a line here.
"""

from __future__ import annotations

from typing import Final

from kinspect.link.cursor import ETHERTYPE, IP_PROTOCOL, LINK_TYPE, PPP, UDP_PORT, Layer
from kinspect.link.erf import erf
from kinspect.link.frames import (
    e_tag,
    ethernet,
    ipoib,
    linux_cooked,
    linux_cooked_2,
    null,
    raw_ip,
    raw_ipv4,
    raw_ipv6,
    vlan,
    vn_tag,
)
from kinspect.link.icmp import icmp, icmpv6
from kinspect.link.ip import authentication, extension, fragment_header, ipv4, ipv6
from kinspect.link.ppp import cisco_hdlc, ppp, ppp_hdlc, pppoe
from kinspect.link.pseudoheaders import nflog, pktap, user_2
from kinspect.link.transport import tcp, udp
from kinspect.link.tunnels import (
    BRIDGED,
    ERSPAN_1_OR_2,
    erspan_2,
    erspan_3,
    fabricpath,
    geneve,
    gre,
    ipv4_in_ip,
    ipv6_in_ip,
    mpls,
    pbb,
    vxlan,
    wccp,
)

# LINKTYPE_ values. Some systems wrote 12 or 14 for raw IP.
LINK_TYPES: Final[dict[int, Layer]] = {
    0: null,
    1: ethernet,
    9: ppp,
    12: raw_ip,
    14: raw_ip,
    50: ppp_hdlc,
    51: pppoe,
    101: raw_ip,
    104: cisco_hdlc,
    108: null,
    113: linux_cooked,
    149: user_2,
    197: erf,
    219: mpls,
    228: raw_ipv4,
    229: raw_ipv6,
    239: nflog,
    242: ipoib,
    258: pktap,
    276: linux_cooked_2,
}

LAYERS: Final[dict[int, Layer]] = {
    ETHERTYPE + 0x0800: ipv4,
    ETHERTYPE + 0x86DD: ipv6,
    ETHERTYPE + 0x8100: vlan,
    ETHERTYPE + 0x88A8: vlan,
    ETHERTYPE + 0x9100: vlan,
    ETHERTYPE + 0x22EB: erspan_3,
    BRIDGED: ethernet,
    ETHERTYPE + 0x880B: ppp,
    ETHERTYPE + 0x883E: wccp,
    ETHERTYPE + 0x8847: mpls,
    ETHERTYPE + 0x8848: mpls,
    ETHERTYPE + 0x8864: pppoe,
    ETHERTYPE + 0x88E7: pbb,
    ETHERTYPE + 0x8903: fabricpath,
    ETHERTYPE + 0x8926: vn_tag,
    ETHERTYPE + 0x893F: e_tag,
    ETHERTYPE + ERSPAN_1_OR_2: erspan_2,
    IP_PROTOCOL + 0: extension,  # hop-by-hop options
    IP_PROTOCOL + 1: icmp,
    IP_PROTOCOL + 4: ipv4_in_ip,
    IP_PROTOCOL + 6: tcp,
    IP_PROTOCOL + 17: udp,
    IP_PROTOCOL + 41: ipv6_in_ip,
    IP_PROTOCOL + 43: extension,  # routing
    IP_PROTOCOL + 44: fragment_header,
    IP_PROTOCOL + 47: gre,
    IP_PROTOCOL + 51: authentication,
    IP_PROTOCOL + 58: icmpv6,
    IP_PROTOCOL + 60: extension,  # destination options
    IP_PROTOCOL + 135: extension,  # mobility
    IP_PROTOCOL + 139: extension,  # host identity
    IP_PROTOCOL + 140: extension,  # shim6
    UDP_PORT + 4789: vxlan,
    UDP_PORT + 6081: geneve,
    UDP_PORT + 6635: mpls,
    UDP_PORT + 8472: vxlan,  # the default of Linux
    PPP + 0x0021: ipv4,
    PPP + 0x0057: ipv6,
    PPP + 0x0281: mpls,
    PPP + 0x0283: mpls,
    **{LINK_TYPE + number: layer for number, layer in LINK_TYPES.items()},
}

NAMES: Final[dict[int, str]] = {
    ETHERTYPE + 0x0806: "arp",
    ETHERTYPE + 0x8035: "rarp",
    ETHERTYPE + 0x8863: "pppoe",
    ETHERTYPE + 0x888E: "eapol",
    ETHERTYPE + 0x88CC: "lldp",
    ETHERTYPE + 0x88F7: "ptp",
    IP_PROTOCOL + 2: "igmp",
    IP_PROTOCOL + 50: "esp",
    IP_PROTOCOL + 59: "no next header",
    IP_PROTOCOL + 89: "ospf",
    IP_PROTOCOL + 103: "pim",
    IP_PROTOCOL + 112: "vrrp",
    IP_PROTOCOL + 132: "sctp",
    PPP + 0x002D: "ppp compressed tcp",
    PPP + 0x002F: "ppp uncompressed tcp",
    PPP + 0x003D: "ppp multilink",
    PPP + 0x00FD: "ppp compressed",
    PPP + 0x8021: "ppp ipcp",
    PPP + 0x8057: "ppp ipv6cp",
    PPP + 0xC021: "ppp lcp",
}

# Names in the registry of common link types without a function.
LINK_TYPE_NAMES: Final = {
    3: "AX25",
    6: "IEEE802_5",
    7: "ARCNET_BSD",
    8: "SLIP",
    10: "FDDI",
    100: "ATM_RFC1483",
    105: "IEEE802_11",
    106: "ATM_CLIP",
    107: "FRELAY",
    109: "ENC",
    114: "LTALK",
    117: "PFLOG",
    119: "IEEE802_11_PRISM",
    122: "IP_OVER_FC",
    123: "SUNATM",
    127: "IEEE802_11_RADIOTAP",
    129: "ARCNET_LINUX",
    138: "APPLE_IP_OVER_IEEE1394",
    143: "DOCSIS",
    144: "LINUX_IRDA",
    163: "IEEE802_11_AVS",
    166: "PPP_PPPD",
    175: "ERF_ETH",
    176: "ERF_POS",
    177: "LINUX_LAPD",
    178: "JUNIPER_ETHER",
    182: "MFR",
    187: "BLUETOOTH_HCI_H4",
    189: "USB_LINUX",
    192: "PPI",
    195: "IEEE802_15_4_WITHFCS",
    201: "BLUETOOTH_HCI_H4_WITH_PHDR",
    204: "PPP_WITH_DIR",
    205: "C_HDLC_WITH_DIR",
    206: "FRELAY_WITH_DIR",
    220: "USB_LINUX_MMAPPED",
    224: "FC_2",
    225: "FC_2_WITH_FRAME_DELIMS",
    226: "IPNET",
    227: "CAN_SOCKETCAN",
    230: "IEEE802_15_4_NOFCS",
    231: "DBUS",
    240: "NETANALYZER",
    241: "NETANALYZER_TRANSPARENT",
    247: "INFINIBAND",
    248: "SCTP",
    249: "USBPCAP",
    251: "BLUETOOTH_LE_LL",
    252: "WIRESHARK_UPPER_PDU",
    253: "NETLINK",
    254: "BLUETOOTH_LINUX_MONITOR",
    256: "BLUETOOTH_LE_LL_WITH_PHDR",
    259: "EPON",
    266: "USB_DARWIN",
    267: "OPENFLOW",
    271: "VSOCK",
    272: "NORDIC_BLE",
    274: "ETHERNET_MPACKET",
    280: "VPP_DISPATCH",
    281: "DSA_TAG_BRCM",
    282: "DSA_TAG_BRCM_PREPEND",
    283: "IEEE802_15_4_TAP",
    284: "DSA_TAG_DSA",
    285: "DSA_TAG_EDSA",
    288: "USB_2_0",
}


def layer_name(code: int) -> str:
    """Name in the summary of a layer that no TCP segment was found in."""
    name = NAMES.get(code)
    if name is not None:
        return name
    if code >= PPP:
        return f"ppp protocol 0x{code - PPP:04x}"
    if code >= LINK_TYPE:
        number = code - LINK_TYPE
        known = LINK_TYPE_NAMES.get(number)
        return f"link type {number}" if known is None else f"link type {known} ({number})"
    if code >= UDP_PORT:
        return "udp"
    if code >= IP_PROTOCOL:
        return f"ip protocol {code - IP_PROTOCOL}"
    return f"ethertype 0x{code - ETHERTYPE:04x}"
