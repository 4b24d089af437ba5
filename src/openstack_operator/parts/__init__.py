"""Building blocks OpenStack services share; each turns a Context into a step with results."""

from __future__ import annotations

from .caches import cache, memcached
from .ceph import Ceph, ceph, on_ceph
from .config import Config, config, layered, options, written
from .coordinates import schema_of
from .credentials import Credentials, credentials
from .devices import DEVICES, iscsid
from .exposure import public_endpoint, public_host, public_url, service_type, through_proxy
from .files import claim, claimed
from .front import Front, front
from .issued import Ordered, ordered
from .members import POD_NAME, Members, hosts, members, volume
from .names import program, title
from .ovn import OVN_CLIENT, OVN_NODES, OVN_TLS, ovn_mounts, ovn_options
from .policies import Way, opened, outside, policies
from .providers import (
    AUTO,
    BUILTIN,
    External,
    external,
    image,
    placed_by_others,
    provider,
    served_by,
    sized,
    unserved,
)
from .remote import API, MARIADB, RABBITMQ, WATCHED_BY_MARIADB, labeled, remote
from .rotation import SORTS, moving, order_name
from .sources import (
    Database,
    Foundation,
    Identity,
    Messaging,
    by_others,
    catalog,
    database,
    drawn,
    foundation,
    identity,
    messaging,
    notifications,
    requires,
    sql_name,
    waits,
)
from .tls import AMONG, TRUSTED, TRUSTS, Certified, among, certified, followed, trust_of
from .workloads import Api, First, More, Workers, api, job, state, worker

__all__ = [
    "AMONG",
    "API",
    "AUTO",
    "BUILTIN",
    "DEVICES",
    "MARIADB",
    "OVN_CLIENT",
    "OVN_NODES",
    "OVN_TLS",
    "POD_NAME",
    "RABBITMQ",
    "SORTS",
    "TRUSTED",
    "TRUSTS",
    "WATCHED_BY_MARIADB",
    "Api",
    "Ceph",
    "Certified",
    "Config",
    "Credentials",
    "Database",
    "External",
    "First",
    "Foundation",
    "Front",
    "Identity",
    "Members",
    "Messaging",
    "More",
    "Ordered",
    "Way",
    "Workers",
    "among",
    "api",
    "by_others",
    "cache",
    "catalog",
    "ceph",
    "certified",
    "claim",
    "claimed",
    "config",
    "credentials",
    "database",
    "drawn",
    "external",
    "followed",
    "foundation",
    "front",
    "hosts",
    "identity",
    "image",
    "iscsid",
    "job",
    "labeled",
    "layered",
    "members",
    "memcached",
    "messaging",
    "moving",
    "notifications",
    "on_ceph",
    "opened",
    "options",
    "order_name",
    "ordered",
    "outside",
    "ovn_mounts",
    "ovn_options",
    "placed_by_others",
    "policies",
    "program",
    "provider",
    "public_endpoint",
    "public_host",
    "public_url",
    "remote",
    "requires",
    "schema_of",
    "served_by",
    "service_type",
    "sized",
    "sql_name",
    "state",
    "through_proxy",
    "title",
    "trust_of",
    "unserved",
    "volume",
    "waits",
    "worker",
    "written",
]
