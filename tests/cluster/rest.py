"""The API server as a user's tools speak to it: strict about fields, and asked only to say what it would do."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx2 as httpx

from openstack_operator.injector.object_names import CONFIGURATION
from openstack_operator.kubeconfig import connection
from openstack_operator.plan import Object
from openstack_operator.registry import EXTERNAL_KINDS, RESOURCES
from openstack_operator.runtime.kubernetes.client import FIELD_MANAGER
from openstack_operator.runtime.kubernetes.kinds import NAMESPACE, POD, Catalog, Kind

from . import external_definitions
from .harness import TIMEOUT

MORE = (
    NAMESPACE,
    Kind("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions"),
    Kind("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles"),
    Kind("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings"),
    CONFIGURATION,
    Kind(f"{CONFIGURATION.group}/v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
    Kind(f"{CONFIGURATION.group}/v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"),
)
INSTALLED = (
    POD,
    Kind("v1", "ServiceAccount", "serviceaccounts"),
    Kind("v1", "ResourceQuota", "resourcequotas"),
    Kind("v1", "LimitRange", "limitranges"),
    Kind("rbac.authorization.k8s.io/v1", "Role", "roles"),
    Kind("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings"),
)
"""What is in a namespace besides what a plan may hold."""
CATALOG = Catalog(RESOURCES, EXTERNAL_KINDS)

_TRIES = 5
"""How often a request is sent again that a busy server did not answer in time."""


def kind_of(obj: Object) -> Kind:
    """Where an object lives."""
    known = (*MORE, *INSTALLED, *external_definitions.kinds())
    named = next((kind for kind in known if (kind.api_version, kind.kind) == (obj["apiVersion"], obj["kind"])), None)
    return named or CATALOG.of(obj)


class Rest:
    """Requests in one namespace, each answered with its status and the server's words."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        way = connection(files=[kubeconfig])
        self._http = httpx.Client(
            base_url=way.server, headers=dict(way.headers), verify=way.trust(), timeout=TIMEOUT, trust_env=False
        )
        self.namespace = namespace

    def close(self) -> None:
        self._http.close()

    def in_new_namespace(self, name: str) -> Rest:
        """Return the same connection in a namespace that is made for it."""
        status, answer = self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        assert status == HTTPStatus.CREATED, answer
        there = copy(self)
        there.namespace = name
        return there

    def create(self, obj: Object, *, dry: bool = True) -> tuple[int, Object]:
        """Asks for a new object."""
        return self._ask("POST", kind_of(obj).path(self.namespace), obj, dry=dry)

    def change(self, obj: Object, spec: Mapping[str, Any]) -> tuple[int, Object]:
        """Asks for a change of an object's spec; nothing is changed."""
        path = kind_of(obj).path(self.namespace, obj["metadata"]["name"])
        return self._ask("PATCH", path, {"spec": spec}, "application/merge-patch+json", dry=True)

    def apply(self, obj: Object) -> tuple[int, Object]:
        """Server-side apply, as the operator does it."""
        kind = kind_of(obj)
        namespace = None if kind in MORE else self.namespace
        path = kind.path(namespace, obj["metadata"]["name"])
        # The field manager of the project's own client, for whoever else brought a definition.
        manager: dict[str, str] = {"fieldManager": FIELD_MANAGER, "force": "true"}
        return self._ask("PATCH", path, obj, "application/apply-patch+yaml", query=manager)

    def version(self, obj: Object) -> str:
        """Return the version of an object that is there, empty for one that is not."""
        kind = kind_of(obj)
        path = kind.path(None if kind in MORE else self.namespace, obj["metadata"]["name"])
        return self._ask("GET", path)[1].get("metadata", {}).get("resourceVersion", "")

    def delete(self, obj: Object) -> int:
        """Delete an object."""
        kind = kind_of(obj)
        return self._ask("DELETE", kind.path(None if kind in MORE else self.namespace, obj["metadata"]["name"]))[0]

    def report(self, obj: Object, status: Mapping[str, Any]) -> tuple[int, Object]:
        """Set the status of an object, as its controller does, which does not run here."""
        path = kind_of(obj).path(self.namespace, obj["metadata"]["name"], "status")
        return self._ask("PATCH", path, {"status": status}, "application/merge-patch+json")

    def scale(self, kind: Kind, name: str, replicas: int | None = None) -> tuple[int, Object]:
        """What the subresource `scale` shows, once it was set to that many replicas; of None as it is."""
        path = kind.path(self.namespace, name, "scale")
        if replicas is None:
            return self._ask("GET", path)
        return self._ask("PATCH", path, {"spec": {"replicas": replicas}}, "application/merge-patch+json")

    def put_scale(self, kind: Kind, name: str, shown: Object) -> tuple[int, Object]:
        """The same with the whole of what was shown, as a HorizontalPodAutoscaler writes it."""
        return self._ask("PUT", kind.path(self.namespace, name, "scale"), shown)

    def bind(self, pod: str, uid: str, node: str, *, dry: bool = False) -> int:
        """Binds a pod to a node, as a scheduler does."""
        target = {"kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod, "uid": uid}, "target": target}
        return self._ask("POST", POD.path(self.namespace, pod, "binding"), body, dry=dry)[0]

    def _ask(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        type_: str = "application/json",
        *,
        dry: bool = False,
        query: Mapping[str, str] | None = None,
    ) -> tuple[int, Object]:
        params = {"fieldValidation": "Strict", **({"dryRun": "All"} if dry else {}), **(query or {})}
        headers = {"Content-Type": type_}
        answer = self._http.request(method, path, json=body, params=params, headers=headers)
        # The answer of a busy server says nothing of the object, which it may have created.
        for _ in range(_TRIES if dry or method != "POST" else 0):
            if answer.status_code != HTTPStatus.GATEWAY_TIMEOUT:
                break
            answer = self._http.request(method, path, json=body, params=params, headers=headers)
        return answer.status_code, answer.json()
