"""Records of the services that a cloud may run: each from the folder of its kind's name."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from ..api import SERVICE_KINDS
from ..plan import CloudTemplate, Service


def _service(kind: str) -> Service:
    """Return SERVICE of a folder. Raises ImportError or AttributeError if a kind's name has no such folder."""
    return cast("Service", import_module(f"{__package__}.{kind.lower()}").SERVICE)


CLOUD_SERVICES = tuple(_service(each.kind) for each in SERVICE_KINDS)
"""In the order of `api/kinds.py`, which is the one line that a new service adds outside of its folder. They are looked
up by name, since the order and the names have to be known below them, in specs that refer to kinds."""


def template_of(service: Service) -> CloudTemplate:
    """Return the template of a service in a cloud. Raises LookupError if its record has none."""
    if service.template is None:
        raise LookupError(f"the record of {service.resource.kind} has no template in a cloud; give it a CloudTemplate")
    return service.template
