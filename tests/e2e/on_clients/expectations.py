"""Which tests of clients' suites do not pass, each with its reason; all others have to."""

from __future__ import annotations

from collections.abc import Mapping

from ..outcomes import Expectation, Expectations

_UPSTREAM = "upstream's own decision"
_OLD = "it is of APIs that OpenStack has removed"
_ABSENT = "the cloud has no such service"
_EXTENSION = "the cloud's Neutron has no such extension"
_INTERNET = "it downloads an image of CirrOS; this machine does not reach the Internet, nor may Glance"
_AMPHORA = "load balancers of this cloud are OVN's; it has no amphorae"

GOPHERCLOUD = Expectations(
    failing=(
        Expectation(
            r"^(baremetal|container|containerinfra|db|instanceha|messaging|metric|objectstorage|reservation"
            r"|sharedfilesystems|workflow)\.",
            _ABSENT,
        ),
        Expectation(
            r"\.TestBackupsForceDelete$", "Cinder cannot force the deletion of a backup in Ceph: the driver cannot"
        ),
        Expectation(
            r"\.TestPortsTrustedVIFCRUD$", "the attribute is of an ML2 extension driver that this Neutron does not load"
        ),
        Expectation(
            r"\.TestPortsbindingCRUD$", "Neutron lets services alone write it; upstream's own clouds change that policy"
        ),
        Expectation(r"^image\.v2\.(TestImageStage|TestCreateImport|TestTaskCreate)$", _INTERNET),
        Expectation(r"^loadbalancer\.v2\.Test(FlavorProfiles|Flavors)CRUD$", _AMPHORA),
        Expectation(r"^loadbalancer\.v2\.TestLoadbalancer(HTTPCRUD|sFullyPopulatedCRUD)$", "OVN does not know HTTP"),
        Expectation(r"^loadbalancer\.v2\.TestLoadbalancers(Cascade)?CRUD$", "OVN has no algorithm LEAST_CONNECTIONS"),
    ),
    skipped=(
        Expectation(r"this is not supported (above|below) \S+, testing in 2025\.1", "it is of another release"),
        Expectation(r"this test requires (Ironic|IRONIC) using .*", _ABSENT),
        Expectation(r"this test requires Cinder using noauth, .*", "Cinder asks Keystone who calls"),
        Expectation(r"this test requires support for the identity v2 API", _OLD),
        Expectation(r"this test requires \S+ Neutron extension", _EXTENSION),
        Expectation(r"this test requires support for qemu guest agent .*", "the small guest has no agent of QEMU"),
        Expectation(r"This is not passing (now, will fix later|in OpenLab\. Works locally)", _UPSTREAM),
        Expectation(r"manila replicas must be enabled to run this test", _ABSENT),
        Expectation(r"must be a non-admin to run this test", "the suite logs in once, as the administrator"),
        Expectation(r"The amphora provider is not enabled", _AMPHORA),
        Expectation(r"\w+ needs to be re-worked to work with both ML2/OVS and OVN", _UPSTREAM),
        Expectation(r"Skipping TestDNSFloatingIPCRUD for now, as it doesn't work with ML2/OVN\.", _UPSTREAM),
    ),
)
OPENSTACKSDK = Expectations(
    failing=(
        Expectation(
            r"\.TestRouter\.test_add_remove_router_interface$",
            "Neutron of 2025.1 answers with a tenant_id, and no project_id beside it",
        ),
        Expectation(
            r"\.(TestContainerACL\.test_container_acl|TestSecretACL\.test_secret_acl)$",
            "openstacksdk 4.22 takes the address of what it made for its ID, and asks for an address in an address",
        ),
        Expectation(r"^openstack\.tests\.functional\.load_balancer\.v2\.", _AMPHORA),
        Expectation(
            r"\.TestVolumeType\.test_add_volume_type_access_bad_project$",
            "Cinder of 2025.1 does not look whether the project exists",
        ),
        Expectation(
            r"\.TestVolumeType\.test_list_volume_types$",
            "it looks for a private type, which Cinder lists only if that is asked for",
        ),
        Expectation(r"\.TestSecretStore\.test_secret_store$", "Barbican has one store, and so no list of stores"),
    ),
    skipped=(
        Expectation(r"Service \S+ not found in cloud", _ABSENT),
        Expectation(r"(Container|Object) service not supported by cloud", _ABSENT),
        Expectation(r"(fwaas_v2|dvr) service not supported by cloud", _EXTENSION),
        Expectation(r".* [Ee]xtension disabled", _EXTENSION),
        Expectation(r"No agents available", "Neutron shows agents to administrators alone, and the test is a user"),
        Expectation(r"Physical network already allocated", "the one flat network is the external one"),
        Expectation(r"Object service is requred, but not available", "the test asks for Swift; backups are in Ceph"),
        Expectation(r"Volume functional tests temporarily disabled", _UPSTREAM),
        Expectation(r"block-storage service not supported by cloud", "it is of the second version of Cinder's API"),
    ),
)
OPENSTACKCLIENT = Expectations(
    failing=(
        Expectation(
            r"\.test_aggregate_add_and_remove_host$",
            "it takes Nova's first host for a hypervisor; here that is the pod of a conductor",
        ),
    ),
    skipped=(
        Expectation(r"No Accelerator service present", _ABSENT),
        Expectation(r"No Identity v2 admin endpoint\?", _OLD),
        Expectation(r"No \S+ extension( present)?", _EXTENSION),
        Expectation(r"Skip Nova-net test", _OLD),
        Expectation(r"story 2010110", _UPSTREAM),
    ),
)
EXPECTED: Mapping[str, Expectations] = {
    "openstacksdk": OPENSTACKSDK,
    "openstackclient": OPENSTACKCLIENT,
    "gophercloud": GOPHERCLOUD,
}
PASSED: Mapping[str, int] = {}
"""Number of tests that passed in the last run in docs/evidence/suites.md."""
