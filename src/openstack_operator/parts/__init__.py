"""Building blocks OpenStack services share; each turns a Context into a step with results.

Here is what most services use. What fewer use is imported from its module, in the packages `connect`, `run`, `expose`,
`secrets` and `delegate`.
"""

from __future__ import annotations

from .component_names import release_entry
from .connect.remote import remote
from .connect.sources import Foundation, catalog, foundation
from .expose.policies import IngressRule, policies
from .members import Cluster, cluster
from .run.api_policies import policy_files
from .run.config import Config, config, options, written
from .run.upgrades import completion, preflight, schema
from .run.workloads import Api, ProgramSettings, Workers, api, job, state, worker
from .secrets.credentials import Credentials, credentials
from .secrets.tls import Certified, certified

__all__ = [
    "Api",
    "Certified",
    "Cluster",
    "Config",
    "Credentials",
    "Foundation",
    "IngressRule",
    "ProgramSettings",
    "Workers",
    "api",
    "catalog",
    "certified",
    "cluster",
    "completion",
    "config",
    "credentials",
    "foundation",
    "job",
    "options",
    "policies",
    "policy_files",
    "preflight",
    "release_entry",
    "remote",
    "schema",
    "state",
    "worker",
    "written",
]
