"""Building blocks OpenStack services share; each turns a Context into a step with results."""

from __future__ import annotations

from .config import Config, config, layered, options, written
from .credentials import Credentials, credentials
from .members import POD_NAME, Members, hosts, members, volume
from .names import program, title
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
    requires,
    sql_name,
)
from .workloads import CONNECTED_TO_BROKER, Api, Workers, api, job, public_url, state, worker

__all__ = [
    "API",
    "CONNECTED_TO_BROKER",
    "POD_NAME",
    "Api",
    "Config",
    "Credentials",
    "Database",
    "Foundation",
    "Identity",
    "Members",
    "Messaging",
    "Workers",
    "api",
    "cache",
    "catalog",
    "config",
    "credentials",
    "database",
    "foundation",
    "hosts",
    "identity",
    "job",
    "layered",
    "members",
    "memcached",
    "messaging",
    "notifications",
    "notifying",
    "options",
    "program",
    "public_url",
    "requires",
    "sql_name",
    "state",
    "title",
    "volume",
    "worker",
    "written",
]
