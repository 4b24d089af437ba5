"""CinderQuota: what a project may have, or every project without a quota of its own, over the Block Storage API."""

from __future__ import annotations

from typing import Any

from ..plan import Context, SpecError
from . import loop
from .answers import member
from .cinder import NAME, Cinder, connected
from .identity import refuse_other_name
from .keystone import NamedRow, session
from .loop import Facets
from .storage_models import CinderQuotaSpec

_CLASS, _SET = "quota_class_set", "quota_set"


class Quota:
    """The limits of one project, or of the class every project belongs to."""

    path = "spec.limits"

    def __init__(self, cinder: Cinder, spec: CinderQuotaSpec, project: str) -> None:
        self.name = f"quota of {spec.project}" if spec.project else "quota of every project"
        self._cinder = cinder
        self._limits = spec.limits
        self._key = _SET if project else _CLASS
        self._at = "/os-quota-sets/{}" if project else "/os-quota-class-sets/default"
        self._ids = (project,) if project else ()

    @property
    def desired(self) -> Facets:
        return dict(self._limits)

    def find(self) -> Facets | None:
        answer = self._cinder.call("GET", self._at, ids=self._ids)
        limits = member(NAME, answer, self._key, dict[str, Any]) if answer else {}
        # Limits that the spec does not name are not ours to change.
        return {name: limit for name, limit in limits.items() if name in self._limits}

    def create(self) -> None:
        self.update(frozenset(self._limits))

    def update(self, changed: frozenset[str]) -> None:
        values = {name: limit for name, limit in self._limits.items() if name in changed}
        self._cinder.call("PUT", self._at, {self._key: values}, ids=self._ids)

    def delete(self) -> None:
        """Delete the quota of a project, which then has that of every project. The latter is never deleted."""
        if self._ids:
            self._cinder.call("DELETE", self._at, ids=self._ids)


class NoProject(SpecError):
    """Nothing has the name of the project."""


def _project(ctx: Context[CinderQuotaSpec]) -> str:
    """Return the id of the project; empty for all. Raises NoProject, or SpecError for one that is written otherwise."""
    if ctx.spec.project is None:
        return ""
    keystone = session(ctx, ctx.spec.keystone_ref)
    for domain in keystone.rows("domains", NamedRow, name=ctx.spec.domain):
        refuse_other_name("spec.domain", ctx.spec.domain, domain["name"], "domain")
        for row in keystone.rows("projects", NamedRow, name=ctx.spec.project, domain_id=domain["id"]):
            refuse_other_name("spec.project", ctx.spec.project, row["name"], "project")
            return row["id"]
    raise NoProject("spec.project", f"there is no project {ctx.spec.project!r} in domain {ctx.spec.domain!r}")


def ensure(ctx: Context[CinderQuotaSpec]) -> list[str]:
    """Set the limits that the spec names, and return what was changed."""
    return loop.ensure((Quota(connected(ctx), ctx.spec, _project(ctx)),))


def remove(ctx: Context[CinderQuotaSpec]) -> None:
    """Give the project the limits of every project again, unless another resource sets its quota."""
    if ctx.conflicting_fields:
        return
    try:
        project = _project(ctx)
    except NoProject:
        return
    loop.remove((Quota(connected(ctx), ctx.spec, project),))
