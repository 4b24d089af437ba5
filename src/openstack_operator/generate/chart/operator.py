"""Templates of the chart openstack-operator that are made of the objects in deploy/."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

from ...admission.policy_names import NAMESPACE, OPERATOR
from ...admission.presence import policies
from ...kube import NAME, Object
from ...yaml_text import dump
from ..deployment import API_SERVER_PORTS, METRICS_PORT, deployment, tcp
from ..injector import labels_injector
from ..permissions import Rules, namespaced_permissions, optional_permissions, permissions
from ..roles import user_roles
from .code import Code

TEMPLATE_HEADER = "{{- /* Made by `openstack-operator generate`; change the models instead. */ -}}\n"
"""Beginning of each template that is made of the models."""
_RELEASE_NAMESPACE = "{{ .Release.Namespace }}"
_POLICIES = ".Values.networkPolicy.enabled"
_CERTIFICATE = "/etc/metrics-certificate"


def templates(granted: Mapping[str, Rules]) -> dict[str, str]:
    """Return the templates by file name; `granted` are the operator's rules by role."""
    operator = {obj["kind"]: obj for obj in deployment()}
    network_policies = _of_kind(deployment(), "NetworkPolicy")
    injector = labels_injector()
    return {
        "_rules.tpl": TEMPLATE_HEADER + _rules(granted),
        "deployment.yaml": TEMPLATE_HEADER + template([operator["Deployment"]], _operator_pod),
        "poddisruptionbudget.yaml": _when(".Values.podDisruptionBudget.enabled", [operator["PodDisruptionBudget"]]),
        "networkpolicy.yaml": _when(_POLICIES, network_policies),
        "admission.yaml": _when(".Values.admission.enabled", policies()),
        "user-roles.yaml": TEMPLATE_HEADER + template(user_roles()),
        "labels-injector.yaml": _when(
            ".Values.labelsInjector.enabled",
            [obj for obj in injector if obj["kind"] != "NetworkPolicy"],
        ),
        "labels-injector-networkpolicy.yaml": _when(
            f"and .Values.labelsInjector.enabled {_POLICIES}", _of_kind(injector, "NetworkPolicy")
        ),
    }


def _of_kind(objects: Sequence[Object], kind: str) -> list[Object]:
    return [obj for obj in objects if obj["kind"] == kind]


def _rules(granted: Mapping[str, Rules]) -> str:
    """Return a named template for the rules of each role: `…rules` in a served namespace, `…rules.NAME` of others."""
    once, in_each = namespaced_permissions(granted)
    roles = {"rules": in_each, "rules.lease": _of_kind(permissions(granted), "Role")}
    roles |= {
        f"rules.{obj['metadata']['name'].removeprefix(f'{OPERATOR}-')}": [obj] for obj in _of_kind(once, "ClusterRole")
    }
    roles |= {f"rules.{name}": objects for name, objects in optional_permissions(granted, "").items()}
    return "".join(
        f'{{{{- define "{OPERATOR}.{name}" -}}}}\n{dump(objects[0]["rules"])}{{{{- end }}}}\n'
        for name, objects in roles.items()
    )


def _when(condition: str, objects: Sequence[Object]) -> str:
    """Return a template of objects that are there if the condition holds."""
    return f"{TEMPLATE_HEADER}{{{{- if {condition} }}}}\n{template(objects)}{{{{- end }}}}\n"


def template(objects: Sequence[Object], change: Callable[[Object, Code], None] = lambda obj, code: None) -> str:
    """Return the template of objects in the namespace of a release, with the changes of `change`. Raises ValueError for
    an object with braces that helm would read as code.
    """
    code, copies = Code(), deepcopy(list(objects))
    for obj in copies:
        if "{{" in dump(obj):
            raise ValueError(f"{obj['kind']} {obj['metadata']['name']}: helm reads its braces as code; escape them")
        change(obj, code)
        _label(obj, code)
        _choose_ports(obj, code)
    return code.text(_released(obj, code) for obj in copies)


def _label(obj: Object, code: Code) -> None:
    """Add the labels that all objects of a chart have."""
    metadata = obj["metadata"]
    metadata["labels"] = {
        NAME: OPERATOR,
        **metadata.get("labels", {}),
        code.lines(f'{{{{- include "{OPERATOR}.labels" . | nindent +0 }}}}'): None,
    }


