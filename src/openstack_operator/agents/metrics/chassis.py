"""Serve metrics of Open vSwitch and ovn-controller of the node, whose sockets are in /run/openvswitch and /run/ovn."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .appctl import COVERAGE, add_coverage, call
from .serve import Page, export

SWITCH, DATABASE = "/run/openvswitch/ovs-vswitchd.ctl", "/run/openvswitch/db.sock"
CONTROLLER = "/run/ovn/ovn-controller.ctl"
_FLOWS = re.compile(r"flows\s*:\s*\(current (\d+)\)")
STATISTICS = {
    "rx_bytes": ("receive_bytes_total", "Bytes received."),
    "rx_packets": ("receive_packets_total", "Packets received."),
    "rx_dropped": ("receive_dropped_total", "Incoming packets that were dropped."),
    "rx_errors": ("receive_errors_total", "Incoming packets with an error."),
    "tx_bytes": ("transmit_bytes_total", "Bytes sent."),
    "tx_packets": ("transmit_packets_total", "Packets sent."),
    "tx_dropped": ("transmit_dropped_total", "Outgoing packets that were dropped."),
    "tx_errors": ("transmit_errors_total", "Outgoing packets that failed with an error."),
}
"""Metric and meaning of statistics of an interface."""
METRICS = {
    **{f"ovs_interface_{name}": ("interface, type", text) for name, text in STATISTICS.values()},
    "ovs_interface_link_up": ("interface, type", "1 if the interface has a link."),
    "ovs_datapath_flows": ("", "Flows in the data path."),
    "ovs_coverage_total": COVERAGE,
    "ovn_controller_connected": ("", "1 if ovn-controller is connected to the southbound database."),
    "ovn_controller_coverage_total": COVERAGE,
}


def switch(page: Page) -> None:
    """Add metrics of the switch."""
    flows = _FLOWS.findall(str(call(SWITCH, "upcall/show")))
    page.add("ovs_datapath_flows", sum(map(float, flows)))
    for row in interfaces():
        labels = {"interface": str(row["name"]), "type": str(row["type"]) or "system"}
        page.add("ovs_interface_link_up", row["link_state"] == "up", **labels)
        statistics: Mapping[str, Any] = dict(row["statistics"][1])
        for name, (metric, _) in STATISTICS.items():
            if name in statistics:
                page.add(f"ovs_interface_{metric}", float(statistics[name]), **labels)
    add_coverage(page, "ovs", SWITCH)


def interfaces() -> list[dict[str, Any]]:
    """Return the interfaces of the switch, from its database."""
    columns = ["name", "type", "link_state", "statistics"]
    select = {"op": "select", "table": "Interface", "where": [], "columns": columns}
    answer = call(DATABASE, "transact", "Open_vSwitch", select)[0]
    if "rows" not in answer:
        raise ValueError(f"the database of the switch: {answer}")
    rows: list[dict[str, Any]] = answer["rows"]
    return rows


def controller(page: Page) -> None:
    """Add metrics of ovn-controller."""
    state = str(call(CONTROLLER, "connection-status")).strip()
    page.add("ovn_controller_connected", state == "connected")
    add_coverage(page, "ovn_controller", CONTROLLER)


if __name__ == "__main__":
    export({"ovs": switch, "ovn_controller": controller}, METRICS)
