"""Writes load balancers that OVN's northbound database lacks into it, as after it was rebuilt. Its arguments are the
command of the driver agent, by which the provider reads Octavia's database. The provider's octavia-ovn-db-sync-util
(8.0) ends at the first one that OVN lacks. It gives all rows of a load balancer that OVN has the protocol of one
listener.
"""

from __future__ import annotations

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
PATIENCE = 60
"""Seconds in which the driver agent starts."""


class Restore:
    """Writer of load balancers by the provider, which leaves the data of users alone if that fails."""

    def __init__(self) -> None:
        self._provider: Any = driver.OvnProviderDriver()
        self._helper: Any = self._provider._ovn_helper
        # The status in Octavia's database stays that of before. The provider would delete the port, and with it the
        # address, of a load balancer that could not be written.
        self._helper._update_status_to_octavia = self._note
        self._helper.delete_port = lambda _: None  # pyright: ignore[reportUnknownLambdaType]
        self._has_failed = False

    def await_agent(self, agent: subprocess.Popen[bytes]) -> None:
        """Wait until the driver agent answers. Raise SystemExit if it does not."""
        deadline = time.monotonic() + PATIENCE
        while not self._agent_answers():
            if agent.poll() is not None or time.monotonic() > deadline:
                sys.exit("the driver agent does not answer")
            threading.Event().wait(0.2)

    def _agent_answers(self) -> bool:
        # A connection without a request would keep the agent busy for ever.
        try:
            self._helper._octavia_driver_lib.get_loadbalancer(NO_BALANCER)
        except exceptions.DriverError:
            return False
        return True

    def balancers(self) -> Any:
        """Return the load balancers of Octavia's API."""
        return self._helper.get_octavia_lbs(clients.get_octavia_client(), provider="ovn")

    def put(self, balancer: Any) -> bool:
        """Write a load balancer that OVN lacks; return False if it has to be tried again."""
        if self._find(ROWS, balancer.id):
            return True
        if balancer.provisioning_status.startswith("PENDING"):
            problem = f"it is {balancer.provisioning_status}and is released ten minutes after its last change"
        elif not self._find("Logical_Switch", utils.ovn_name(balancer.vip_network_id)):
            # Without its network, it would go into ERROR.
            problem = "OVN does not have its network yet"
        else:
            problem = "" if self._write(balancer) else "writing it into OVN failed"
        print(f"load balancer {balancer.id}: {problem or 'written into OVN'}", flush=True)
        return not problem

    def _write(self, balancer: Any) -> bool:
        self._has_failed = is_complete = False
        try:
            self._provider.do_sync(id=balancer.id)
            is_complete = not self._has_failed
        finally:
            if not is_complete:
                # With a row, it would count as complete the next time.
                for row in self._find(ROWS, balancer.id):
                    self._helper.ovn_nbdb_api.db_destroy(ROWS, row.uuid).execute(check_error=True)
        return is_complete

    def _find(self, table: str, name: str) -> list[Any]:
        return self._helper.ovn_nbdb_api.db_find_rows(table, ("name", "=", name)).execute(check_error=True)

    def _note(self, status: object) -> None:
        self._has_failed = self._has_failed or _has_error(status)


def _has_error(status: object) -> bool:
    if isinstance(status, dict):
        return status.get("provisioning_status") == "ERROR" or any(_has_error(each) for each in status.values())
    return isinstance(status, list) and any(_has_error(each) for each in status)


def main() -> None:
    """Write all of them. Raise SystemExit with the number of those that have to be tried again."""
    # The provider iterates over the members of each pool, and those of an empty pool are unset.
    data_models.UnsetType.__iter__ = lambda _: iter(())  # pyright: ignore[reportUnknownLambdaType]
    agent = subprocess.Popen(sys.argv[1:], env={**os.environ, "OS_DRIVER_AGENT__ENABLED_PROVIDER_AGENTS": ""})
    try:
        service.prepare_service()
        restore = Restore()
        restore.await_agent(agent)
        written = [restore.put(balancer) for balancer in restore.balancers()]
    finally:
        agent.terminate()
        agent.wait()
    if missing := written.count(False):
        sys.exit(f"load balancers that are not in OVN yet: {missing}")


if __name__ == "__main__":
    main()