def _released(node: Any, code: Code) -> Any:
    """Return what is in the operator's namespace in that of the release, and pods with the image of the values."""
    if isinstance(node, list):
        return [_released(each, code) for each in node]
    if isinstance(node, str):
        return node.replace(f":serviceaccount:{NAMESPACE}:", f":serviceaccount:{_RELEASE_NAMESPACE}:")
    if not isinstance(node, dict):
        return node
    fields = {name: _released(each, code) for name, each in node.items()}
    if fields.get("namespace") == NAMESPACE:
        fields["namespace"] = _RELEASE_NAMESPACE
    if "imagePullPolicy" in fields:
        fields["image"] = f'{{{{ include "{OPERATOR}.image" . }}}}'
        fields["imagePullPolicy"] = code.value(".Values.image.pullPolicy")
    if "serviceAccountName" in fields:
        fields |= code.block("imagePullSecrets", ".Values.imagePullSecrets")
    return fields


def _choose_ports(obj: Object, code: Code) -> None:
    """Let values choose the ports of a NetworkPolicy."""
    if obj["kind"] != "NetworkPolicy":
        return
    fixed = [tcp(port) for port in API_SERVER_PORTS]
    each_port = "{{- range .Values.networkPolicy.apiServerPorts }}\n- protocol: TCP\n  port: {{ . }}\n{{- end }}"
    for rule in obj["spec"].get("egress", ()):
        if fixed[0] in rule.get("ports", ()):
            rule["ports"] = [*(port for port in rule["ports"] if port not in fixed), code.lines(each_port)]
    if "ingress" in obj["spec"]:
        obj["spec"]["ingress"] = _with_metrics(obj["spec"]["ingress"], {"ports": [tcp(METRICS_PORT)]}, code)


def _with_metrics(entries: Sequence[Any], entry: Any, code: Code) -> list[Any]:
    """Return a list whose entry for metrics is there if they are."""
    served = (code.lines("{{- if .Values.metrics.enabled }}"), entry, code.lines("{{- end }}"))
    return [part for each in entries for part in (served if each == entry else (each,))]


def _operator_pod(obj: Object, code: Code) -> None:
    spec = obj["spec"]
    spec["replicas"] = code.value(".Values.replicaCount")
    pods = spec["template"]
    entries = "{{- with .Values.%s }}\n{{- toYaml . | nindent +0 }}\n{{- end }}"
    pods["metadata"]["labels"] = {**pods["metadata"]["labels"], code.lines(entries % "podLabels"): None}
    pods["metadata"] |= code.block("annotations", ".Values.podAnnotations")
    pod = pods["spec"]
    for name in ("affinity", "tolerations"):
        del pod[name]
    for name in ("nodeSelector", "affinity", "tolerations"):
        pod |= code.block(name, f".Values.{name}")
    priority = "{{- with .Values.priorityClassName }}\npriorityClassName: {{ . | quote }}\n{{- end }}"
    pod |= {code.lines(priority): None}
    (container,) = pod["containers"]
    container["args"] = _arguments(container["args"], code)
    container["env"].append(code.lines(entries % "extraEnv"))
    container["resources"] = code.whole(".Values.resources")
    metrics = next(port for port in container["ports"] if port["name"] == "metrics")
    container["ports"] = _with_metrics(container["ports"], metrics, code)
    condition = "{{- if .Values.metrics.certificateSecretName }}"
    certificate = f"- name: metrics-certificate\n  mountPath: {_CERTIFICATE}\n  readOnly: true"
    container["volumeMounts"].append(code.lines(f"{condition}\n{certificate}\n{{{{- end }}}}"))
    source = "secret:\n    secretName: {{ .Values.metrics.certificateSecretName | quote }}"
    pod["volumes"].append(code.lines(f"{condition}\n- name: metrics-certificate\n  {source}\n{{{{- end }}}}"))


def _arguments(arguments: Sequence[str], code: Code) -> list[str]:
    metrics = f"--metrics-port={METRICS_PORT}"
    by_argument = {
        "--log-format=json": "--log-format={{ .Values.logging.format }}",
        metrics: code.lines(
            f"{{{{- if .Values.metrics.enabled }}}}\n- {metrics}\n{{{{- else }}}}\n- --metrics-port=0\n{{{{- end }}}}"
        ),
    }
    if lacking := by_argument.keys() - set(arguments):
        raise ValueError(f"the Deployment lacks {lacking}, for which the chart has a value")
    optional = (
        ('if eq .Values.logging.level "debug"', "--log-level=debug"),
        ("if .Values.metrics.certificateSecretName", f"--metrics-certificate={_CERTIFICATE}"),
        ("range .Values.watchNamespaces", "--namespace={{ . }}"),
        ("range .Values.extraArgs", "{{ . | quote }}"),
    )
    return [
        *(by_argument.get(each, each) for each in arguments),
        *(code.lines(f"{{{{- {condition} }}}}\n- {each}\n{{{{- end }}}}") for condition, each in optional),
    ]
