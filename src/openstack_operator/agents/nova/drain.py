"""Wait until no server of the node OS_DEFAULT__HOST is being created or changed, and none arrives or leaves: a preStop
hook of nova-compute. Its argument is nova.conf.

Nova has the whole list of running work; libvirt, only a part of each migration. A record without a change for minutes
is of work that broke off, while a migration notes its progress every few seconds. Where Nova does not answer, as in a
cloud that is being removed, there is nothing to wait for. The next nova-compute resumes a deletion
(ComputeManager._init_instance), and one whose message a broker has lost goes on only then. A build or a migration takes
many seconds, and a look is two requests: there is one every two seconds.
"""

from __future__ import annotations

import os
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from keystoneauth1 import loading
from keystoneauth1.exceptions import ClientException
from oslo_config import cfg

HOST = os.environ["OS_DEFAULT__HOST"]
MIGRATING = {
    "accepted",
    "queued",
    "preparing",
    "running",
    "pre-migrating",
    "migrating",
    "post-migrating",
}
"""States of a migration that has not ended."""
ATTEMPTS = 3
SECTION = "neutron"
"""Section of nova.conf with a user that may list the servers of all projects."""


def changed_lately(nova: Any, conf: Any, resource: str) -> Any:
    """Return Nova's answer about `resource` of this node, without records that had no change for five minutes."""
    since = (datetime.now(UTC) - timedelta(minutes=5)).strftime("%Y-%m-%dT%H:%M:%SZ")
    endpoint = {
        "service_type": "compute",
        "interface": conf[SECTION].valid_interfaces,
        "region_name": conf[SECTION].region_name,
    }
    url = f"/{resource}host={HOST}&changes-since={since}"
    return nova.get(url, endpoint_filter=endpoint, microversion="2.59").json()


def is_busy(nova: Any, conf: Any) -> bool:
    """Return True if a server of this node migrates or has a task."""
    migrations = changed_lately(nova, conf, "os-migrations?")["migrations"]
    servers = changed_lately(nova, conf, "servers/detail?all_tenants=1&")["servers"]
    tasks = {server["OS-EXT-STS:task_state"] for server in servers} - {None, "deleting"}
    return bool(tasks) or any(migration["status"] in MIGRATING for migration in migrations)


def main(path: str) -> None:
    """Wait; at most until three requests in succession failed."""
    conf = cfg.ConfigOpts()
    for kind in ("auth", "session", "adapter"):
        getattr(loading, f"register_{kind}_conf_options")(conf, SECTION)
    failures = 0
    while failures < ATTEMPTS:
        try:
            conf([f"--config-file={path}"])
            auth = loading.load_auth_from_conf_options(conf, SECTION)
            nova = loading.load_session_from_conf_options(conf, SECTION, auth=auth, timeout=10)
            while is_busy(nova, conf):
                failures = 0
                # Nova sends no notice of work that ended.
                time.sleep(2)
            break
        except (ClientException, cfg.Error, LookupError, ValueError) as error:
            print(f"{type(error).__name__} in the request for running work", flush=True)
            failures += 1
            # While an API is being replaced, another of its pods answers a moment later.
            time.sleep(1)


if __name__ == "__main__":
    main(sys.argv[1])
