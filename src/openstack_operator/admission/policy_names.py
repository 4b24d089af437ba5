"""Names that policies, roles and the operator itself share."""

from __future__ import annotations

OPERATOR = "openstack-operator"
NAMESPACE = "openstack-operator"
NODE_AGENTS = f"{OPERATOR}-node-agents"
"""ClusterRole of who may decide what runs on nodes as root."""
RUN_ON_NODES = "run-on-nodes"
"""The verb for that."""
