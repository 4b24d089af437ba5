"""OpenStack Nova: virtual machines, in cells."""

from __future__ import annotations

from ...parts.connect.broker_move import needs_pods
from ...plan import C5C3, CloudTemplate, SecretReaders, Service
from .ignored import ignored
from .model import NOVA
from .service import plan

SERVICE = Service(
    resource=NOVA,
    plan=plan,
    observes=SecretReaders(needs_pods),
    template=CloudTemplate(
        field="nova",
        phase="ComputeAndStorage",
        programs={
            "nova-api": "image",
            "nova-metadata": "image",
            "nova-scheduler": "image",
            "nova-conductor": "image",
            "nova-novncproxy": "image",
            "nova-compute": "compute.image",
            "libvirt": "compute.libvirt.image",
            "libvirt-exporter": "",
        },
    ),
    c5c3=C5C3(),
    ignores=(ignored,),
)
