"""Work that an interface leaves to the hardware, of which a cable between two namespaces has none."""

from __future__ import annotations

import array
import fcntl
import socket
import struct

# linux/sockios.h and linux/ethtool.h
_SIOCETHTOOL = 0x8946
_SET_TX_CHECKSUM = 0x17


def complete_checksums(interface: str) -> None:
    """Let packets leave `interface` of the calling process' network namespace with their checksums filled in.

    Over a veth the kernel leaves them out, as it takes its own word for them. A switch in user space, such as Open
    vSwitch's netdev datapath, reads the packets from the other end as they are and sends them on: to a virtual machine,
    which drops them. With checksums the kernel cuts large TCP segments to size as well. Raises OSError.
    """
    value = array.array("I", [_SET_TX_CHECKSUM, 0])
    address, _ = value.buffer_info()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCETHTOOL, struct.pack("16sP16x", interface.encode(), address))
