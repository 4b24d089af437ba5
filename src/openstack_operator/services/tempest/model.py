"""What users write to have a cloud tested."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from ...api import (
    Column,
    Dependency,
    Destination,
    Image,
    KeystoneRef,
    Model,
    Ref,
    Region,
    Resource,
    Rule,
    RunSpec,
    Schedule,
    SecretRef,
    Sections,
    rule,
    sent,
)

Regex = Annotated[str, Field(min_length=1, max_length=4096)]
CloudName = Annotated[str, Field(min_length=1, max_length=255)]
"""Name of something in the cloud."""
History = Annotated[int, Field(ge=1, le=100)]


class TestedKeystone(Model):
    """The cloud whose services are tested, by its Keystone."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "has(self.authUrl) == has(self.appCredentialRef)",
            "authUrl and appCredentialRef go together; set both, or neither",
            ".authUrl",
        ),
        rule(
            "!has(self.keystoneRef) || !has(self.authUrl)",
            "one cloud is tested; remove keystoneRef, or authUrl and appCredentialRef",
            ".keystoneRef",
        ),
    )

    keystone_ref: KeystoneRef | None = None
    """Keystone of this namespace, in which the tests get an administrator of their own. With no field set it is
    `keystone`."""
    auth_url: Annotated[str, Field(max_length=225, pattern=r"^https?://[^/\s]+\S*$")] | None = None
    """Identity API of any cloud, in place of keystoneRef."""
    app_credential_ref: SecretRef | None = None
    """Secret with an application credential of an administrator there, as `clouds.yaml` or as
    `application_credential_id` and `application_credential_secret`; and `ca.crt`, by which its APIs are checked, where
    the image does not know who vouches for them. Tempest logs in with passwords alone: each run makes an administrator
    with it, and removes him when it ends."""

    interface: Literal["internal", "public"] = "internal"
    """Which endpoints of the catalog are tested."""

    def destinations(self) -> Sequence[Destination]:
        """That cloud."""
        return sent({"appCredentialRef": self.app_credential_ref}, self.auth_url)

    @property
    def ours(self) -> KeystoneRef | None:
        """The Keystone of this namespace, if it is one."""
        return None if self.auth_url else self.keystone_ref or KeystoneRef(name="keystone")

    def implied(self) -> Mapping[str, Ref]:
        """The Keystone there is without a word."""
        return {"keystoneRef": self.ours} if self.ours and not self.keystone_ref else {}


class Tests(Model):
    """Which tests run, and with what of the cloud."""

    services: (
        Annotated[
            list[Literal["compute", "identity", "image", "network", "object-storage", "volume"]],
            Field(min_length=1, max_length=6, json_schema_extra={"x-kubernetes-list-type": "set"}),
        ]
        | None
    ) = None
    """Services that are tested; tests that need others are skipped. Unset is all in Keystone's catalog."""
    concurrency: Annotated[int, Field(ge=1, le=64)] = 2
    """Tests that run at a time."""
    include_regex: Regex | None = None
    """Tests whose names it is found in run, as Python reads it; unset is all."""
    exclude_regex: Regex | None = None
    """Of these, tests whose names it is found in do not run."""
    timeout: Annotated[str, Field(max_length=6, pattern=r"^[1-9][0-9]*[mh]$")] = "4h"
    """When a run is ended, however far it is: minutes or hours."""
    image: CloudName | None = None
    """Image the tests boot servers from; unset is the smallest public one."""
    flavor: CloudName | None = None
    """Flavor of these servers; unset is the smallest one that takes the image. Where there is no flavor at all, a run
    makes two, and removes them when it ends."""
    network: CloudName | None = None
    """Network that floating addresses come from; unset is the first external one."""

    @property
    def seconds(self) -> int:
        """`timeout` as a number."""
        return int(self.timeout[:-1]) * (3600 if self.timeout.endswith("h") else 60)


class TempestSpec(RunSpec):
    """Tempest, OpenStack's integration tests: runs on a schedule and on demand, with their results in the status."""

    image: Image | None = None
    """Image to run instead of the release's: Tempest and what plugins one needs, and Python."""
    keystone: TestedKeystone = TestedKeystone()
    """The cloud whose services are tested."""
    region: Region = "RegionOne"
    """The OpenStack region that is tested."""
    schedule: Schedule | None = None
    """When tests run, as a cron expression in UTC; unset runs them only when the annotation
    `tempest.openstack.c5c3.io/run-now` of this resource changes. A run that has not ended is waited for."""
    suspend: bool = False
    """Whether the schedule rests; what runs already goes on."""
    tests: Tests = Tests()
    """Which tests run."""
    config: Sections = {}
    """Extra options of tempest.conf, merged over the operator's and over what a run finds in the cloud: section,
    option, value. An option the operator wires itself (addresses, passwords) is refused."""
    depends_on: Annotated[list[Dependency], Field(max_length=32)] = []
    """What has to be there before there is a first run. Later runs do not ask: it is for them to find out."""
    successful_jobs_history_limit: History = 3
    """Runs on schedule whose pods and logs are kept, of those that tested, whether tests failed or not."""
    failed_jobs_history_limit: History = 1
    """The same of those that could not test."""


class Results(Model):
    """What came of the tests of a run."""

    passed_tests: int = 0
    """Tests that passed."""
    failed_tests: int = 0
    """Tests that failed, or did not end."""
    skipped_tests: int = 0
    """Tests that were skipped, since the cloud lacks what they need; of a whole class that is one."""
    total_tests: int = 0
    """All of them."""


class TempestStatus(Model):
    """What a Tempest tells besides its conditions."""

    last_run: Annotated[str, Field(max_length=32)] | None = None
    """When the last run that has ended began (RFC 3339)."""
    last_duration: Annotated[str, Field(max_length=32)] | None = None
    """How long it took: 45m12s."""
    results: Results | None = None
    """What came of its tests."""


TEMPEST = Resource(
    kind="Tempest",
    plural="tempests",
    group="tempest.openstack.c5c3.io",
    as_c5c3=True,
    spec=TempestSpec,
    status=TempestStatus,
    columns=(
        Column("Last Run", ".status.lastRun", "date"),
        Column("Passed", ".status.results.passedTests", "integer"),
        Column("Failed", ".status.results.failedTests", "integer"),
        Column("Skipped", ".status.results.skippedTests", "integer", priority=1),
    ),
)
