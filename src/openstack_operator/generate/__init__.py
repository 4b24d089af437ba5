"""Files made from the models: definitions, permissions, the operator's own deployment, reference pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..admission.presence import policies
from ..api import Resource, crd, model_schema
from ..cli.command_line import command_line
from ..cli.kind_index import index_of
from ..cli.offline.stored_schemas import content_of, file_of
from ..cli.render import OfflineCluster
from ..kube import Object
from ..plan import SpecError
from ..planned import Planned
from ..registry import ACTUATORS, EXTERNAL_KINDS, RESOURCES, SERVICES
from ..release_files import ReleaseFiles
from ..yaml_text import dump, dump_all, load
from .chart import CHARTS, TEMPLATE_HEADER, chart_files
from .command_reference import command_reference
from .condition_types import condition_types
from .deployment import deployment
from .injector import labels_injector
from .kustomize import kustomization
from .metrics_reference import metrics_reference
from .needs_picture import needs_picture
from .olm_bundle import FOLDER, bundle_files, examples_of
from .permissions import Rules, namespaced_permissions, optional_permissions, permissions, rules
from .reference import contents, is_field_reference, reference
from .roles import user_roles

SAMPLES = Path("deploy/samples")
_SCHEMAS = Path("src/openstack_operator/cli/offline/schemas")
CASES = "src/openstack_operator/services/*/cases/[!.]*.yaml"
_OPTIONAL, _OPTIONAL_OF_NAMESPACE = Path("deploy/optional-roles"), Path("deploy/namespaced/optional-roles")
OWNED = (
    "deploy/crds/*.yaml",
    "deploy/crds-c5c3/*.yaml",
    f"{_OPTIONAL}/*.yaml",
    f"{_OPTIONAL_OF_NAMESPACE}/*.yaml",
    "docs/reference/*.md",
    f"{CHARTS}/*/templates/*",
    f"{FOLDER}/*/*.yaml",
    f"{_SCHEMAS}/*.json",
)
"""Whatever else is found there was made from a model that is gone."""

_SERVED = [kind.handle for kind in EXTERNAL_KINDS]
"""All of them, since permissions cover every kind that a plan may use."""

_HEADER = "# Made by `openstack-operator generate`; change the models instead.\n"


def rendered(root: Path) -> list[Planned]:
    """Return the plans of every sample and every case of a checkout, and of each kind with only a name."""
    releases = ReleaseFiles(root / "releases")
    return [*_of_manifests(root, releases), *_of_names(releases)]


def _of_manifests(root: Path, releases: ReleaseFiles) -> Iterator[Planned]:
    paths = [path for path in sorted(root.glob(CASES)) if not path.name.endswith(".golden.yaml")]
    for objects in (load(root / SAMPLES), *map(load, paths)):
        yield from OfflineCluster(SERVICES, ACTUATORS, releases, served=_SERVED).render(objects)


def _of_names(releases: ReleaseFiles) -> Iterator[Planned]:
    """Yield the plans of resources with only a name, of the kinds for which that is enough."""
    plain = [
        {"apiVersion": service.resource.api_version, "kind": service.resource.kind, "metadata": {"name": "plain"}}
        for service in SERVICES
        if not model_schema(service.resource.spec).get("required")
    ]
    for manifest in plain:
        # A plan may refuse more than the definition does, which has to accept what an earlier version accepted.
        with suppress(SpecError):
            yield from OfflineCluster(SERVICES, ACTUATORS, releases, served=_SERVED).render([manifest])


def _user_manifests(root: Path) -> list[Object]:
    """Return the smallest sample of a cloud, and the smallest case of each service."""
    paths = [root / SAMPLES / "controlplane_minimal.yaml", *sorted(root.glob(CASES.replace("[!.]*", "minimal")))]
    return [obj for path in paths for obj in load(path)]


def _files(plain: Callable[[Resource[Any]], str], full: Callable[[Resource[Any]], str]) -> dict[str, Resource[Any]]:
    """Return names of files for kinds: the full name if a kind of another group has the plain one."""
    by_file_name: dict[str, Resource[Any]] = {}
    for resource in RESOURCES:
        by_file_name[plain(resource) if plain(resource) not in by_file_name else full(resource)] = resource
    return by_file_name


def definition(resource: Resource[Any]) -> Path:
    """Return the file with the definition of a kind; those that are installed only on request have a folder of their
    own.
    """
    return Path("deploy", "crds-c5c3" if resource.on_request else "crds", f"{resource.plural}.yaml")


def generated(root: Path) -> dict[Path, str]:
    """Return the content of every generated file, by its path in a checkout."""
    files = {definition(resource): _HEADER + dump(crd(resource)) for resource in RESOURCES}
    ours = [definition(resource) for resource in RESOURCES if not resource.on_request]
    planned = rendered(root)
    granted = rules(planned)
    rights = _rights(granted)
    files |= rights
    optional = [path for path in rights if path.parent == _OPTIONAL]
    files[Path("deploy/kustomization.yaml")] = _HEADER + dump(kustomization(ours, optional))
    files[Path("deploy/roles.yaml")] = _HEADER + dump_all(user_roles())
    files[Path("deploy/admission.yaml")] = _HEADER + dump_all(policies())
    files[Path("deploy/operator.yaml")] = _HEADER + dump_all(deployment())
    files[Path("deploy/labels-injector.yaml")] = _HEADER + dump_all(labels_injector())
    files |= chart_files(granted)
    files |= bundle_files(granted, examples_of(_user_manifests(root), planned))
    firsts = {resource.spec: resource for resource in reversed(RESOURCES)}
    pages = _files(lambda each: f"{each.kind.lower()}.md", lambda each: f"{each.handle.lower()}.md")
    for name, resource in pages.items():
        files[Path("docs/reference") / name] = reference(resource, firsts)
    files[Path("docs/reference/README.md")] = contents(pages)
    files[Path("docs/reference/command-line.md")] = command_reference(command_line({}))
    files[Path("docs/reference/metrics.md")] = metrics_reference()
    minimal = root / SAMPLES / "controlplane_minimal.yaml"
    files[Path("docs/explanation/needs.svg")] = needs_picture(minimal, root / "releases")
    files[Path("src/openstack_operator/cli/kinds.json")] = index_of(RESOURCES, [each.resource for each in ACTUATORS])
    files[Path("src/openstack_operator/plan/conditions_by_kind.py")] = condition_types(planned)
    files |= {_SCHEMAS / file_of(resource).name: content_of(resource) for resource in RESOURCES}
    return files


def _rights(granted: Mapping[str, Rules]) -> dict[Path, str]:
    """Return the manifests of the operator's permissions."""
    once, in_each = namespaced_permissions(granted)
    manifests = {
        Path("deploy/rbac.yaml"): permissions(granted),
        Path("deploy/namespaced/rbac.yaml"): once,
        Path("deploy/namespaced/rbac-of-namespace.yaml"): in_each,
    }
    for folder, scope in ((_OPTIONAL, "Cluster"), (_OPTIONAL_OF_NAMESPACE, "")):
        roles = optional_permissions(granted, scope)
        manifests |= {folder / f"{name}.yaml": objects for name, objects in roles.items()}
    return {path: _HEADER + dump_all(objects) for path, objects in manifests.items()}


def stale(root: Path, files: Mapping[Path, str]) -> list[Path]:
    """Return the files that differ from what the models say, or that no model makes anymore."""
    wrong = [path for path, text in files.items() if not (root / path).is_file() or (root / path).read_text() != text]
    return sorted({*wrong, *_orphans(root, files)})


def write(root: Path, files: Mapping[Path, str]) -> list[Path]:
    """Bring a checkout up to date, and return what changed."""
    changed = stale(root, files)
    for path in changed:
        target = root / path
        if path in files:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(files[path], encoding="utf-8")
        else:
            target.unlink()
    return changed


def _orphans(root: Path, files: Mapping[Path, str]) -> set[Path]:
    existing_paths = {path for pattern in OWNED for path in root.glob(pattern)}
    return {path.relative_to(root) for path in existing_paths if _is_generated(path)} - set(files)


def _is_generated(path: Path) -> bool:
    """Return whether a file was made of the models. Some pages and templates beside these are written by hand."""
    if path.suffix == ".md":
        return is_field_reference(path.read_text("utf-8"))
    return path.parent.name != "templates" or path.read_text("utf-8").startswith(TEMPLATE_HEADER)
