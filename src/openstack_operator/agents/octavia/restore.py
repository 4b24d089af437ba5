"""Writes load balancers that OVN's northbound database lacks into it, as after it was rebuilt. Its arguments are the
command of the driver agent, by which the provider reads Octavia's database. The provider's octavia-ovn-db-sync-util
(8.0) ends at the first one that OVN lacks. It gives all rows of a load balancer that OVN has the protocol of one
listener.
"""

import os
import subprocess
import sys
import threading
import time
from typing import Any

from octavia.common import service  # pyright: ignore[reportMissingImports]
from octavia_lib.api.drivers import data_models, exceptions  # pyright: ignore[reportMissingImports]
from ovn_octavia_provider import driver  # pyright: ignore[reportMissingImports]
from ovn_octavia_provider.common import clients, utils  # pyright: ignore[reportMissingImports]

ROWS = "Load_Balancer"
NO_BALANCER = "00000000-0000-0000-0000-000000000000"

# The provider iterates over the members of each pool, and those of an empty pool are unset.
data_models.UnsetType.__iter__ = lambda _: iter(())  # pyright: ignore[reportUnknownLambdaType]
agent = subprocess.Popen(sys.argv[1:], env={**os.environ, "OS_DRIVER_AGENT__ENABLED_PROVIDER_AGENTS": ""})
try:
    service.prepare_service()
    provider = driver.OvnProviderDriver()
    helper = provider._ovn_helper

    def agent_answers() -> bool:
        # A connection without a request would keep the agent busy for ever.
        try:
            helper._octavia_driver_lib.get_loadbalancer(NO_BALANCER)
        except exceptions.DriverError:
            return False
        return True

    deadline = time.monotonic() + 60
    while not agent_answers():
        if agent.poll() is not None or time.monotonic() > deadline:
            sys.exit("the driver agent does not answer")
        threading.Event().wait(0.2)

    failures: list[object] = []

    def has_error(status: object) -> bool:
        if isinstance(status, dict):
            return status.get("provisioning_status") == "ERROR" or any(has_error(each) for each in status.values())
        return isinstance(status, list) and any(has_error(each) for each in status)

    def keep_status(status: object) -> None:
        """Leave the status in Octavia's database: it is that of before."""
        if has_error(status):
            failures.append(status)

    def keep_port(port: object) -> None:
        """Leave a port in Neutron, which the provider would delete after each failure, with the address of users."""

    helper._update_status_to_octavia, helper.delete_port = keep_status, keep_port

    def find(table: str, name: str) -> list[Any]:
        return helper.ovn_nbdb_api.db_find_rows(table, ("name", "=", name)).execute(check_error=True)

    remaining = 0
    for balancer in helper.get_octavia_lbs(clients.get_octavia_client(), provider="ovn"):
        if find(ROWS, balancer.id):
            continue
        if balancer.provisioning_status.startswith("PENDING"):
            print(f"load balancer {balancer.id}: it is {balancer.provisioning_status}; repair its status")
            remaining += 1
            continue
        # Without its network, it would go into ERROR and lose its port.
        if not find("Logical_Switch", utils.ovn_name(balancer.vip_network_id)):
            print(f"load balancer {balancer.id}: OVN does not have its network yet")
            remaining += 1
            continue
        is_complete = False
        try:
            provider.do_sync(id=balancer.id)
            is_complete = not failures
        finally:
            if not is_complete:
                # With a row, it would count as complete the next time.
                for row in find(ROWS, balancer.id):
                    helper.ovn_nbdb_api.db_destroy(ROWS, row.uuid).execute(check_error=True)
        if failures:
            print(f"load balancer {balancer.id}: it could not be written into OVN")
            failures.clear()
            remaining += 1
        else:
            print(f"load balancer {balancer.id}: written into OVN")
finally:
    agent.terminate()
    agent.wait()
if remaining:
    sys.exit(f"load balancers that are not in OVN yet: {remaining}")
