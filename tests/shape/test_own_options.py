"""Options that the operator sets are those of each release, with values that its programs take."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from oslo_config import iniparser

from images import catalog
from openstack_operator import oslo
from openstack_operator.api import Model
from openstack_operator.cli.render import OfflineCluster
from openstack_operator.kube import secret_data
from openstack_operator.plan import Release
from openstack_operator.registry import ACTUATORS, SERVICES
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.yaml_text import load

ROOT = Path(__file__).parent.parent.parent
SERVICE_FOLDER = ROOT / "src" / "openstack_operator" / "services"
CASES = sorted(path for path in SERVICE_FOLDER.glob("*/cases/*.yaml") if not path.stem.endswith(".golden"))
NAMING = next(each.resource for each in SERVICES if each.resource.handle == "Placement").spec
"""The spec of a kind that names a release and a profile."""
OTHER_FILES = {"apache2.conf", "ceph.conf", "lvm.conf", "named.conf", "pdns.conf", "swift-swift.conf"}
"""Files that other programs than OpenStack's read, or that only one of its drivers reads."""
DRIVERS = {
    "Barbican": {"secretstore:simple_crypto", "secretstore:vault"},
    "Cinder": {"array", "ceph", "ceph-rbd", "files", "local", "lvm"},
    "Glance": {"archive", "os_glance_staging_store", "os_glance_tasks_store", "rbd", "swift"},
}
"""Sections with names of users, of backends and stores, or of a program that makes up the name."""
UNLISTED = {
    # Registered by oslo.privsep for each context of a program, under the name that the program gives it.
    ("Cinder", "cinder_sys_admin"): {""},
    ("Cinder", "privsep_osbrick"): {""},
    # Cinder lists some options of this login alone, and reads all of them.
    ("Cinder", "service_user"): {"auth_type", "region_name"},
    # Registered for each task that designate-producer runs, under its name.
    ("Designate", "producer_task:increment_serial"): {""},
    # Read as a login of keystoneauth by a middleware of Heat, which lists none.
    ("Heat", "ec2authtoken"): {
        *("auth_type", "auth_url", "cafile", "endpoint_override", "password", "project_domain_name", "project_name"),
        *("region_name", "user_domain_name", "username"),
    },
    # Read by the plug-ins of federation, each under the name of a protocol.
    ("Keystone", "openid"): {""},
    ("Keystone", "saml2"): {""},
    # Octavia lists its own options of this section, and reads those of a login of keystoneauth besides.
    ("Octavia", "neutron"): {
        *("auth_type", "auth_url", "cafile", "password", "project_domain_name", "project_name", "region_name"),
        *("user_domain_name", "username", "valid_interfaces"),
    },
}
"""Options that programs read and do not list, by kind and section; an empty name is the section as a whole."""
LISTED_LATER = {("Heat", "ec2authtoken"), ("Octavia", "neutron")}
"""Sections of them that releases after the default one list."""
ALL = ("2025.1", "2025.2", "2026.1")
DEPRECATED = {
    # Off by default in both, as long as the option is there.
    ("Barbican", "oslo_policy", "enforce_scope"): ALL,
    ("Octavia", "oslo_policy", "enforce_scope"): ALL,
    # A user's, in a case.
    ("Glance", "DEFAULT", "show_multiple_locations"): ALL,
    # Its default, as long as there is another way.
    ("Heat", "DEFAULT", "convergence_engine"): ALL[1:],
    # Its default; the other way keeps passwords of users.
    ("Heat", "DEFAULT", "deferred_auth_method"): ALL,
    # Heat 2025.1 knows no other names.
    ("Heat", "ec2authtoken", "auth_uri"): ALL[2:],
    ("Heat", "ec2authtoken", "ca_file"): ALL[2:],
    # Releases before know no other names.
    ("Keystone", "cache", "memcache_socket_timeout"): ALL[2:],
    ("Neutron", "ml2", "tenant_network_types"): ALL[2:],
    ("Nova", "cache", "memcache_socket_timeout"): ALL[2:],
    # Off for OVN's datapath in userspace, which cannot do it.
    ("Neutron", "ovn", "ovn_emit_need_to_frag"): ALL[:2],
    # The only one that names a file of certificates.
    ("Nova", "libvirt", "live_migration_uri"): ALL,
}
"""Options that the operator sets although they go in a later release, with the releases that say so."""


pytestmark = pytest.mark.parametrize(
    "release", sorted(path.stem for path in (ROOT / "releases" / "options").glob("*.txt"))
)


class Parser(iniparser.BaseParser):
    """oslo.config's own parser, of which the values are kept as they were read."""

    def __init__(self) -> None:
        self.sections: dict[str, dict[str, list[str]]] = defaultdict(dict)
        self._section = ""

    def new_section(self, section: str) -> None:
        """Remember where the next options are."""
        self._section = section

    def assignment(self, key: str, value: list[str]) -> None:
        """Take in an option; an empty line in a value ends it."""
        self.sections[self._section].setdefault(key, []).append("\n".join(value))


class OneRelease:
    """The release of each resource, whatever it says."""

    def __init__(self, name: str) -> None:
        self._files, self._name = ReleaseFiles(ROOT / "releases"), name

    def __call__(self, spec: Model) -> Release:
        """Return the release in the profile of a spec, if it has that."""
        profile = getattr(spec, "image_profile", "debian") if self._name == catalog.RELEASE else "debian"
        return self._files(NAMING.model_validate({"release": self._name, "imageProfile": profile}))


def files(release: str) -> Iterator[tuple[str, oslo.KnownOptions, dict[str, dict[str, list[str]]]]]:
    """Yield kind, known options and content of each configuration file of each case in a release."""
    for case in CASES:
        for planned in OfflineCluster(SERVICES, ACTUATORS, OneRelease(release)).render(load(case), "openstack"):
            kind = planned.context.kind
            known = planned.context.release.options.get(kind.lower())
            for obj in planned.plan.objects if planned.plan and known else ():
                for name, text in secret_data(obj).items() if obj["kind"] == "Secret" else ():
                    if name.endswith(".conf") and name not in OTHER_FILES:
                        parser = Parser()
                        parser.parse(text.splitlines())
                        yield kind, known or {}, parser.sections


@cache
def findings(release: str) -> frozenset[tuple[str, oslo.Finding]]:
    """Return what is to be said of options in a release, by kind."""
    return frozenset(
        (kind, finding)
        for kind, known, sections in files(release)
        for finding in oslo.examine(known, {s: o for s, o in sections.items() if s not in DRIVERS.get(kind, ())})
    )


@pytest.mark.seconds
def test_programs_take_each_value_that_the_operator_sets(release: str) -> None:
    assert [each for each in findings(release) if each[1].kind in {"invalid", "unresolved"}] == []


@pytest.mark.seconds
def test_programs_know_each_option_that_the_operator_sets(release: str) -> None:
    unknown: dict[tuple[str, str], set[str]] = defaultdict(set)
    for kind, finding in findings(release):
        if finding.kind == "unknown":
            unknown[kind, finding.section].add(finding.option)
    later = LISTED_LATER if release != catalog.RELEASE else set[tuple[str, str]]()
    assert dict(unknown) == {place: options for place, options in UNLISTED.items() if place not in later}


@pytest.mark.seconds
def test_options_that_go_are_set_for_a_reason(release: str) -> None:
    going = {(kind, found.section, found.option) for kind, found in findings(release) if found.kind == "deprecated"}
    assert going == {option for option, releases in DEPRECATED.items() if release in releases}
