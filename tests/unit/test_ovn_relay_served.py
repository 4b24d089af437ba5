"""A relay of the image lets a node change the rows of its own chassis, and members do not let it in at all."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from openstack_operator import pki
from openstack_operator.testing import NOW
from tests.unit.image_root import image_root, inside
from tests.unit.polling import TIMEOUT

pytestmark = pytest.mark.security

ROOT = 0
# The member is started here, since the image's script wants an address that other members can call. Each line of output
# is the name of a command, its exit status, and the last line of what it said.
SCRIPT = r"""
ip link set lo up
cd /tmp
try() { name=$1; shift; said=$("$@" 2>&1); echo "$name $? $(echo "$said" | tail -n 1)"; }
ovsdb-tool create sb.db /usr/share/ovn/ovn-sb.ovsschema
ovsdb-tool create nb.db /usr/share/ovn/ovn-nb.ovsschema
ovsdb-server sb.db --remote=punix:/tmp/sb.sock --remote=pssl:16643:127.0.0.1 --unixctl=/tmp/sb.ctl \
    -p member.key -c member.crt -C member-ca.crt > /dev/null 2>&1 &
ovsdb-server nb.db --remote=punix:/tmp/nb.sock --unixctl=/tmp/nb.ctl > /dev/null 2>&1 &
OVN_SB_DB=ssl:127.0.0.1:16643 OVN_PLAIN=no OVN_ROLE=ovn-controller ovn-relay-start > /dev/null 2>&1 &
until ovsdb-client wait unix:/run/ovn/relay.sock OVN_Southbound connected > /dev/null 2>&1; do sleep 0.1; done
try ready-empty ovn-relay-ready
ovn-northd --ovnnb-db=unix:/tmp/nb.sock --ovnsb-db=unix:/tmp/sb.sock --unixctl=/tmp/northd.ctl > /dev/null 2>&1 &
as_administrator() { ovn-sbctl --timeout=60 --db=unix:/tmp/sb.sock "$@"; }
until as_administrator find RBAC_Role name=ovn-controller 2> /dev/null | grep -q permissions; do sleep 0.1; done
as_one() { ovn-sbctl --no-leader-only --timeout=60 -p one.key -c one.crt -C member-ca.crt "$@"; }
relay=ssl:127.0.0.1:16642
until as_one --db=$relay show > /dev/null 2>&1; do sleep 0.1; done
until ovn-relay-ready; do sleep 0.1; done
try ready-written ovn-relay-ready
encap() { echo "-- --id=@e create Encap chassis_name=$1 type=geneve ip=$2"; }
chassis() { echo "$(encap "$1" "$2") -- create Chassis name=$1 encaps=@e hostname=$1"; }
try create-own as_one --db=$relay $(chassis one 10.0.0.1)
try create-other as_one --db=$relay $(chassis two 10.0.0.2)
as_administrator $(chassis two 10.0.0.2) > /dev/null
try change-own as_one --db=$relay set Chassis one other_config:a=b
try change-other as_one --db=$relay set Chassis two other_config:a=b
try delete-other as_one --db=$relay destroy Chassis two
try create-private as_one --db=$relay create Chassis_Private name=one
try tell-private as_one --db=$relay set Chassis_Private one external_ids:neutron-metadata-id=x
chassis_id() { as_administrator --bare --columns=_uuid find Chassis name=$1; }
# northd writes rows for what the northbound database has.
ovn-nbctl --db=unix:/tmp/nb.sock ls-add s -- lsp-add s p
until as_administrator find Port_Binding logical_port=p | grep -q p; do sleep 0.1; done
as_administrator set Port_Binding p chassis="$(chassis_id two)"
try take-port as_one --db=$relay set Port_Binding p chassis="$(chassis_id one)"
try create-port as_one --db=$relay create Port_Binding logical_port=q tunnel_key=2
try change-global as_one --db=$relay create SB_Global nb_cfg=1
try member as_one --db=ssl:127.0.0.1:16643 show
try left sh -c 'ovn-sbctl --timeout=60 --db=unix:/tmp/sb.sock --bare --columns=name list Chassis | paste -s -d " "'
echo done
"""


def write(root: Path) -> None:
    """The files of an authority of members and relays, and of one of nodes."""
    members, nodes = (pki.authority(name, name, NOW) for name in ("members", "nodes"))
    folder = root / "etc/ovn-tls"
    folder.mkdir()
    for name, by, start in (
        ("member", members, root / "tmp/member"),
        ("relay", members, folder / "tls"),
        ("one", nodes, root / "tmp/one"),
    ):
        pair = pki.issue(by, pki.Request(common=name, names=frozenset({name}), calls=True), name, NOW)
        start.with_suffix(".crt").write_text(pair.cert)
        start.with_suffix(".key").write_text(pair.key)
    (root / "tmp/member-ca.crt").write_text(members.cert)
    (folder / "ca.crt").write_text(members.cert + nodes.cert)


@pytest.fixture(name="results", scope="module")
def _results() -> dict[str, tuple[int, str]]:
    """Exit status and last line of each command, by its name."""
    with image_root("ovn") as root:
        write(root)
        # A script that waits for what does not come ends, and lacks results.
        command = ("unshare", "--net", "timeout", f"{TIMEOUT:.0f}", "sh", "-c", SCRIPT)
        with inside(root, ROOT, *command, env={"HOME": "/tmp"}, output=subprocess.PIPE) as process:
            assert process.stdout
            results: dict[str, tuple[int, str]] = {}
            for line in process.stdout:
                if line == "done\n":
                    break
                name, status, message = line.rstrip("\n").split(" ", 2)
                results[name] = int(status), message
            process.stdout.close()
    return results


def test_a_relay_is_ready_once_northd_has_written_the_database(results: dict[str, tuple[int, str]]) -> None:
    """A controller that meets an empty database removes the flows of guests that run."""
    assert results["ready-empty"][0]
    assert not results["ready-written"][0]


@pytest.mark.parametrize("name", ["create-own", "change-own", "create-private", "tell-private"])
def test_a_node_writes_what_is_its_own(results: dict[str, tuple[int, str]], name: str) -> None:
    assert results[name][0] == 0, results[name][1]


@pytest.mark.parametrize("name", ["create-other", "change-other", "delete-other", "change-global", "create-port"])
def test_a_node_writes_nothing_else(results: dict[str, tuple[int, str]], name: str) -> None:
    status, message = results[name]
    assert status
    assert 'RBAC rules for client \\"one\\" role \\"ovn-controller\\" prohibit' in message


def test_a_member_does_not_know_the_authority_of_nodes(results: dict[str, tuple[int, str]]) -> None:
    status, message = results["member"]
    assert status
    assert "database connection failed" in message
    assert set(results["left"][1].split()) == {"one", "two"}


def test_ovn_lets_a_node_take_a_port(results: dict[str, tuple[int, str]]) -> None:
    """The role does not know which node a port belongs to (decision 0067); a port that does not exist stays away."""
    assert results["take-port"][0] == 0, results["take-port"][1]
