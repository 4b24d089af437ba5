"""A user of a cloud whose APIs nobody outside the cluster reaches: runs in the pod of the client, and prints facts.

`python3 - IMAGE`: IMAGE is the path of the guest in that pod.
"""

import json
import sys
import time

import openstack

NAME = "answers"


def main() -> None:
    """Boot a server with a volume at it, and print its network and its address."""
    conn = openstack.connect(cloud="openstack")
    image = conn.image.create_image(
        NAME, filename=sys.argv[1], disk_format="qcow2", container_format="bare", visibility="public", wait=True
    )
    flavor = conn.compute.create_flavor(name=NAME, ram=128, vcpus=1, disk=1)
    network = conn.network.create_network(name=NAME)
    conn.network.create_subnet(name=NAME, network_id=network.id, ip_version=4, cidr="10.20.0.0/24")
    group = conn.network.create_security_group(name=NAME)
    conn.network.create_security_group_rule(security_group_id=group.id, direction="ingress", ether_type="IPv4")
    volume = conn.block_storage.create_volume(name=NAME, size=1)
    began = time.monotonic()
    server = conn.compute.create_server(
        name=NAME,
        image_id=image.id,
        flavor_id=flavor.id,
        networks=[{"uuid": network.id}],
        security_groups=[{"name": group.name}],
    )
    server = conn.compute.wait_for_server(server, interval=1, wait=300)
    active = round(time.monotonic() - began, 1)
    conn.block_storage.wait_for_status(volume, "available", interval=1, wait=120)
    conn.compute.create_volume_attachment(server, volume_id=volume.id)
    conn.block_storage.wait_for_status(volume, "in-use", interval=1, wait=120)
    port = next(iter(conn.network.ports(device_id=server.id)))
    facts = {
        "network": network.id,
        "address": port.fixed_ips[0]["ip_address"],
        "host": conn.compute.get_server(server.id).compute_host,
        "server_active_seconds": active,
        "attached": [each.attachments[0]["device"] for each in [conn.block_storage.get_volume(volume.id)]],
    }
    print(json.dumps(facts))


main()
