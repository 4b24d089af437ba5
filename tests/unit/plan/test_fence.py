"""What a process sends to other servers ends with its right to act, also in the middle of a change."""

from __future__ import annotations

import socket

import pytest

from openstack_operator.actuators.channel import Channel
from openstack_operator.plan.fence import check_fence, fenced
from openstack_operator.runtime.kubernetes.errors import LeadershipLostError


def refuse() -> None:
    raise LeadershipLostError("another replica leads")


def test_channel_sends_nothing_after_the_fence_closed() -> None:
    one, other = socket.socketpair()
    with one, other:
        channel = Channel(one)
        channel.sendall(b"before ")
        with fenced(refuse), pytest.raises(LeadershipLostError):
            channel.sendall(b"meanwhile")
        channel.sendall(b"after")
        assert other.recv(100) == b"before after"


def test_fence_ends_with_its_block() -> None:
    with fenced(refuse), pytest.raises(LeadershipLostError):
        check_fence()
    check_fence()
