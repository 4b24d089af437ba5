"""What `render` prints is no secret, and nobody can run a cloud by it."""

from __future__ import annotations

import base64
from pathlib import Path

import msgspec
import pytest

from openstack_operator.cli.main import main
from openstack_operator.cli.render import OfflineCluster
from openstack_operator.plan import PLACEHOLDER, SpecError
from openstack_operator.registry import ACTUATORS, SERVICES
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.runtime.cache.entries import cached
from openstack_operator.runtime.kubernetes.kinds import SECRET, Kind
from openstack_operator.runtime.reconcile.gather import refuse_placeholders
from openstack_operator.yaml_text import load_text

pytestmark = pytest.mark.security

SAMPLE = Path("deploy/samples/controlplane_minimal.yaml")


def rendered(root: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["render", "-f", str(root / SAMPLE)]) == 0
    return capsys.readouterr().out


def test_nothing_that_follows_from_a_known_word_is_printed(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No key, certificate or password: whoever reads the operator's source would have it, too."""
    text = rendered(root, capsys)
    assert "PRIVATE KEY" not in text
    secrets = {obj["metadata"]["name"]: obj["stringData"] for obj in load_text(text) if obj["kind"] == "Secret"}
    assert secrets["internal-authority"]["tls.key"] == PLACEHOLDER
    assert secrets["keystone-fernet-keys"] == {"0": PLACEHOLDER, "1": PLACEHOLDER}
    assert secrets["keystone-admin"]["password"] == PLACEHOLDER
    # What is around a password is shown.
    assert (
        f"connection = mysql+pymysql://placement:{PLACEHOLDER}@mariadb."
        in secrets["placement-config"]["placement.conf"]
    )
    for drawn in ("drawn", "", "openstackOperatorDrawsThis"):
        paper = OfflineCluster(SERVICES, ACTUATORS, ReleaseFiles(root / "releases"), password=drawn)
        for planned in paper.render(load_text((root / SAMPLE).read_text()), "openstack"):
            keys = [
                obj["data"] for obj in planned.objects if obj["kind"] == "Secret" and "fernet" in str(obj["metadata"])
            ]
            assert not [value for data in keys for value in data.values() if base64.b64decode(value).decode() in text]


def test_render_prints_the_same_twice(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert rendered(root, capsys) == rendered(root, capsys)


def secret(**data: str) -> bytes:
    encoded = {name: base64.b64encode(text.encode()).decode() for name, text in data.items()}
    return msgspec.json.encode({"metadata": {"name": "keystone-admin"}, "data": encoded})


def test_placeholders_are_refused_as_values() -> None:
    config_map = Kind("v1", "ConfigMap", "configmaps")
    placeholder, drawn = (
        secret(username="admin", password=PLACEHOLDER),
        secret(username="admin", password="a-drawn-one"),
    )
    refuse_placeholders([(SECRET, cached(drawn, SECRET)), (config_map, cached(placeholder, config_map))])
    with pytest.raises(SpecError, match=r"^Secret/keystone-admin: holds a placeholder"):
        refuse_placeholders([(SECRET, cached(drawn, SECRET)), (SECRET, cached(placeholder, SECRET))])
