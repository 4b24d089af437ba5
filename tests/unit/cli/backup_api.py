"""An API server of one namespace that has backups, and an operator that reports one status after the other."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2 as httpx

from openstack_operator.plan import Object
from openstack_operator.plan.times import time_stamp
from openstack_operator.runtime.kubernetes.client import Client

API = "openstack.k8s.io/v1alpha1"
REPOSITORY: Object = {
    "s3": {
        "endpoint": "https://s3.example.org",
        "bucket": "backups",
        "accessKeyRef": {"name": "bucket", "key": "access"},
        "secretKeyRef": {"name": "bucket", "key": "secret"},
    },
    "passwordRef": {"name": "repository"},
}
OTHER_REPOSITORY: Object = {"volume": {"claimName": "backups"}, "passwordRef": {"name": "repository"}}


def ago(**age: float) -> str:
    """The time so long ago."""
    return time_stamp(datetime.now(UTC) - timedelta(**age))


def condition(type_: str, reason: str = "", message: str = "", generation: int = 1) -> Object:
    """A condition; True without a reason."""
    status = {"status": "False", "reason": reason} if reason else {"status": "True", "reason": "Ready"}
    return {"type": type_, **status, "message": message, "observedGeneration": generation}


def status(reason: str = "", message: str = "", *parts: Object, stalled: bool = False, **fields: Any) -> Object:
    """A status that is Ready without a reason, with conditions of its parts."""
    conditions = [condition("Ready", reason, message), *parts]
    if stalled:
        conditions.append({**condition("Stalled", "", message), "reason": reason})
    return {"conditions": conditions, **fields}


@dataclass
class BackupApi:
    """Answers get, list, create and merge."""

    objects: dict[tuple[str, str, str], Object] = field(default_factory=dict[tuple[str, str, str], Object])
    """By namespace, plural and name."""
    reports: list[Object | Exception | BaseException] = field(default_factory=list[Any])
    """What the next reads of a restore or of the newest backup get as status: the last one stays."""
    forbidden: set[str] = field(default_factory=set[str])
    """Plurals that the user may not list."""
    writes: list[Object] = field(default_factory=list[Object])
    managers: set[str] = field(default_factory=set[str])

    def put(self, kind: str, name: str, namespace: str = "openstack", **fields: Any) -> Object:
        """Has an object."""
        plural, api = (f"{kind.lower()}s", "v1" if kind == "PersistentVolumeClaim" else API)
        metadata = {"name": name, "namespace": namespace, "uid": f"{kind}/{name}", "generation": 1}
        metadata |= {"creationTimestamp": ago(hours=9), **fields.pop("metadata", {})}
        live = {"apiVersion": api, "kind": kind, "metadata": metadata, "spec": {}, **fields}
        self.objects[namespace, plural, name] = live
        return live

    def schedule(self, name: str = "nightly", namespace: str = "openstack", **spec: Any) -> Object:
        """Has a schedule with an archive that is up to date."""
        fields: dict[str, Any] = {
            "nextScheduleTime": "2030-01-01T00:00:00Z",
            "lastBackup": f"{name}-202601010000",
            "lastSuccessfulTime": ago(hours=8, minutes=30),
            "firstRecoverableTime": ago(days=3),
            "lastRecoverableTime": ago(seconds=20),
        }
        spec = {"schedule": "0 1 * * *", "archive": True, "repository": REPOSITORY, **spec}
        return self.put("OpenStackBackupSchedule", name, namespace, spec=spec, status=status(**fields))

    def backup(self, name: str, report: Object, namespace: str = "openstack", **fields: Any) -> Object:
        """Has a backup."""
        spec = {"repository": REPOSITORY, **fields.pop("spec", {})}
        return self.put("OpenStackBackup", name, namespace, spec=spec, status=report, **fields)

    def client(self) -> Client:
        return Client(httpx.AsyncClient(transport=httpx.MockTransport(self._answer), base_url="https://api"))

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        namespace, plural, *rest = request.url.path.partition("/namespaces/")[2].split("/")
        name = rest[0] if rest else ""
        if request.method == "GET" and not name:
            return self._listed(request, namespace, plural)
        body: Any = json.loads(request.content or b"{}")
        if request.method == "POST":
            name = body["metadata"]["name"]
        place = (namespace, plural, name)
        if request.method == "GET":
            return self._read(place)
        self.writes.append(body)
        self.managers.add(request.url.params["fieldManager"])
        if request.method == "POST":
            if place in self.objects:
                return httpx.Response(409, json={"message": f"{name} already exists"})
            return httpx.Response(201, json=self.put(body["kind"], name, namespace, spec=body["spec"]))
        live = self.objects[place]
        assert body["metadata"]["uid"] == live["metadata"]["uid"]
        live["spec"] = {**live["spec"], **body["spec"]}
        live["metadata"]["generation"] += 1
        return httpx.Response(200, json=live)

    def _listed(self, request: httpx.Request, namespace: str, plural: str) -> httpx.Response:
        if plural in self.forbidden:
            return httpx.Response(403, json={"message": f'{plural} is forbidden: User "me" cannot list {plural}'})
        selector = request.url.params.get("labelSelector", "")
        items = [
            live
            for (of_namespace, of_plural, _), live in self.objects.items()
            if (of_namespace, of_plural) == (namespace, plural)
            if "in (mariadb" not in selector or live["metadata"].get("labels")
        ]
        return httpx.Response(200, json={"items": items})

    def _read(self, place: tuple[str, str, str]) -> httpx.Response:
        if place not in self.objects:
            return httpx.Response(404, json={"message": "not found"})
        live = self.objects[place]
        if self.reports and place[1] != "openstackbackupschedules" and self.writes:
            report = self.reports.pop(0) if len(self.reports) > 1 else self.reports[0]
            if isinstance(report, BaseException):
                raise report
            generation = live["metadata"]["generation"]
            conditions = [{**each, "observedGeneration": generation} for each in report.get("conditions", ())]
            live["status"] = {**report, "conditions": conditions}
        return httpx.Response(200, json=live)
