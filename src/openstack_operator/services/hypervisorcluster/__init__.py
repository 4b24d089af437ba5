"""Hypervisors of a cloud whose control plane runs in another Kubernetes cluster."""

from __future__ import annotations

from ...plan import Service
from .ignored import ignored
from .model import HYPERVISOR_CLUSTER
from .service import plan

SERVICE = Service(resource=HYPERVISOR_CLUSTER, plan=plan, ignores=(ignored,))
