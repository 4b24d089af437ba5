"""Images and data of the releases that are made of packages of the index, beside those of the default release."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from images import catalog, locks, patches
from images.__main__ import main
from images.build import missing

RELEASES = locks.releases()
RECIPES = sorted(path.parent.name for path in catalog.RECIPES.glob("*/Containerfile"))
APPLY = re.compile(
    r"^RUN /tmp/patches/apply /usr/local (&& /tmp/patches-of-debian/apply )?&& rm -rf /tmp/patches\S* /root/[.]cache$",
    re.MULTILINE,
)

pytestmark = pytest.mark.parametrize("release", RELEASES)


def components(release: str) -> dict[str, dict[str, Any]]:
    content = yaml.load((catalog.ROOT / "releases" / f"{release}.yaml").read_bytes(), yaml.CSafeLoader)
    assert content["release"] == release
    return content["profiles"]["debian"]["components"]


def test_a_release_differs_from_the_default_one_in_images_and_commands_alone(release: str) -> None:
    default, these = components(catalog.RELEASE), components(release)
    assert list(these) == list(default)
    for name, component in these.items():
        allowed = {"image", "commands", "env", "version"}
        assert {k: v for k, v in component.items() if k not in allowed} == {
            k: v for k, v in default[name].items() if k not in allowed
        }, name
        assert list(component["commands"]) == list(default[name]["commands"]), name
        # A pod of another release has another image, and one of the same image keeps its label.
        own = component["image"] != default[name]["image"]
        assert own == component["image"].endswith(f"-{release}:build"), name
        version = default[name].get("version", catalog.RELEASE)
        assert component.get("version", release) in ({version} if not own else {version, release}) or name == "operator"


def test_every_image_of_a_release_is_one_that_pods_run(release: str) -> None:
    named = set(catalog.of_release(release))
    own = {name for name in catalog.names() if name.endswith(f"-{release}")}
    assert own - named == {f"oslo-{release}"}
    assert named - own == set(catalog.deployed()) - {name.removesuffix(f"-{release}") for name in own}


def test_an_image_of_a_release_stands_on_that_of_the_same_release(release: str) -> None:
    assert catalog.parent(f"oslo-{release}") == "base"
    assert catalog.parent(f"keystone-{release}") == f"oslo-{release}"
    assert catalog.parent(f"compute-{release}") == f"nova-{release}"
    present = {catalog.reference("base")}
    assert missing([f"compute-{release}"], present) == [f"oslo-{release}", f"nova-{release}", f"compute-{release}"]


@pytest.mark.parametrize("recipe", RECIPES)
def test_an_image_has_the_packages_that_its_parents_lack(release: str, recipe: str) -> None:
    name = f"{recipe}-{release}"
    seen: set[str] = set()
    while name != "base":
        lock = catalog.files(name).get("requirements.lock")
        packages = re.findall(r"^([a-z0-9.-]+)==", lock.content.decode(), re.MULTILINE) if lock else []
        assert not seen & set(packages)
        seen |= set(packages)
        name = catalog.parent(name)
    roots = catalog.RECIPES / recipe / "packages"
    assert set(roots.read_text(encoding="utf-8").split()) <= seen
    assert seen == locks.closure(release, seen)


def test_every_package_is_locked_by_hash(release: str) -> None:
    for name, entry in locks.entries(release).items():
        assert re.fullmatch(rf"{re.escape(name)}==\S+( \\\n    --hash=sha256:[0-9a-f]{{64}})+\n", entry.text), name
    required = (catalog.RECIPES / f"{release}.in").read_text(encoding="utf-8")
    names = {name.replace(".", "-") for name in re.findall(r"^([a-z0-9.-]+)", required, re.MULTILINE)}
    assert names <= set(locks.entries(release))


def test_a_patch_is_applied_or_said_to_be_needless(release: str) -> None:
    known = {patch.name: patch for patch in (*patches.patches(), *patches.of_release_alone(release))}
    applied = {patch.name: patch for patch in patches.of_release(release)}
    needless = patches.not_needed(release)
    assert {name.removesuffix(".patch") for name in known.keys() - applied} == needless.keys()
    assert all(needless.values())
    for folder in patches.remade(release):
        assert {str(path.relative_to(folder)) for path in folder.glob("*/*.patch")} <= known.keys()
    for name, patch in applied.items():
        assert patch.images == known[name].images
        for image in set(patch.images) & set(RECIPES):
            files = catalog.files(f"{image}-{release}")
            folder = "patches-of-debian" if name.startswith("cpython/") else "patches"
            assert name in files[f"{folder}/series"].content.decode().splitlines()
            assert files[f"{folder}/{name}"].content == patch.path.read_bytes()


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_applies_the_patches_of_its_image(release: str, recipe: str) -> None:
    text = (catalog.RECIPES / recipe / "Containerfile").read_text(encoding="utf-8")
    assert bool(APPLY.search(text)) == ("patches/series" in catalog.files(f"{recipe}-{release}"))
    assert ("COPY wheels" in text) == ("requirements.lock" in catalog.files(f"{recipe}-{release}"))


def test_commands_name_images_of_a_release(release: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", f"--release={release}"]) == 0
    references = json.loads(capsys.readouterr().out)
    assert references["memcached"] == catalog.reference("memcached")
    assert references[f"nova-{release}"] == catalog.reference(f"nova-{release}")
    assert "nova" not in references
    assert main(["release", release]) == 0
    assert references[f"nova-{release}"] in capsys.readouterr().out


def test_the_operators_image_knows_a_release(release: str) -> None:
    files = catalog.files("operator")
    assert f"openstack_operator/releases/options/{release}.txt" in files
    assert (
        catalog.reference(f"keystone-{release}").encode()
        in files[f"openstack_operator/releases/{release}.yaml"].content
    )
