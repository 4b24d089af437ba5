"""Tells how a plan unfolds: passes of the engine over a world that only moves when the story says so."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from openstack_operator import kube
from openstack_operator.cli.render import OfflineCluster
from openstack_operator.plan import (
    READY,
    Context,
    Key,
    Object,
    Plan,
    Release,
    ResolvedRef,
    SpecError,
    Step,
    Verdict,
    carry_out,
    conditions,
    key,
)
from openstack_operator.registry import ACTUATORS, SERVICES
from openstack_operator.runtime.rollout.still_serving import with_service
from openstack_operator.testing import granted

DIGEST = re.compile(r"(?<=[a-z])-[0-9a-f]{8}\b")
"""The end of a job's name follows everything in its pod; a story is not about that."""


class Story:
    """One resource, its children, and what was told so far."""

    def __init__(self, kind: str, release: Release, spec: Mapping[str, Any] | None = None) -> None:
        self._kind, self._release, self._spec = kind, release, dict(spec or {})
        self._live: dict[Key, Object] = {}
        self._unready: dict[str, Verdict] = {}
        self._lines: list[str] = []
        self._facts: Mapping[str, Any] = {}
        self._secrets: dict[str, Mapping[str, str]] = {}
        self._changes: dict[str, Any] = {}
        self._was_complete = False

    @property
    def text(self) -> str:
        return "\n".join([*self._lines, ""])

    def say(self, line: str) -> None:
        self._lines.append(f"\n{line}")

    def user_writes(self, **spec: Any) -> None:
        """The user changes the spec."""
        self._spec |= spec
        self.say(f"The user writes {', '.join(f'{name}: {value}' for name, value in spec.items())}.")

    def release_becomes(self, release: Release) -> None:
        self._release = release
        self.say(f"The release becomes {release.name}.")

    def referent(self, kind: str, verdict: Verdict) -> None:
        """Another resource this one leans on gets better or worse."""
        self._unready[kind] = verdict
        self.say(f"{kind} is {'ready' if verdict.ready else verdict.message}.")

    def finishes(self, *names: str) -> None:
        """Controllers finish what was applied, for objects whose name or kind begins so; for all without a name."""
        for found, obj in self._live.items():
            if not names or any(word.startswith(names) for word in found):
                self._live[found] = granted(obj)
        self.say(f"Finished: {', '.join(names) or 'everything that was applied'}.")

    def breaks(self, *kinds: str, message: str) -> None:
        """Children of these kinds stop being ready."""
        for found, obj in self._live.items():
            if found[0] in kinds:
                lost = {"type": "Ready", "status": "False", "reason": "Progressing", "message": message}
                generation = obj["metadata"].get("generation", 1)
                conditions = [{**lost, "observedGeneration": generation}]
                self._live[found] = {**obj, "status": {**obj.get("status", {}), "conditions": conditions}}
        self.say(f"{' and '.join(kinds)} are not ready anymore.")

    def reports(self, kind: str, name: str, **status: Any) -> None:
        """What is outside Kubernetes is found to be so."""
        found = self._live[kind, name]
        self._live[kind, name] = {**found, "status": {**found.get("status", {}), **status}}
        self.say(f"{kind}/{name}: {', '.join(f'{field} {value}' for field, value in status.items())}.")

    def hears(self, facts: Mapping[str, Any]) -> None:
        """What pods tell of themselves from now on."""
        self._facts = facts

    def holds(self, secret: str, **data: str) -> None:
        """A Secret of somebody else's."""
        self._secrets[secret] = data

    def begins_anew(self) -> None:
        """The operator is killed and another one takes over: what is not in the cluster is forgotten."""
        self._facts = {}
        self.say("The operator is killed; another one takes over.")

    def draws(self, draw: Callable[[], str]) -> None:
        """Passwords differ from now on."""
        self._changes["draw"] = draw

    def child(self, *known: str) -> Object:
        """A child as it is: by its kind and name."""
        return self._live[known[0], known[1]]

    def loses(self, *known: str) -> None:
        """Somebody deletes a child: its kind and name."""
        del self._live[known[0], known[1]]

    def fails(self, name: str, log: str) -> None:
        """The job whose name begins so gives up."""
        found = next(known for known in self._live if known[0] == "Job" and known[1].startswith(name))
        failed = {"conditions": [{"type": "Failed", "status": "True", "message": "backoff"}], "log": log}
        self._live[found] = {**self._live[found], "status": failed}
        self.say(f"Job {name} fails.")

    async def look(self) -> Plan | None:
        """One pass of the engine."""
        context = self._context()
        try:
            plan = next(service for service in SERVICES if service.resource.kind == self._kind).make_plan(context)
        except SpecError as error:
            also = "".join(f"{name} {verdict.cause}, " for name, verdict in error.verdicts.items() if name != "Ready")
            self._lines.append(f"  {also}{error.reason}: {error}")
            return None
        written: list[str] = []
        verdicts = await carry_out(plan, self._applier(written), kube.judge, self._present)
        gone = [known for known in self._live if known not in {key(obj) for obj in plan.objects}]
        for known in gone:
            del self._live[known]
        self._tell(plan, written, gone, verdicts)
        return plan

    async def look_until_quiet(self) -> None:
        """Passes with everything finished in between, until nothing is written anymore."""
        before = -1
        while before != (before := len(self._live)) or not all(map(_done, self._live.values())):
            self._live = {known: granted(obj) for known, obj in self._live.items()}
            length = len(self._lines)
            await self.look()
            del self._lines[length:]
        self.say("… until everything stands.")
        await self.look()

    def _context(self) -> Context[Any]:
        paper = OfflineCluster(SERVICES, ACTUATORS, lambda _: self._release, password="drawn")
        manifest = {"kind": self._kind, "metadata": {"name": self._kind.lower()}, "spec": self._spec}
        context = paper.context(manifest, "openstack")
        refs = {
            ref: ResolvedRef(resolved.published, self._unready.get(ref.kind, READY))
            for ref, resolved in context.refs.items()
        }
        secrets = {**context.secrets, **self._secrets}
        return replace(context, children=self._live, refs=refs, secrets=secrets, facts=self._facts, **self._changes)

    def _find(self, obj: Object) -> Object | None:
        return self._live.get(key(obj))

    def _present(self, step: Step) -> bool:
        return all(key(obj) in self._live for obj in step.workloads or step.objects)

    def _applier(self, written: list[str]) -> Callable[[Step], Any]:
        async def apply(step: Step) -> Sequence[Object]:
            for obj in step.objects:
                old = self._live.get(key(obj))
                if old is None:
                    self._live[key(obj)] = obj
                    written.append(f"+ {_told(key(obj))}")
                elif any(old.get(part) != value for part, value in obj.items() if part not in ("metadata", "status")):
                    generation = old["metadata"].get("generation", 1) + 1
                    metadata = {**obj["metadata"], "generation": generation}
                    self._live[key(obj)] = {**obj, "metadata": metadata, "status": old.get("status", {})}
                    written.append(f"~ {_told(key(obj))}")
            return [self._live[key(obj)] for obj in step.objects]

        return apply

    def _tell(self, plan: Plan, written: list[str], gone: list[Key], verdicts: dict[Step, Verdict]) -> None:
        self._lines += [f"  {line}" for line in written]
        self._lines += [f"  - {_told(known)}" for known in gone]
        told = conditions(plan, verdicts)
        told["Ready"] = with_service(told["Ready"], plan, verdicts, self._find, is_installed=self._was_complete)
        self._was_complete |= told["Ready"].ready
        for name, verdict in told.items():
            if not verdict.ready or name == "Ready":
                state = "True" if verdict.ready else f"{verdict.cause}, {verdict.message}"
                state = f"True, {state}" if verdict.serves else state
                self._lines.append(f"  {name}: {DIGEST.sub('-…', state)}")
            elif verdict.message:
                self._lines.append(f"  {name}: True, {verdict.cause}, {verdict.message}")


def _told(known: Key) -> str:
    return DIGEST.sub("-…", "/".join(known))


def _done(obj: Object) -> bool:
    return kube.judge(obj).ready
