"""Notifications of a service, read by a program in a pod of that service: its login stays there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from tools.cloud.session import Cloud
from tools.localcluster.kubernetes import Kubernetes

from ..waiting import until

# Reads the broker and the login from the configuration file it is told, as the service itself does.
_PROGRAM = """
import configparser, json, ssl, sys
from urllib.parse import parse_qs, unquote, urlsplit
from kombu import Connection

conf = configparser.RawConfigParser(strict=False)
conf.read(sys.argv[1])
url = urlsplit(conf["oslo_messaging_notifications"]["transport_url"])
query = parse_qs(url.query)
tls = {}
if "ssl_ca_file" in query:
    tls = {"ca_certs": query["ssl_ca_file"][0], "cert_reqs": ssl.CERT_REQUIRED, "server_hostname": url.hostname}
events = []
with Connection(
    hostname=url.hostname, port=url.port, userid=url.username, password=unquote(url.password),
    virtual_host=unquote(url.path.removeprefix("/")), transport="pyamqp", ssl=tls or False, connect_timeout=10,
) as broker:
    channel = broker.channel()
    while message := channel.basic_get("notifications.info"):
        body = json.loads(message.body)
        events.append(json.loads(body["oslo.message"])["event_type"])
        channel.basic_ack(message.delivery_tag)
print(json.dumps([url.hostname, events]))
"""

PROGRAMS: Mapping[str, tuple[str, str]] = {
    "keystone": ("deploy/keystone-api", "/etc/keystone/keystone.conf"),
    "glance": ("deploy/glance-api", "/etc/glance/glance-api.conf"),
    "neutron": ("deploy/neutron-api", "/etc/neutron/neutron.conf"),
    "nova": ("deploy/nova-api", "/etc/nova/nova.conf"),
    "cinder": ("deploy/cinder-api", "/etc/cinder/cinder.conf"),
    "heat": ("deploy/heat-api", "/etc/heat/heat.conf"),
}
"""Workload and configuration file of each service that sends notifications."""


@dataclass
class Bus:
    """The notifications of one service; those that were read once are gone from the broker."""

    cluster: Kubernetes
    cloud: Cloud
    service: str
    events: list[str] = field(default_factory=list[str])
    """Types of all events so far."""
    host: str = ""
    """Broker that the service sends them to."""

    def has(self, event: str, timeout: float = 60) -> bool:
        """Wait until the service has sent that event. Raises KubeError if it does not."""

        def read() -> bool:
            workload, file = PROGRAMS[self.service]
            command = ("exec", "-i", "-n", self.cloud.namespace, workload, "-c", "main", "--", "python3", "-", file)
            self.host, found = json.loads(self.cluster.kubectl(*command, stdin=_PROGRAM))
            self.events += found
            return event in self.events

        return until(f"{event} among the notifications of {self.service}", read, timeout, 2)
