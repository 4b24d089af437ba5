"""Drain of a nova-compute: it finishes its work before Kubernetes stops it. Stopped at once, it drops builds and
migrations where they are, and servers stay in a state that nothing ends.
"""

from __future__ import annotations

from typing import Any

GRACE = 1800
"""Seconds that a nova-compute has to finish its work."""
WAITS_FOR = (
    "nova-compute waits for migrations and for servers with a task on its node: look at them with"
    " `openstack server list --all-projects --host NODE --long`; `openstack server set --state active SERVER` ends"
    " a task that is stuck"
)
"""Message of the condition in that time, with `NODE` for the node."""

# Nova knows what is under way; libvirt, only a part of each migration. A record that nothing has touched for minutes is
# of something that broke off, while a migration notes its progress every few seconds. Where Nova cannot be asked, as in
# a cloud that is being removed, there is nothing to wait for. The next nova-compute resumes a deletion
# (ComputeManager._init_instance), and one whose message a broker has lost goes on only then. A build or a migration
# takes many seconds, and a look is two requests: there is one every two seconds. After one that failed it looks a
# second later, when another pod answers for an API that is being replaced.
_PROGRAM = """\
import os, time
from datetime import datetime, timedelta, timezone
from keystoneauth1 import loading
from keystoneauth1.exceptions import ClientException
from oslo_config import cfg
conf, host = cfg.ConfigOpts(), os.environ["OS_DEFAULT__HOST"]
for kind in ("auth", "session", "adapter"):
    getattr(loading, f"register_{kind}_conf_options")(conf, "neutron")
moving = "accepted queued preparing running pre-migrating migrating post-migrating".split()

def ask(nova, what):
    since = (datetime.now(timezone.utc) - timedelta(minutes=5)).strftime("%Y-%m-%dT%H:%M:%SZ")
    where = {"service_type": "compute", "interface": "internal", "region_name": conf.neutron.region_name}
    url = f"/{what}host={host}&changes-since={since}"
    return nova.get(url, endpoint_filter=where, microversion="2.59").json()

def busy(nova):
    migrations = ask(nova, "os-migrations?")["migrations"]
    servers = ask(nova, "servers/detail?all_tenants=1&")["servers"]
    tasks = {one["OS-EXT-STS:task_state"] for one in servers} - {None, "deleting"}
    return bool(tasks) or any(one["status"] in moving for one in migrations)

failed = 0
while failed < 3:
    try:
        conf(["--config-file=/etc/nova/nova.conf"])
        auth = loading.load_auth_from_conf_options(conf, "neutron")
        nova = loading.load_session_from_conf_options(conf, "neutron", auth=auth, timeout=10)
        while busy(nova):
            failed = 0
            # Nova tells nobody that something came to its end.
            time.sleep(2)
        break
    except (ClientException, cfg.Error, LookupError, ValueError) as error:
        print(f"{type(error).__name__} as nova was asked what is under way", flush=True)
        failed += 1
        # An API that is being replaced answers a moment later.
        time.sleep(1)
"""


def drain_hook() -> dict[str, Any]:
    """Return a preStop hook that lasts until no server of the node is being made or changed, none comes and none goes,
    at most until the grace period of the pod ends.
    """
    return {"preStop": {"exec": {"command": ["python3", "-W", "ignore", "-c", _PROGRAM]}}}
