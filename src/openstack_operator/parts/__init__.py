"""Building blocks OpenStack services share; each turns a Context into a step with results."""

from __future__ import annotations

from .ceph import Ceph, ceph, on_ceph
from .config import Config, config, layered, options, written
from .credentials import Credentials, credentials
from .devices import DEVICES, iscsid
from .files import claim, claimed
from .front import front
from .members import POD_NAME, Members, hosts, members, volume
from .names import program, title
from .ovn import OVN_CLIENT, OVN_TLS, ovn_mounts, ovn_options
from .sources import (
    API,
    Database,
    Foundation,
    Identity,
    Messaging,
    cache,
    catalog,
    database,
    foundation,
    identity,
    memcached,
    messaging,
    notifications,
    notifying,
    remote,
    requires,
    sql_name,
)
from .tls import TRUSTED, Certified, certified, followed, trust_of
from .workloads import CONNECTED_TO_BROKER, Api, More, Workers, api, job, public_host, public_url, state, worker

__all__ = [
    "API",
    "CONNECTED_TO_BROKER",
    "DEVICES",
    "OVN_CLIENT",
    "OVN_TLS",
    "POD_NAME",
    "TRUSTED",
    "Api",
    "Ceph",
    "Certified",
    "Config",
    "Credentials",
    "Database",
    "Foundation",
    "Identity",
    "Members",
    "Messaging",
    "More",
    "Workers",
    "api",
    "cache",
    "catalog",
    "ceph",
    "certified",
    "claim",
    "claimed",
    "config",
    "credentials",
    "database",
    "followed",
    "foundation",
    "front",
    "hosts",
    "identity",
    "iscsid",
    "job",
    "layered",
    "members",
    "memcached",
    "messaging",
    "notifications",
    "notifying",
    "on_ceph",
    "options",
    "ovn_mounts",
    "ovn_options",
    "program",
    "public_host",
    "public_url",
    "remote",
    "requires",
    "sql_name",
    "state",
    "title",
    "trust_of",
    "volume",
    "worker",
    "written",
]
