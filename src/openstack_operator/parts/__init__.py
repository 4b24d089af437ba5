"""Building blocks OpenStack services share; each turns a Context into a step with results.

Here is what most services use; what one or two use is imported from its module, such as `parts.delegate`.
"""

from __future__ import annotations

from .cluster import Cluster, cluster
from .config import Config, config, options, written
from .credentials import Credentials, credentials
from .names import program
from .policies import IngressRule, policies
from .remote import remote
from .sources import Foundation, catalog, foundation
from .tls import Certified, certified
from .workloads import Program, Workers, api, job, state, worker

__all__ = [
    "Certified",
    "Cluster",
    "Config",
    "Credentials",
    "Foundation",
    "IngressRule",
    "Program",
    "Workers",
    "api",
    "catalog",
    "certified",
    "cluster",
    "config",
    "credentials",
    "foundation",
    "job",
    "options",
    "policies",
    "program",
    "remote",
    "state",
    "worker",
    "written",
]
