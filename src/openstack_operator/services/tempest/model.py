"""Spec of a Tempest."""

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from ...api import (
    Column,
    Dependency,
    Destination,
    Image,
    KeystoneRef,
    KeystoneSecretRef,
    Model,
    Ref,
    Region,
    Resource,
    Rule,
    RunSpec,
    Schedule,
    Sections,
    rule,
    sent,
)

Regex = Annotated[str, Field(min_length=1, max_length=4096)]
CloudName = Annotated[str, Field(min_length=1, max_length=255)]
"""Name of something in the cloud."""
TestedService = Literal[
    "compute",
    "dns",
    "identity",
    "image",
    "key-manager",
    "load-balancer",
    "network",
    "object-storage",
    "orchestration",
    "volume",
]
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
            "keystoneRef excludes authUrl and appCredentialRef; remove one of the two",
            ".keystoneRef",
        ),
    )

    keystone_ref: KeystoneRef | None = None
    """Keystone of this namespace, in which the operator creates an administrator for the tests. `keystone` if you set
    no field."""
    auth_url: Annotated[str, Field(max_length=225, pattern=r"^https?://[^/\s]+\S*$")] | None = None
    """URL of the Identity API of any cloud, in place of keystoneRef."""
    app_credential_ref: KeystoneSecretRef | None = None
    """Secret with an application credential of an administrator there. It has `clouds.yaml`, or
    `application_credential_id` and `application_credential_secret`; and `ca.crt` to verify its APIs, unless the image
    trusts their authority. Tempest logs in with passwords only: each run uses the credential to create an
    administrator, and removes it at the end."""

    interface: Literal["internal", "public"] = "internal"
    """Interface of the catalog's endpoints to test."""

    def destinations(self) -> Sequence[Destination]:
        """Return the Identity API of that cloud."""
        return sent({"appCredentialRef": self.app_credential_ref}, self.auth_url)

    @property
    def local(self) -> KeystoneRef | None:
        """Keystone of this namespace; None for another cloud."""
        return None if self.auth_url else self.keystone_ref or KeystoneRef(name="keystone")

    def default_refs(self) -> Mapping[str, Ref]:
        """Return the Keystone that is the default."""
        return {"keystoneRef": self.local} if self.local and not self.keystone_ref else {}


class Tests(Model):
    """Selection of tests, and what they use of the cloud."""

    services: (
        Annotated[
            list[TestedService],
            Field(min_length=1, max_length=10, json_schema_extra={"x-kubernetes-list-type": "set"}),
        ]
        | None
    ) = None
    """Services to test; Tempest skips tests that need other ones. Unset is all in Keystone's catalog."""
    concurrency: Annotated[int, Field(ge=1, le=64)] = 2
    """Number of tests that run at a time."""
    include_regex: Regex | None = None
    """Regular expression of Python for the names of tests to run, all if unset. A test runs if a part of its name
    matches."""
    exclude_regex: Regex | None = None
    """Regular expression of Python for the names of tests not to run, of those that `includeRegex` selects. A match of
    a part of the name is enough."""
    timeout: Annotated[str, Field(max_length=6, pattern=r"^[1-9][0-9]*[mh]$")] = "4h"
    """Maximum duration of a run, in minutes or hours. A longer run ends at that time."""
    image: CloudName | None = None
    """Image from which the tests boot servers, the smallest public one if unset."""
    flavor: CloudName | None = None
    """Flavor of these servers, the smallest one that takes the image if unset. If the cloud has no flavor, a run
    creates two, and removes them when it ends."""
    network: CloudName | None = None
    """Network of floating addresses, the first external one if unset."""

    @property
    def seconds(self) -> int:
        """`timeout` as a number."""
        return int(self.timeout[:-1]) * (3600 if self.timeout.endswith("h") else 60)


class TempestSpec(RunSpec):
    """Tempest, OpenStack's integration tests: runs on a schedule and on demand, with their results in the status."""

    # It runs jobs alone.
    on_change = ""

    image: Image | None = None
    """Image to run instead of the release's, with Tempest, its plugins and Python."""
    keystone: TestedKeystone = TestedKeystone()
    """The cloud whose services are tested."""
    region: Region = "RegionOne"
    """OpenStack region to test. Cannot be changed."""
    schedule: Schedule | None = None
    """Times at which tests run, as a cron expression in UTC. Unset runs them only when the annotation
    `tempest.openstack.c5c3.io/run-now` of this resource changes. No run starts before the previous one has ended."""
    suspend: bool = False
    """Suspend the schedule. A run in progress continues."""
    tests: Tests = Tests()
    """Tests to run, and how many at a time."""
    config: Sections = {}
    """Extra options of tempest.conf, merged over the operator's options and those that a run finds in the cloud:
    section, option, value. The operator refuses options that it sets itself (addresses, passwords)."""
    depends_on: Annotated[list[Dependency], Field(max_length=32)] = []
    """Resources that must be ready before the first run. Later runs do not wait: they test the cloud as it is."""
    successful_jobs_history_limit: History = 3
    """Number of runs on schedule whose pods and logs stay. A run counts as successful if it could test, even if tests
    failed."""
    failed_jobs_history_limit: History = 1
    """Number of runs on schedule that could not test, and whose pods and logs stay."""


class Results(Model):
    """Results of the tests of a run."""

    passed_tests: int = 0
    """Number of tests that passed."""
    failed_tests: int = 0
    """Number of tests that failed, or did not end."""
    skipped_tests: int = 0
    """Number of tests that Tempest skipped, since the cloud lacks what they need. A whole class counts as one."""
    total_tests: int = 0
    """Number of all tests."""


class TempestStatus(Model):
    """Status of a Tempest besides its conditions."""

    last_run: Annotated[str, Field(max_length=32)] | None = None
    """Time at which the last run that has ended began (RFC 3339)."""
    last_duration: Annotated[str, Field(max_length=32)] | None = None
    """Duration of that run: 45m12s."""
    results: Results | None = None
    """Results of its tests."""


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
