"""Writes load balancers that OVN's northbound database lacks into it, as after it was rebuilt. Its arguments are the
command of the driver agent, by which the provider reads Octavia's database. The provider's octavia-ovn-db-sync-util
(8.0) ends at the first one that OVN lacks. It gives all rows of a load balancer that OVN has the protocol of one
listener.
"""

import os
import subprocess
import sys

from octavia.common import service  # pyright: ignore[reportMissingImports]
from ovn_octavia_provider import driver  # pyright: ignore[reportMissingImports]
from ovn_octavia_provider.common import clients, utils  # pyright: ignore[reportMissingImports]

agent = subprocess.Popen(sys.argv[1:], env={**os.environ, "OS_DRIVER_AGENT__ENABLED_PROVIDER_AGENTS": ""})
try:
    service.prepare_service()
    provider = driver.OvnProviderDriver()
    helper = provider._ovn_helper

    def keep_status(status: object) -> None:
        """Leave the status in Octavia's database: it is that of before."""

    helper._update_status_to_octavia = keep_status

    def find(table: str, name: str) -> object:
        return helper.ovn_nbdb_api.db_find_rows(table, ("name", "=", name)).execute(check_error=True)

    early = 0
    for balancer in helper.get_octavia_lbs(clients.get_octavia_client(), provider="ovn"):
        if find("Load_Balancer", balancer.id) or balancer.provisioning_status.startswith("PENDING"):
            continue
        # Without its network, it would go into ERROR and lose its port.
        if not find("Logical_Switch", utils.ovn_name(balancer.vip_network_id)):
            print(f"load balancer {balancer.id}: OVN does not have its network yet")
            early += 1
            continue
        provider.do_sync(id=balancer.id)
        print(f"load balancer {balancer.id}: written into OVN")
finally:
    agent.terminate()
    agent.wait()
if early:
    sys.exit(f"load balancers that wait for Neutron to write their networks into OVN: {early}")
