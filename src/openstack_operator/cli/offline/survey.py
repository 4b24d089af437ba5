"""A survey of manifests: their plans, all mistakes in them, and all that only a cluster can tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from ... import pki
from ...api import Ref, Resource, handle
from ...kube import Object, owner_path, secret_data
from ...parts.run.config_check import remarks
from ...plan import NO_PERMISSIONS, Context, InstalledKinds, Permissions, Plan, Releases, SpecError
from ...planned import Id, NullReader, Planned
from ...registry import ACTUATORS, EXTERNAL_KINDS, RESOURCES, SERVICES
from ..render import CLOCK, OfflineCluster
from .documents import Document
from .findings import Finding, in_order
from .manifest import Checker
from .placeholders import OTHER_PASSWORD, PASSWORD, counterparts_of, masked
from .schema import RuleCheck, are_related
from .substitute_certificates import Issuers

_INTERNAL = "this is a defect of the operator; please report it with this manifest"


@dataclass(frozen=True)
class Survey:
    """Everything there is to say about some manifests."""

    findings: tuple[Finding, ...]
    resources: int
    """Resources of ours in the documents."""
    foreign: int
    """Documents of kinds that are not ours."""
    planned: tuple[Planned, ...]
    unplanned: int
    """Resources that cannot be planned without a cluster."""
    render: Callable[[], list[tuple[Id, list[Object]]]] = field(repr=False, compare=False)

    @property
    def errors(self) -> list[Finding]:
        """Findings for which something would be refused."""
        return [each for each in self.findings if not each.warning]

    @property
    def warnings(self) -> list[Finding]:
        """Findings that only a cluster makes certain, and remarks of the operator on fields that it does not refuse."""
        return [each for each in self.findings if each.warning]

    @property
    def objects(self) -> list[tuple[Id, list[Object]]]:
        """Objects that each resource becomes; stand-ins are replaced by words that say what they are, and what follows
        from what is drawn by a placeholder. Equal manifests give equal objects at any time.
        """
        return self.render()


def survey(
    documents: Iterable[Document],
    releases: Releases,
    *,
    namespace: str,
    served: Iterable[str] = (),
    domain: str = "cluster.local",
    permissions: Permissions = NO_PERMISSIONS,
    rules: RuleCheck | None = None,
    now: datetime | None = None,
) -> Survey:
    """Check the documents against the CRDs and plans what they hold; `served` are handles of kinds of other operators,
    and `permissions` those that the user states. Certificates are judged at the time `now`, by default the present.
    """
    reader = _Reader(Checker(RESOURCES, rules), namespace, frozenset(served), RESOURCES)
    accepted = reader.accept(documents)
    kinds = AskedKinds(served)
    options: Mapping[str, Any] = {"domain": domain, "permissions": permissions}
    cluster = OfflineCluster(SERVICES, ACTUATORS, releases, password=PASSWORD, served=kinds, reader=reader, **options)
    cluster.now = now or datetime.now(UTC)
    reader.cluster = cluster
    planned = tuple(cluster.render(accepted, namespace))
    reader.conclude(planned, kinds)

    def plan_with(password: str, issuers: Issuers) -> tuple[Planned, ...]:
        quiet = _QuietReader(issuers)
        cluster = OfflineCluster(
            SERVICES, ACTUATORS, releases, password=password, served=served, reader=quiet, **options
        )
        cluster.now = _rendering_time(accepted)
        return tuple(cluster.render(accepted, namespace))

    def render() -> list[tuple[Id, list[Object]]]:
        issuers = Issuers()
        resources = plan_with(PASSWORD, issuers)
        counterparts = counterparts_of(plan_with(OTHER_PASSWORD, Issuers()))
        return [
            (each.id, [issuers.marked(masked(each.id, obj, counterparts)) for obj in each.objects])
            for each in resources
            if each.objects
        ]

    return Survey(
        findings=tuple(in_order(reader.findings)),
        resources=len(reader.documents),
        foreign=reader.foreign,
        planned=planned,
        unplanned=len(reader.waiting),
        render=render,
    )


def _rendering_time(manifests: Iterable[Object]) -> datetime:
    """Return a time at which all certificates in Secrets of the manifests are valid that are valid now. It follows from
    the manifests alone.
    """
    secrets = [each for each in manifests if each["kind"] == "Secret"]
    texts = (text for each in secrets for text in (secret_data(each) | (each.get("stringData") or {})).values())
    return max([CLOCK, *(begin for text in texts if "-----BEGIN" in text for begin in pki.begins(text))])


class _QuietReader(NullReader):
    """Reader of a plan to print, of which another reader reported everything."""

    def __init__(self, issuers: Issuers) -> None:
        self._issuers = issuers

    def assume(self, id_: Id, context: Context[Any], plan: Plan) -> Mapping[tuple[str, str], Object]:
        return self._issuers.answers(context, plan)

    def authority(self, secret: str, key: str, now: datetime) -> str:
        return self._issuers.authority(secret, key, now)


class AskedKinds(InstalledKinds):
    """The kinds a cluster serves; it keeps a list of the others that plans need."""

    def __init__(self, handles: Iterable[str] = ()) -> None:
        super().__init__(handles)
        self.missed = set[str]()

    def missing(self, *handles: str) -> frozenset[str]:
        """Return those of the kinds that the cluster does not serve."""
        lacking = super().missing(*handles)
        self.missed |= lacking
        return lacking


class _Reader:
    """Takes down what a plan of files needs, in terms of these files."""

    def __init__(
        self, checker: Checker, namespace: str, served: frozenset[str], resources: Iterable[Resource[Any]]
    ) -> None:
        self._checker = checker
        self._namespace = namespace
        self._served = served
        self._kinds = {resource.handle: resource.kind for resource in resources}
        self.cluster: OfflineCluster | None = None
        self.findings: list[Finding] = []
        self.documents: dict[Id, Document] = {}
        self.foreign = 0
        self.issuers = Issuers()
        self.waiting: set[Id] = set()
        self._refused: list[Id] = []
        self._wrong = set[tuple[Document, str]]()
        """Fields the API server would refuse: what a plan says of them says nothing new."""
        self._left_out: dict[Document, tuple[str, ...]] = {}
        """Fields that plans go without: what one says of them, and of what is around them, may be wrong; the rest may
        follow from it."""
        self._missing_objects: dict[tuple[Id, str], str] = {}
        self._lacks_secret = set[Id]()
        """Resources that are not planned, since an absent Secret has no stand-in."""

    def accept(self, documents: Iterable[Document]) -> list[Object]:
        """Return the objects that the API server would accept, as it would store them. Report what is wrong with the
        others.
        """
        accepted: dict[tuple[str, str, str], Object] = {}
        places: dict[tuple[str, str, str], Document] = {}
        for document in documents:
            checked = self._checker.check(document.value)
            self.findings += [document.finding(message, path) for path, message in checked.problems]
            self._wrong |= {(document, path) for path, _ in checked.problems}
            self._left_out[document] = checked.left_out
            self.foreign += not checked.problems and checked.resource is None
            if checked.resource:
                metadata: Any = document.value["metadata"]
                name = metadata.get("name") or ""
                self.documents[Id(checked.resource.handle, metadata.get("namespace") or self._namespace, name)] = (
                    document
                )
            if checked.stored is None:
                continue
            metadata = checked.stored["metadata"]
            group = handle(checked.stored["apiVersion"], checked.stored["kind"])
            key = group, metadata.get("namespace") or self._namespace, metadata["name"]
            if earlier := places.get(key):
                where = f"{earlier.file}:{earlier.line()}"
                text = f"is in the files twice, first at {where}; the last one is used"
                self.findings.append(document.finding(text, "metadata.name", warning=True))
            places[key] = document
            if checked.resource:
                self.documents[Id(*key)] = document
            accepted[key] = {**checked.stored, "metadata": {**metadata, "namespace": key[1]}}
        return list(accepted.values())

    def refused(self, id_: Id, problems: Sequence[tuple[str, str]]) -> None:
        """Report an error for each problem."""
        self._refused.append(id_)
        for path, message in problems:
            self._tell(id_, path, message)

    def broken(self, id_: Id, error: Exception) -> None:
        """Report an internal error: which resource it concerns, but not its text, which may hold a secret. Report
        nothing if the input is wrong.
        """
        if (root := self._root(id_)) and any(document is root for document, _ in self._wrong):
            return
        trace, places = error.__traceback__, ""
        while trace is not None:
            code = trace.tb_frame.f_code
            places, trace = f"{code.co_filename.rpartition('openstack_operator/')[2]}:{trace.tb_lineno}", trace.tb_next
        self._tell(id_, "", f"cannot be planned: {type(error).__name__} at {places}; {_INTERNAL}")

    def unplanned(self, id_: Id, refs: Sequence[tuple[str, Ref]]) -> None:
        """Report a warning that names what the resource waits for."""
        self.waiting.add(id_)
        for path, ref in refs:
            why = f"{id_} cannot be planned offline: it needs the values that {ref.kind}/{ref.name} publishes"
            self._tell(id_, path, why, warning=True)

    def lacks_secret(self, id_: Id) -> None:
        """Record that a resource cannot be planned: an absent Secret, which is reported, has no stand-in."""
        self.waiting.add(id_)
        self._lacks_secret.add(id_)

    def authority(self, secret: str, key: str, now: datetime) -> str:
        """Return a certificate. Words replace it in what is printed."""
        return self.issuers.authority(secret, key, now)

    def forbidden(self, id_: Id, path: str, message: str) -> None:
        """Add a warning: an administrator may allow it."""
        self._tell(id_, path, message, warning=True)

    def missing_object(self, id_: Id, path: str, reference: str) -> None:
        """Record an absent object, to report it once all is planned: it may yet be made."""
        self._missing_objects[id_, path] = reference

    def check(self, id_: Id, manifest: Object) -> Sequence[tuple[str, str]]:
        """Return path and message of each mistake that the API server would refuse."""
        return self._checker.check(manifest).problems

    def assume(self, id_: Id, context: Context[Any], plan: Plan) -> Mapping[tuple[str, str], Object]:
        """Return the objects that an issuer in the cluster would make, and warn that they are assumed."""
        added = self.issuers.answers(context, plan)
        for issuer in dict.fromkeys(self.issuers.issuer_of(obj) for obj in plan.objects if added):
            if issuer and id_.kind == "PKI":
                text = f"{issuer} is in the cluster; its certificates are assumed, and shown as <…>"
                self._tell(id_, "spec.issuerRef", text, warning=True)
        return added

    def conclude(self, planned: Sequence[Planned], kinds: AskedKinds) -> None:
        """Warn of what is in no file, of options that have no effect or will be removed, and of kinds a cluster has to
        serve.
        """
        assert self.cluster
        for (id_, path), reference in self._missing_objects.items():
            kind, _, name = reference.partition("/")
            is_planned = (
                self.cluster.has_secret(id_.namespace, name)
                if kind == "Secret"
                else self.cluster.has_resource(kind, id_.namespace, name)
            )
            if not is_planned and not self._is_promised(planned, id_.namespace, reference):
                text = "its values are shown as <…>" if kind == "Secret" else "planned as one with defaults"
                if kind == "Secret" and id_ in self._lacks_secret:
                    text = f"{self._name(id_)} cannot be planned without it"
                self._tell(id_, path, f"{reference} is missing in the files; {text}", warning=True)
        for each in planned:
            remarks_of_plan = each.plan.outcome.remarks if each.plan else {}
            for path, text in (pair for advice in remarks_of_plan.values() for pair in advice.items()):
                self._tell(each.id, path, text, warning=True)
        for id_, context in self._judged(planned):
            for remark in remarks(context):
                # What a program does not take is an error, which the plan raised.
                if remark.kind != "wrong":
                    self._tell(id_, remark.path, remark.text, warning=True)
        self._tell_kinds(planned, kinds)

    def _judged(self, planned: Sequence[Planned]) -> Iterator[tuple[Id, Context[Any]]]:
        """Yield the resources whose options can be judged: also those that are refused for something in them."""
        assert self.cluster
        yield from ((each.id, each.context) for each in planned if each.plan)
        for id_ in dict.fromkeys(self._refused):
            try:
                yield id_, self.cluster.context_of(id_)
            except SpecError:
                continue

    def _is_promised(self, planned: Sequence[Planned], namespace: str, reference: str) -> bool:
        """Return True if a plan publishes the Secret, though another program writes it."""
        name = reference.partition("/")[2]
        return any(
            name in each.plan.outcome.published.values()
            for each in planned
            if each.plan and each.id.namespace == namespace
        )

    def _tell_kinds(self, planned: Sequence[Planned], kinds: AskedKinds) -> None:
        needed = Counter[tuple[Document, str]]()
        for each in planned:
            root = self._root(each.id)
            handles = {handle(obj["apiVersion"], obj["kind"]) for obj in each.objects} & _FOREIGN.keys()
            needed.update((root, _FOREIGN[name]) for name in handles - self._served if root)
        for root in dict.fromkeys(root for root, _ in needed):
            names = ", ".join(sorted(name for document, name in needed if document is root))
            self.findings.append(root.finding(f"the cluster must serve {names}", warning=True))
        if (missed := sorted(kinds.missed)) and "none" not in self._served:
            text = f"planned for a cluster that serves no {', '.join(missed)}; use --serves KIND, or --serves none"
            self.findings += [document.finding(text, warning=True) for document in list(self.documents.values())[:1]]

    def _root(self, id_: Id) -> Document | None:
        assert self.cluster
        while id_ not in self.documents and id_ in self.cluster.made_from:
            id_ = self.cluster.made_from[id_][0]
        return self.documents.get(id_)

    def _tell(self, id_: Id, path: str, message: str, *, warning: bool = False) -> None:
        """Add a finding at the place in the files that causes it."""
        assert self.cluster
        parents = self.cluster.made_from
        while id_ not in self.documents and id_ in parents:
            parent, child = parents[id_]
            owner = owner_path(child, path)
            if owner is None:
                message = f"{self._name(id_)} {path}: {message}" if path else f"{self._name(id_)}: {message}"
            id_, path = parent, owner or ""
        if document := self.documents.get(id_):
            left_out = self._left_out[document]
            if (document, path) in self._wrong or any(are_related(path, field) for field in left_out):
                return
            if left_out and not warning:
                first_field, *rest = left_out
                message = f"{message} (judged without {first_field}{f' and {len(rest)} more' if rest else ''})"
            self.findings.append(document.finding(message, path, warning=warning))
        elif not warning:
            # What is said of one in no file is that it is in none.
            finding = Finding(message=message, resource=self._name(id_), path=path)
            self.findings.append(finding)

    def _name(self, id_: Id) -> str:
        return f"{self._kinds.get(id_.kind, id_.kind)}/{id_.name}"


_FOREIGN = {kind.handle: f"{kind.kind} ({kind.api_version})" for kind in EXTERNAL_KINDS}
