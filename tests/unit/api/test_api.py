"""Models and their schemas: what users may write, and what the API server is told of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any

import pydantic
import pytest

from openstack_operator.api import (
    ComponentSettings,
    Image,
    KeystoneRef,
    MariaDBRef,
    Model,
    PodSettings,
    Quantity,
    Ref,
    Resource,
    SecretKeyRef,
    ServiceSpec,
    Template,
    UsesDatabase,
    UsesIdentity,
    crd,
    optional_ref,
    references,
    refs,
    rule,
    secret_references,
    structural,
)
from openstack_operator.registry import RESOURCES


class Example(ServiceSpec, UsesDatabase, UsesIdentity):
    """A service."""

    rules = (rule("self.replicas > 0", "say something"),)

    api: ComponentSettings = ComponentSettings()
    """The API."""
    secret_ref: SecretKeyRef | None = None
    """A secret."""


class ExampleTemplate(Template, Example):
    """A service within something larger."""


class Whole(Model):
    """Something larger."""

    example: ExampleTemplate = ExampleTemplate()
    """Its service."""


class Sized(Model):
    """Amounts."""

    requests: dict[str, Quantity] = {}
    """Requests."""
    image: Image | None = None
    """Image."""


EXAMPLE = Resource(kind="Example", plural="examples", spec=Example)


def walked(schema: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema inside a schema, with where it stands."""
    yield path, schema
    for name, field in schema.get("properties", {}).items():
        yield from walked(field, f"{path}.{name}")
    for inner in ("items", "additionalProperties"):
        if isinstance(schema.get(inner), dict):
            yield from walked(schema[inner], f"{path}[]")


def test_references_are_found_with_their_path() -> None:
    spec = Example(secret_ref=SecretKeyRef(name="s"))
    assert dict(references(spec)) == {
        "spec.database.mariadbRef": MariaDBRef(name="mariadb"),
        "spec.keystone.keystoneRef": KeystoneRef(name="keystone"),
    }
    assert secret_references(spec) == [("spec.secretRef", SecretKeyRef(name="s"))]


def test_references_of_several_kinds_with_one_name_are_several() -> None:
    several: list[Ref] = [KeystoneRef(name="one"), MariaDBRef(name="one"), optional_ref("Keystone", "one")]
    assert len(dict.fromkeys([*several, KeystoneRef(name="one")])) == len(several)
    assert several[0] == KeystoneRef(name="one") != several[1]
    assert [(ref.kind, ref.optional) for ref in several] == [
        ("Keystone", False),
        ("MariaDB", False),
        ("Keystone", True),
    ]
    assert type(optional_ref("Keystone", "one")) is type(several[2])


def test_references_in_a_template_are_left_to_its_resource() -> None:
    assert references(Whole()) == []


def test_a_template_hands_on_no_defaults() -> None:
    fields = dict(walked(structural(Whole)))
    assert [path for path, schema in fields.items() if "default" in schema] == []
    assert fields[".example.replicas"]["maximum"] == 32
    assert Whole.model_validate({"example": {"replicas": 2}}).example.model_dump(exclude_unset=True) == {"replicas": 2}


def test_a_spec_has_its_defaults_and_its_rules() -> None:
    schema = structural(Example)
    assert schema["properties"]["replicas"]["default"] == 1
    assert schema["properties"]["database"]["default"] == {}
    meant = {path: (ref.kind, ref.name) for path, ref in references(Example.model_validate({}))}
    assert meant == {
        "spec.database.mariadbRef": ("MariaDB", "mariadb"),
        "spec.keystone.keystoneRef": ("Keystone", "keystone"),
    }
    assert {"rule": "self.replicas > 0", "message": "say something"} in schema["x-kubernetes-validations"]


def test_a_whole_number_is_a_quantity() -> None:
    assert Sized.model_validate({"requests": {"cpu": 2, "memory": "1Gi"}}).requests == {"cpu": "2", "memory": "1Gi"}
    quantity = structural(Sized)["properties"]["requests"]["additionalProperties"]
    assert quantity["x-kubernetes-int-or-string"] is True
    assert "type" not in quantity
    assert quantity["pattern"]


@pytest.mark.parametrize("amount", ["", "-1", "ten", "1 Gi", True, "1GiB"])
def test_an_invalid_quantity_is_refused(amount: object) -> None:
    with pytest.raises(pydantic.ValidationError):
        Sized.model_validate({"requests": {"cpu": amount}})


@pytest.mark.parametrize(
    "image",
    [
        "nova",
        "localhost/openstack-operator/nova:0123abcd",
        "registry.example.org:5000/a/b_c:1.0-x",
        "quay.io/openstack.kolla/nova-api@sha256:" + "0" * 64,
    ],
)
def test_images_are_accepted(image: str) -> None:
    assert Sized(image=image).image == image


@pytest.mark.parametrize("image", ["", "Nova", "nova:", "nova image", "nova@sha256:12", "nova:v1@sha512:" + "0" * 64])
def test_an_invalid_image_is_refused(image: str) -> None:
    with pytest.raises(pydantic.ValidationError):
        Sized(image=image)


