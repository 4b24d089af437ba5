"""OVN: the virtual networks of the cloud, and the switch on every node that carries them out."""

from __future__ import annotations

from ...api import OVN_LOGIN
from ...plan import CloudTemplate, Listens, MemberReports, Service
from .cluster_model import OVN_CLUSTER
from .ignored import ignored
from .model import OVN_NETWORK
from .ovncluster import plan as cluster_plan
from .recovery import questions
from .service import plan

# Each Neutron that refers to it gets this certificate.
_SHARES = {"{name}-client-tls": OVN_LOGIN}

SERVICE = Service(
    resource=OVN_NETWORK,
    plan=plan,
    observes=MemberReports(questions),
    listens=Listens(ports={"nb": [6641, 16641], "sb": [6642, 16642]}, closed=True, elsewhere=("Neutron",)),
    template=CloudTemplate(
        field="ovn",
        phase="CoreServices",
        label="OVN",
        programs={
            "ovn-nb": "image",
            "ovn-sb": "image",
            "ovn-relay": "image",
            "ovn-northd": "image",
            "ovs-db": "image",
            "ovs-vswitchd": "image",
            "ovn-controller": "image",
            "ovn-exporter": "",
        },
    ),
    shares=_SHARES,
    ignores=(ignored,),
)
CLUSTER_SERVICE = Service(
    resource=OVN_CLUSTER,
    plan=cluster_plan,
    observes=MemberReports(questions),
    # Its objects for Nodes belong to the Nodes, and would not go with it.
    teardown=True,
    shares=_SHARES,
    ignores=(ignored,),
)
"""The same under the names of c5c3, with a spec of its own."""
