"""Building blocks OpenStack services share; each turns a Context into a step with results."""

from __future__ import annotations

from .authorities import OwnAuthority, own_authority
from .caches import CACHE_CLIENT, cache, keystone_authtoken, memcached
from .ceph import Ceph, ceph, on_ceph
from .clouds_yaml import cloud_auth
from .cluster import PEER_TLS, POD_NAME, Cluster, cluster, ordered_member, volume
from .config import Config, config, is_one_line, layered, options, written
from .coordinates import schema_of
from .credentials import Credentials, credentials
from .delegate import AUTO, BUILTIN
from .devices import DEVICES, iscsid
from .exposure import public_endpoint, public_host, public_url, service_type, through_proxy
from .files import claim, claimed
from .front import Front, front
from .issued import Ordered, ordered
from .korc import CLOUD as KORC_CLOUD
from .korc import DOMAIN as KORC_DOMAIN
from .korc import KEPT, KORC, imported, kept
from .korc import OPERATOR as KORC_OPERATOR
from .limited import caller, reader
from .monitoring import METRICS, MONITORING, POD_MONITOR, RULES, found_by, monitor, serves, watched
from .names import program, title
from .node_certificates import NODE_VOLUME, ON_NODE, STORED_ON_NODE, node_certificates
from .ovn import OVN_CLIENT, OVN_NODE_FILES, OVN_NODE_TLS, OVN_NODES, OVN_TLS, ovn_mounts, ovn_node_mounts, ovn_options
from .policies import Way, opened, outside, policies
from .remote import API, MARIADB, RABBITMQ, WATCHED_BY_MARIADB, labeled, remote
from .rotation import SORTS, moving, order_name, read_by
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
from .tls import AUTHORITIES_SINCE, TRUSTED, TRUSTS, Certified, authority, certified, trust_of
from .workloads import Api, First, More, Workers, api, job, state, worker

__all__ = [
    "API",
    "AUTHORITIES_SINCE",
    "AUTO",
    "BUILTIN",
    "CACHE_CLIENT",
    "DEVICES",
    "KEPT",
    "KORC",
    "KORC_CLOUD",
    "KORC_DOMAIN",
    "KORC_OPERATOR",
    "MARIADB",
    "METRICS",
    "MONITORING",
    "NODE_VOLUME",
    "ON_NODE",
    "OVN_CLIENT",
    "OVN_NODES",
    "OVN_NODE_FILES",
    "OVN_NODE_TLS",
    "OVN_TLS",
    "PEER_TLS",
    "POD_MONITOR",
    "POD_NAME",
    "RABBITMQ",
    "RULES",
    "SORTS",
    "STORED_ON_NODE",
    "TRUSTED",
    "TRUSTS",
    "WATCHED_BY_MARIADB",
    "Api",
    "Ceph",
    "Certified",
    "Cluster",
    "Config",
    "Credentials",
    "Database",
    "First",
    "Foundation",
    "Front",
    "Identity",
    "Messaging",
    "More",
    "Ordered",
    "OwnAuthority",
    "Way",
    "Workers",
    "api",
    "authority",
    "by_others",
    "cache",
    "caller",
    "catalog",
    "ceph",
    "certified",
    "claim",
    "claimed",
    "cloud_auth",
    "cluster",
    "config",
    "credentials",
    "database",
    "drawn",
    "found_by",
    "foundation",
    "front",
    "identity",
    "imported",
    "is_one_line",
    "iscsid",
    "job",
    "kept",
    "keystone_authtoken",
    "labeled",
    "layered",
    "memcached",
    "messaging",
    "monitor",
    "moving",
    "node_certificates",
    "notifications",
    "on_ceph",
    "opened",
    "options",
    "order_name",
    "ordered",
    "ordered_member",
    "outside",
    "ovn_mounts",
    "ovn_node_mounts",
    "ovn_options",
    "own_authority",
    "policies",
    "program",
    "public_endpoint",
    "public_host",
    "public_url",
    "read_by",
    "reader",
    "remote",
    "requires",
    "schema_of",
    "serves",
    "service_type",
    "sql_name",
    "state",
    "through_proxy",
    "title",
    "trust_of",
    "volume",
    "waits",
    "watched",
    "worker",
    "written",
]
