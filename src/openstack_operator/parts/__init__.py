"""Building blocks OpenStack services share; each turns a Context into a step with results.

Here is what most services use; what one or two use is imported from its module, such as `parts.delegate`.
"""

from __future__ import annotations

from .caches import cache
from .ceph import Ceph, ceph, on_ceph
from .clouds_yaml import cloud_auth
from .cluster import POD_NAME, Cluster, cluster, ordered_member, volume
from .config import Config, config, layered, options, written
from .credentials import Credentials, credentials
from .delegate import AUTO, BUILTIN
from .front import front
from .names import program
from .policies import IngressRule, policies
from .remote import API, remote
from .rotation import moving
from .sources import (
    Foundation,
    Identity,
    catalog,
    foundation,
    identity,
    requires,
    waits,
)
from .tls import Certified, certified, trust_of
from .workloads import Api, More, Workers, api, job, state, worker

__all__ = [
    "API",
    "AUTO",
    "BUILTIN",
    "POD_NAME",
    "Api",
    "Ceph",
    "Certified",
    "Cluster",
    "Config",
    "Credentials",
    "Foundation",
    "Identity",
    "IngressRule",
    "More",
    "Workers",
    "api",
    "cache",
    "catalog",
    "ceph",
    "certified",
    "cloud_auth",
    "cluster",
    "config",
    "credentials",
    "foundation",
    "front",
    "identity",
    "job",
    "layered",
    "moving",
    "on_ceph",
    "options",
    "ordered_member",
    "policies",
    "program",
    "remote",
    "requires",
    "state",
    "trust_of",
    "volume",
    "waits",
    "worker",
    "written",
]
