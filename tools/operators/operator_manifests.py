"""An operator's own manifests, changed: without cert-manager, and with images that the nodes have."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from openstack_operator.pki import Pair

Object = dict[str, Any]

CERTIFICATES = "/tmp/k8s-webhook-server/serving-certs"
"""Folder in which controller-runtime looks for the certificate of its webhooks by default."""
_VOLUME = "webhook-server-cert"
_SMALL = {"requests": {"cpu": "10m", "memory": "32Mi"}}
"""Requests of each operator: there are ten, and they are idle most of the time."""


@dataclass(frozen=True)
class Program:
    """The program in containers of an operator; names are those of containers."""

    image: str
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    commands: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """The command of a container, in place of the image's first program."""
    arguments: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """Further arguments of a container, after those of its manifest."""


def adapted(objects: Iterable[Object], program: Program, *, mount: bool = True) -> list[Object]:
    """Return all but cert-manager's objects, namespaces first. Deployments run the program, with small requests, and
    mount a certificate if they serve webhooks.
    """
    remaining = [each for each in objects if not each["apiVersion"].startswith("cert-manager.io/")]
    served = mount and any("webhooks" in each for each in remaining)
    adapted_objects = [
        _deployment(each, program, served=served) if each["kind"] == "Deployment" else each for each in remaining
    ]
    return sorted(adapted_objects, key=lambda each: each["kind"] != "Namespace")


def hosts(objects: Iterable[Object], domain: str = "cluster.local") -> frozenset[str]:
    """Return the names at which clients call the operator's Services."""
    services = [each["metadata"] for each in objects if each["kind"] == "Service"]
    names = [f"{meta['name']}.{meta['namespace']}.svc" for meta in services]
    return frozenset((*names, *(f"{name}.{domain}" for name in names)))


def mounted(objects: Iterable[Object]) -> list[tuple[str, str]]:
    """Return namespace and name of the Secrets that Deployments mount; cert-manager would have made them."""
    return [
        (each["metadata"]["namespace"], volume["secret"]["secretName"])
        for each in objects
        if each["kind"] == "Deployment"
        for volume in each["spec"]["template"]["spec"].get("volumes", [])
        if "secret" in volume
    ]


def certified(objects: Iterable[Object], serving: Pair, authority: str) -> list[Object]:
    """Return the objects, whose webhooks trust the authority, and the mounted Secrets, which hold the certificate."""
    trusting = [_trusting(each, authority) if "webhooks" in each else each for each in objects]
    data = {"tls.crt": serving.cert, "tls.key": serving.key, "ca.crt": authority}
    secrets = [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": namespace},
            "type": "kubernetes.io/tls",
            "data": {file: _base64(text) for file, text in data.items()},
        }
        for namespace, name in mounted(trusting)
    ]
    return [*trusting, *secrets]


def installed(objects: Iterable[Object]) -> list[Object]:
    """Return the objects to delete with the operator, webhooks first: those of an operator that is gone refuse every
    write. Definitions stay, or all objects of their kinds would go; namespaces may have others in them.
    """
    going = [each for each in objects if each["kind"] not in {"CustomResourceDefinition", "Namespace"}]
    return sorted(going, key=lambda each: "webhooks" not in each)


def _deployment(obj: Object, program: Program, *, served: bool) -> Object:
    pod = obj["spec"]["template"]["spec"]
    containers = [_container(each, program) for each in pod["containers"]]
    volumes = pod.get("volumes", [])
    if served and CERTIFICATES not in {mount["mountPath"] for each in containers for mount in each["volumeMounts"]}:
        mount = {"name": _VOLUME, "mountPath": CERTIFICATES, "readOnly": True}
        containers = [{**each, "volumeMounts": [*each["volumeMounts"], mount]} for each in containers]
        volumes = [*volumes, {"name": _VOLUME, "secret": {"secretName": _VOLUME}}]
    template = {**obj["spec"]["template"], "spec": {**pod, "containers": containers, "volumes": volumes}}
    return {**obj, "spec": {**obj["spec"], "template": template}}


def _container(container: Object, program: Program) -> Object:
    name = container["name"]
    variables = [each for each in container.get("env", []) if each["name"] not in program.environment]
    # The image starts its first program by itself, whatever it is called elsewhere.
    command = {"command": [*program.commands[name]]} if name in program.commands else {}
    arguments = {"args": [*container.get("args", []), *program.arguments[name]]} if name in program.arguments else {}
    return {
        **{name: value for name, value in container.items() if name != "command"},
        **command,
        **arguments,
        "image": program.image,
        "imagePullPolicy": "IfNotPresent",
        "env": [*variables, *({"name": name, "value": value} for name, value in program.environment.items())],
        "volumeMounts": container.get("volumeMounts", []),
        "resources": _SMALL,
    }


def _trusting(obj: Object, authority: str) -> Object:
    bundle = {"caBundle": _base64(authority)}
    return {
        **obj,
        "webhooks": [{**each, "clientConfig": {**each["clientConfig"], **bundle}} for each in obj["webhooks"]],
    }


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
