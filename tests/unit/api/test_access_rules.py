"""Access rules of application credentials: what each API has to know for them, and the paths that they may name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from configparser import RawConfigParser
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from openstack_operator.api import AccessRule
from openstack_operator.plan import Context, Release
from openstack_operator.registry import RESOURCES, SERVICES
from openstack_operator.testing import context
from openstack_operator.yaml_text import load
from tests.planning import objects

SERVICES_FOLDER = Path(__file__).parents[3] / "src/openstack_operator/services"
TYPES = {
    "barbican": {"key-manager"},
    "cinder": {"volumev3"},
    "designate": {"dns"},
    "glance": {"image"},
    "heat": {"orchestration", "cloudformation"},
    "neutron": {"network"},
    "nova": {"compute"},
    "octavia": {"load-balancer"},
    "placement": {"placement"},
}


def _sections(golden: Path) -> Iterator[Mapping[str, str]]:
    """Yield [keystone_authtoken] of each file of configuration in a golden."""
    for obj in load(golden):
        for text in (obj.get("stringData") or {}).values() if obj and obj["kind"] == "Secret" else ():
            if "\n[keystone_authtoken]\n" in f"\n{text}":
                parser = RawConfigParser(strict=False)
                parser.read_string(text)
                yield parser["keystone_authtoken"]


@pytest.mark.parametrize("service", TYPES)
def test_each_api_knows_its_type_in_the_catalog(service: str) -> None:
    """Without it, the middleware refuses all tokens of credentials with rules; with another one, all of them, too."""
    golden = SERVICES_FOLDER / service / "cases/full.golden.yaml"
    found = [section.get("service_type", "") for section in _sections(golden)]
    assert set(found) == TYPES[service]
    entries = [obj for obj in load(golden) if obj["kind"] == "KeystoneService"]
    assert TYPES[service] <= {entry["spec"]["type"] for entry in entries}


def test_all_services_that_check_tokens_are_tried() -> None:
    checking = {path.parts[-3] for path in SERVICES_FOLDER.glob("*/cases/full.golden.yaml") if any(_sections(path))}
    assert checking == TYPES.keys(), "add the service to TYPES, with its types in the catalog"


def test_the_two_apis_of_heat_have_types_of_their_own() -> None:
    """An action of CloudFormation is in the query, which no rule sees: GET there would allow all of them."""
    golden = SERVICES_FOLDER / "heat/cases/full.golden.yaml"
    secrets = [obj for obj in load(golden) if obj["kind"] == "Secret"]
    files = {obj["metadata"]["name"]: (obj.get("stringData") or {}).get("heat.conf", "") for obj in secrets}
    assert "service_type = orchestration" in files["heat-config"]
    assert "service_type = cloudformation" in files["heat-api-cfn-config"]


RULE = {"service": "compute", "method": "GET", "path": "/v2.1/servers"}


@pytest.mark.parametrize("path", ["/", "/v2.1/servers/{server_id}", "/v3/**", "/v3/users/*/projects", "/v2/a-b_c~%20"])
def test_paths_with_wildcards_are_valid(path: str) -> None:
    assert AccessRule.model_validate({**RULE, "path": path}).path == path


@pytest.mark.parametrize(
    "wrong",
    [
        {"path": "v3/users"},
        {"path": "/v3/users?name=a"},
        {"path": "/v3/(users|projects)"},
        {"path": "/v3/{user id}"},
        {"path": "/v3/{user"},
        {"path": "/" + "a" * 128},
        {"method": "OPTIONS"},
        {"service": "Nova"},
    ],
)
def test_an_ambiguous_access_rule_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        AccessRule.model_validate(RULE | wrong)


KEYSTONE = next(service for service in SERVICES if service.resource.handle == "Keystone")
PUBLISHED = {"MariaDB": {"host": "db", "port": "3306", "adminSecret": "root"}, "Memcached": {"servers": "cache:11211"}}


@pytest.mark.parametrize("korc", [True, False])
def test_the_login_of_k_orc_has_the_rules_of_keystones_spec(release: Release, *, korc: bool) -> None:
    def credential(bootstrap: Mapping[str, Any]) -> dict[str, Any]:
        asked = {"catalog": {"provider": "k-orc"}} if korc else {}
        spec = {**asked, "bootstrap": {**bootstrap, "applicationCredential": not korc}}
        resource = next(each for each in RESOURCES if each.handle == "Keystone")
        ctx: Context[Any] = context(resource, spec, release=release, published=PUBLISHED)
        return objects(KEYSTONE.plan(ctx))["KeystoneApplicationCredential", "keystone-app-credential"]["spec"]

    assert "accessRules" not in credential({})
    assert credential({"accessRules": [RULE]})["accessRules"] == [RULE]
