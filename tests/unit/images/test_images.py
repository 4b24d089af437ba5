"""The images' catalog: order, tags, and the release file that names them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from images import catalog
from images.archive import on_every_node
from images.build import missing

RELEASE = catalog.ROOT / "releases" / "2025.1.yaml"


def release() -> dict[str, dict[str, dict[str, object]]]:
    profiles = yaml.load(RELEASE.read_bytes(), yaml.CSafeLoader)["profiles"]
    return {name: profile["components"] for name, profile in profiles.items()}


def test_every_image_comes_after_its_parent() -> None:
    order = (catalog.DEBIAN, *catalog.names())
    assert all(order.index(catalog.parent(name)) < order.index(name) for name in catalog.names())


@pytest.mark.parametrize("name", catalog.names())
def test_an_image_has_each_file_that_it_copies(name: str) -> None:
    """Images of other versions have files of the first version as links, and a build of them is rare."""
    context = catalog.files(name)
    lines = context["Containerfile"].content.decode().replace("\\\n", " ").splitlines()
    copies = [line.split()[1:-1] for line in lines if line.startswith("COPY ") and "--from=" not in line]
    sources = {word.rstrip("/") for words in copies for word in words if not word.startswith("--")}
    # What the build puts there besides: wheels of a lock.
    present = {*context, *(str(parent) for path in context for parent in Path(path).parents), "wheels"}
    assert sources <= present


def test_only_what_is_missing_is_built() -> None:
    references = {name: catalog.reference(name) for name in (catalog.DEBIAN, *catalog.names())}
    assert missing(["keystone"], set(references.values())) == []
    assert missing(["keystone"], set()) == ["debian", "base", "oslo", "keystone"]
    assert missing(["keystone", "glance"], {references["oslo"]}) == ["glance", "keystone"]
    assert missing(["compute"], {references["oslo"], references["compute"]}) == []


def test_an_image_is_there_when_no_node_lacks_it() -> None:
    assert on_every_node("") == set()
    assert on_every_node("one a:1 sha256:1\none b:1 sha256:2\ntwo a:1 sha256:1\n") == {"a:1"}


def test_a_tag_follows_content_and_parents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def tags(containerfile: str, *, executable: bool = False) -> dict[str, str]:
        for name, parent in {"base": "debian", "oslo": "base"}.items():
            (tmp_path / name).mkdir(exist_ok=True)
            text = f"ARG PARENT={catalog.PREFIX}/{parent}\nFROM ${{PARENT}}\n"
            (tmp_path / name / "Containerfile").write_text(text, encoding="utf-8")
        (tmp_path / "base" / "dpkg.cfg").write_text(containerfile, encoding="utf-8")
        (tmp_path / "base" / "script").write_text("true\n", encoding="utf-8")
        (tmp_path / "base" / "script").chmod(0o755 if executable else 0o644)
        (tmp_path / "epoch").write_text("2025-11-20\n", encoding="utf-8")
        for cached in (catalog.names, catalog.parent, catalog.files, catalog.tag):
            cached.cache_clear()
        return {name: catalog.tag(name) for name in ("base", "oslo")}

    monkeypatch.setattr(catalog, "FOLDER", tmp_path)
    try:
        first = tags("a")
        assert tags("a") == first
        assert not tags("b").items() & first.items()
        assert not tags("a", executable=True).items() & first.items()
    finally:
        monkeypatch.undo()
        for cached in (catalog.names, catalog.parent, catalog.files, catalog.tag):
            cached.cache_clear()


def test_the_release_file_gets_the_tags() -> None:
    text = catalog.resolved(RELEASE.read_text(encoding="utf-8"))
    assert ":build" not in re.sub(r"#.*", "", text)
    assert f"image: {catalog.reference('keystone')}" in text
    assert "image: quay.io/openstack.kolla/keystone:2025.1-debian-bookworm" in text


def test_the_release_names_every_image_that_pods_run() -> None:
    named = {str(component["image"]).split("/")[-1].split(":")[0] for component in release()["debian"].values()}
    assert named == set(catalog.deployed())


def test_a_component_of_one_profile_is_known_to_the_other() -> None:
    debian, kolla = release()["debian"], release()["kolla"]
    # neutron-server of this release does their work.
    served = {"neutron-rpc-server", "neutron-periodic-workers", "neutron-ovn-maintenance-worker"}
    # What they need of their images was tried with Debian's packages only.
    assert set(debian) - set(kolla) == served | {
        "valkey",
        "valkey-sentinel",
        "mariadb-exporter",
        "memcached-exporter",
        "valkey-exporter",
        "ovn-exporter",
        "libvirt-exporter",
        "etcd",
        "designate-pdns",
        "octavia-health-manager",
        "octavia-housekeeping",
        "octavia-worker",
        "ovn-relay",
        "keystone-federation",
    }
    assert set(kolla) <= set(debian)


def test_accounts_are_those_the_images_make() -> None:
    checks = 0
    users = (catalog.FOLDER / "base" / "users").read_text(encoding="utf-8")
    made = {int(uid) for uid in re.findall(r"^\S+ (\d+) /", users, re.MULTILINE)}
    for path in catalog.FOLDER.glob("*/Containerfile"):
        containerfile = path.read_text(encoding="utf-8")
        made |= {int(uid) for uid in re.findall(r"--uid (\d+)", containerfile)}
    for name, component in release()["debian"].items():
        checks += 1
        assert component["uid"] in made | {0}, f"no image makes the account of {name}"
        assert (component["uid"] == 0) == bool(component.get("privileged")), name
    assert checks


def test_commands_use_known_placeholders() -> None:
    checks = 0
    for components in release().values():
        for name, component in components.items():
            commands = component["commands"]
            checks += 1
            assert isinstance(commands, dict)
            known = {"run", "behind", "shibd", "cluster", "manage", "repair", "ready", "alive", "stop", "prepare"}
            assert set(commands) <= known, name
            words = [word for command in commands.values() for word in command]
            assert all(isinstance(word, str) for word in words), name
            # Doubled braces stand for braces.
            assert set(re.findall(r"(?<!\{)\{(\w*)\}", " ".join(words))) <= {
                "listen",
                "port",
                "processes",
                "threads",
            }, name
    assert checks


def test_the_operators_image_knows_the_options_of_a_release() -> None:
    assert "openstack_operator/releases/options/2025.1.txt" in catalog.files("operator")
