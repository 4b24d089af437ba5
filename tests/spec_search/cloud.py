"""The same changes of specs in a real cloud, with Ready as the oracle. The cloud is one to throw away.

For each transition it writes another spec of a resource of the namespace, waits until the operator has judged it,
writes the first spec again, and expects the resource to be ready, with the programs that it had. A refusal has to
name a field, and may delete no program.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections import Counter
from random import Random
from typing import Any, cast

from openstack_operator.cli.offline.schema import with_defaults
from openstack_operator.kube import INSTANCE, KIND, conditions, fitting
from openstack_operator.plan import Object, Service
from openstack_operator.registry import SERVICES
from tests.toggling import spec_schema

from .admission import refusal
from .mutations import mutations
from .oracles import message_problems

_SETTLES = 20.0
"""Seconds in which the operator notes a change."""
_PERIOD = 3.0


class Cluster:
    """A namespace of a real cluster, by kubectl."""

    def __init__(self, kubeconfig: str, namespace: str, patience: float) -> None:
        self._command = ["kubectl", f"--kubeconfig={kubeconfig}", f"--namespace={namespace}"]
        self._patience = patience

    def run(self, *arguments: str, text: str = "") -> str:
        """Return what kubectl prints. Raises CalledProcessError."""
        done = subprocess.run(
            [*self._command, *arguments], input=text, capture_output=True, text=True, timeout=120, check=True
        )
        return done.stdout

    def resources(self) -> list[tuple[Service, str]]:
        """Return the resources that are there, with their kinds."""
        names: list[tuple[Service, str]] = []
        for service in SERVICES:
            try:
                listed = json.loads(self.run("get", service.resource.crd_name, "-o", "json"))["items"]
            except subprocess.CalledProcessError:
                # A kind that is installed on request.
                continue
            # What a cloud makes follows its template.
            names += [
                (service, each["metadata"]["name"]) for each in listed if not each["metadata"].get("ownerReferences")
            ]
        return names

    def get(self, service: Service, name: str) -> Object:
        """Return a resource."""
        return json.loads(self.run("get", service.resource.crd_name, name, "-o", "json"))

    def write(self, service: Service, name: str, spec: Any) -> None:
        """Replace the spec of a resource. Raises CalledProcessError for one that is not admitted."""
        patch = json.dumps([{"op": "add", "path": "/spec", "value": spec}])
        self.run("patch", service.resource.crd_name, name, "--type=json", f"--patch={patch}")

    def judged(self, service: Service, name: str, *, ready: bool) -> dict[str, tuple[str, str, str]]:
        """Return the conditions once the operator is done with the present spec: if `ready`, once all is as it asks."""
        end = time.monotonic() + self._patience
        time.sleep(_SETTLES)
        while True:
            live = self.get(service, name)
            verdicts = {
                type_: (each["status"], each["reason"], each.get("message", ""))
                for type_, each in conditions(live).items()
            }
            is_current = (live.get("status") or {}).get("observedGeneration") == live["metadata"]["generation"]
            if is_current and ("Reconciling" not in verdicts) and not (ready and "Stalled" in verdicts):
                return verdicts
            if time.monotonic() > end:
                return verdicts
            time.sleep(_PERIOD)

    def programs(self, service: Service, name: str) -> dict[str, str]:
        """Return the workloads of a resource, with their uids."""
        labels = f"{KIND}={service.resource.role.lower()},{INSTANCE}={fitting(name)}"
        listed = json.loads(self.run("get", "deployments,statefulsets,daemonsets", "-l", labels, "-o", "json"))["items"]
        return {f"{each['kind']}/{each['metadata']['name']}": each["metadata"]["uid"] for each in listed}


def transition(cluster: Cluster, random: Random, service: Service, name: str) -> tuple[str, list[str]]:
    """Change a spec and change it back; return what became of it, and what is wrong."""
    schema, old = spec_schema(service.resource), cluster.get(service, name)["spec"]
    changes, new = mutations(random, service.resource, old), old
    for change in changes:
        new = change.apply(schema, new)
    new = with_defaults(schema, new)
    if new == old or refusal(schema, old, new) or refusal(schema, new, old):
        return "not tried", []
    programs = cluster.programs(service, name)
    try:
        cluster.write(service, name, new)
    except subprocess.CalledProcessError as error:
        return f"not admitted: {error.stderr.strip()[:200]}", []
    verdicts = cluster.judged(service, name, ready=False)
    reached = verdicts["Ready"][0] == "True" and not verdicts.keys() & {"Stalled", "Reconciling"}
    answer = "reached" if reached else "refused" if "Stalled" in verdicts else "waiting"
    problems: list[str] = []
    if not reached:
        problems += message_problems(verdicts)
        after = cluster.programs(service, name)
        problems += [f"{each} is gone or replaced" for each, uid in programs.items() if after.get(each) != uid]
    cluster.write(service, name, old)
    verdicts = cluster.judged(service, name, ready=True)
    if verdicts["Ready"][0] != "True" or "Stalled" in verdicts or "Reconciling" in verdicts:
        problems.append(f"it is not ready with its first spec again: {' '.join(verdicts['Ready'])}")
    if (after := cluster.programs(service, name)).keys() != programs.keys():
        problems.append(f"its programs are {sorted(after)} instead of {sorted(programs)}")
    text = "; ".join(map(str, changes))
    return answer, [f"{service.resource.handle}/{name}: {text} ({answer}): {each}" for each in problems]


def main(arguments: list[str]) -> bool:
    """Carry out transitions in a real cloud, and return True if one shows a fault."""
    parser = argparse.ArgumentParser(prog="python -m tests.spec_search cloud", description=__doc__)
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--namespace", default="openstack")
    parser.add_argument("--transitions", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", nargs="*", default=[], help="handles of kinds; all that are there by default")
    parser.add_argument("--patience", type=float, default=900.0, help="seconds until a resource has to be ready")
    options = cast("Any", parser.parse_args(arguments))
    cluster, random = Cluster(options.kubeconfig, options.namespace, options.patience), Random(options.seed)
    resources = [each for each in cluster.resources() if not options.kinds or each[0].resource.handle in options.kinds]
    counts, failed = Counter[str](), 0
    while counts["reached"] + counts["refused"] + counts["waiting"] < options.transitions:
        answer, problems = transition(cluster, random, *random.choice(resources))
        counts[answer.partition(":")[0]] += 1
        failed += bool(problems)
        print(f"{sum(counts.values())} {answer}", *problems, sep="\n  ", flush=True)
    print(f"{dict(counts)}, {failed} with a fault")
    return failed > 0