def test_equal_specs_are_equal_keys() -> None:
    assert hash(Example()) == hash(Example(replicas=1))
    assert hash(Example()) != hash(Example(replicas=2))


def test_a_field_description_comes_from_its_last_declaration() -> None:
    class Base(Model):
        first: int = 1
        """Of the
        base."""
        second: int = 2
        """Of the base."""
        third: Annotated[int, pydantic.Field(description="Of the type.")] = 3
        """Not used."""

    class Derived(Base):
        second: int = 3
        fourth: SecretKeyRef | None = None
        """Of the derived class."""

        def size(self) -> int:
            """No field's."""
            return self.second

    described = {name: field.get("description") for name, field in structural(Derived)["properties"].items()}
    assert described == {
        "first": "Of the base.",
        "second": None,
        "third": "Of the type.",
        "fourth": "Of the derived class.",
    }


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.kind)
def test_every_field_is_documented(resource: Resource[Any]) -> None:
    fields = walked(structural(resource.spec))
    # The entries of lists and maps are described by the field that holds them.
    silent = [path for path, schema in fields if not path.endswith("[]") and not schema.get("description")]
    limited = {f".{kind}.{amount}" for kind in ("requests", "limits") for amount in ("cpu", "memory")}
    assert [path for path in silent if not path.endswith(tuple(limited))] == []


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.kind)
def test_every_definition_is_structural(resource: Resource[Any]) -> None:
    definition = crd(resource)
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for path, node in walked(schema):
        assert not {"$ref", "$defs", "title", "const", "oneOf", "allOf", "propertyNames"} & set(node), path
        if "x-kubernetes-int-or-string" in node:
            assert "type" not in node, path
            continue
        assert node.get("type") or node.get("x-kubernetes-preserve-unknown-fields"), f"{path} has no type"
        assert None not in (node.get("default"), *_values(node.get("default"))) or "default" not in node, path
        assert not ("properties" in node and "additionalProperties" in node), path
        assert set(node.get("x-kubernetes-list-map-keys", ())) <= set(node.get("items", {}).get("properties", ())), path


def _values(default: Any) -> list[Any]:
    return list(default.values()) if isinstance(default, dict) else []


def test_the_protected_group_says_who_approved_it() -> None:
    assert "api-approved.kubernetes.io" in crd(EXAMPLE)["metadata"]["annotations"]
    other = Resource(kind="Other", plural="others", spec=Example, group="example.org")
    assert "annotations" not in crd(other)["metadata"]


def test_kinds_have_names_of_their_own() -> None:
    full = [resource.crd_name for resource in RESOURCES]
    short = [name for resource in RESOURCES for name in resource.short_names]
    # A plural alone is, of two groups, the one of ours: kubectl takes the group that comes first.
    ours = [resource.plural for resource in RESOURCES if resource.group == "openstack.k8s.io"]
    for names in (full, ours + short):
        assert len(names) == len(set(names))


def test_an_image_is_text_or_an_object_as_the_kind_has_it() -> None:
    digest = f"sha256:{'a' * 64}"
    for image, text in (
        ("ghcr.io/c5c3/keystone:28.0.0", "ghcr.io/c5c3/keystone:28.0.0"),
        ({"repository": "ghcr.io/c5c3/keystone", "tag": "28.0.0"}, "ghcr.io/c5c3/keystone:28.0.0"),
        ({"repository": "keystone", "digest": digest}, f"keystone@{digest}"),
        ({"repository": "keystone", "tag": "a", "digest": digest}, f"keystone:a@{digest}"),
    ):
        assert PodSettings.model_validate({"image": image}).model_dump()["image"] == text
    with pytest.raises(ValueError, match="an image needs a repository"):
        PodSettings.model_validate({"image": {"tag": "a"}})
    with pytest.raises(ValueError, match="should match pattern"):
        PodSettings.model_validate({"image": {"repository": "Key stone", "tag": "a"}})

    class Pods(PodSettings):
        """Pods with a program."""

        program: PodSettings = PodSettings()
        """A program."""

    assert structural(Pods)["properties"]["image"]["type"] == "string"
    fields = structural(Pods, as_c5c3=True)["properties"]
    for image in (fields["image"], fields["program"]["properties"]["image"]):
        assert (image["type"], image["required"]) == ("object", ["repository"])
        assert image["properties"].keys() == {"repository", "tag", "digest"}
        assert image["description"] == "Image to run instead of the release's. A change replaces the pods."
    assert "x-as-object" not in json.dumps([structural(Pods), structural(Pods, as_c5c3=True)])


def test_free_form_fields_are_not_searched_for_references(monkeypatch: pytest.MonkeyPatch) -> None:
    walked = 0
    original = refs.find_by_type

    def counted(*arguments: Any) -> Iterator[tuple[str, Any]]:
        nonlocal walked
        walked += 1
        return original(*arguments)

    monkeypatch.setattr(refs, "find_by_type", counted)
    rabbitmq = next(each for each in RESOURCES if each.handle == "RabbitMQ")
    assert refs.references(rabbitmq.spec.model_validate({"config": {"a": [[]] * 10_000}})) == []
    assert 0 < walked < 1_000
