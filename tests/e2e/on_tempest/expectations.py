"""Which tests of Tempest run, and which of them need not pass, each with its reason; all others have to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..outcomes import Expectation, Expectations

SETS: Mapping[str, str] = {
    "smoke": r"\[.*\bsmoke\b.*\]",
    "identity": r"^tempest\.api\.identity\.",
    "image": r"^tempest\.api\.image\.",
    "network": r"^tempest\.api\.network\.",
    "compute": r"^tempest\.api\.compute\.",
    "volume": r"^tempest\.api\.volume\.",
    "key-manager": r"^barbican_tempest_plugin\.tests\.(api|rbac)\.",
    "dns": r"^designate_tempest_plugin\.tests\.api\.",
    "orchestration": r"^heat_tempest_plugin\.tests\.(api|functional)\.",
    "load-balancer": r"^octavia_tempest_plugin\.tests\.api\.",
    "load-balancer-ipv4": r"^octavia_tempest_plugin\.tests\.api\.v2\.test_(healthmonitor|member)\.",
}
"""The sets, by what their tests' names have in common."""
PASSED: Mapping[str, int] = {
    "network": 239,
    "key-manager": 294,
    "dns": 279,
    "orchestration": 102,
    "load-balancer": 57,
    "load-balancer-ipv4": 16,
}
"""Number of tests of a set that passed in its last run in docs/evidence/suites.md. All others of names.txt are excluded
or skipped, each for a reason; fewer that pass mean that a reason excuses more tests than it did, and more that it
excuses too many. Sets without a number have had no line of their own since they are as they are.
"""
SMOKE_WITH_VOLUMES, SMOKE_WITHOUT_VOLUMES = 88, 82
"""The same of the smoke set in clouds without the services of plug-ins."""
IPV4 = frozenset({"load-balancer-ipv4"})
"""Sets whose load balancers have IPv4 addresses. The others have IPv6 addresses; OVN then refuses the plug-in's
members, most of which have IPv4 ones.
"""


EXCLUDED: Sequence[Expectation] = (
    Expectation(
        r"tempest\.scenario\.test_network_basic_ops\.TestNetworkBasicOps\.test_network_basic_ops\b",
        "logs into its server by SSH, which the small guest does not have; `make cloud` reaches a server from outside",
    ),
    Expectation(
        r"octavia_tempest_plugin\.tests\.api\.v2\.test_member\.\w+\.test_(TCP|UDP)_SIP_member_batch_update\b",
        "OVN's provider of 2025.1 calls a load balancer ACTIVE when it has done the first of several members, and the"
        " test then finds one that it has yet to remove",
        is_by_chance=True,
    ),
    Expectation(
        r"heat_tempest_plugin\.tests\.functional\.test_(encrypted_parameter|software_config|os_wait_condition)\.",
        "needs the network `heat-net` of upstream's own clouds",
    ),
    Expectation(
        r"heat_tempest_plugin\.tests\.functional\.test_remote_stack\.",
        "Heat calls the other Heat at its public address, whose certificate here no public authority signed",
    ),
    Expectation(
        r"designate_tempest_plugin\.tests\.api\.admin\.test_quotas\.",
        "Designate's API for administrators is off; users of the role admin set quotas by the API of all",
    ),
    Expectation(
        r"designate_tempest_plugin\.tests\.api\.v2\.test_tsigkey\..*\.test_create_tsigkey_for_zone_empty_secret\b",
        "the Designate of 2025.1 takes an empty secret; a later one refuses it",
    ),
    Expectation(
        r"designate_tempest_plugin\..*\.TransferRequestTest\.test_show_transfer_request_as_target\b",
        "it expects that an administrator may not see the request; Designate's rule admits one",
    ),
    Expectation(
        r"designate_tempest_plugin\.tests\.api\.v2\.test_zones\.ZonesTest\.test_create_zones\b",
        "names a primary server by an address of IPv6, for which the column in Designate's table is too short",
    ),
)
"""Tests that are not tried, by their names."""

_ONE_STORE = "the minimal cloud keeps its images in one store"
_HTTP = "no operator lets users name any place on the web as where an image is kept"
_NO_OPTION = r"Provider 'ovn' does not support a requested option: "
_NO_ACTION = r"Provider 'ovn' does not support a requested action: "
SKIPPED: Sequence[Expectation] = (
    # Identity.
    Expectation(
        r"Security compliance not available\.", "Keystone's rules of passwords are for the cloud's owner to set"
    ),
    # Image.
    Expectation(r"Target system is not configured with glance caching", "a store of files needs no cache beside it"),
    Expectation(r"\w+ skipped as show_multiple_locations is not available", "it shows users where images are kept"),
    Expectation(r"\w+ skipped as http store is disabled|http store is disabled", _HTTP),
    Expectation(r"do_secure_hash is enabled", "tests of clouds without it; ours computes hashes"),
    Expectation(r"Either copy-image import method or multistore is not available", _ONE_STORE),
    Expectation(
        r"Either glance-direct import method not present in .* or None or only one store is configured .*", _ONE_STORE
    ),
    Expectation(r"\w+ skipped as only one store is available: .*", _ONE_STORE),
    Expectation(r"\w+ skipped as store weight is not configured", _ONE_STORE),
    Expectation(r"Server does not support glance-download import method", "it is for clouds that share a Keystone"),
    Expectation(r"No image_remote service to test against", "it needs an endpoint of each pod of Glance"),
    Expectation(
        r"Image format enforcement prevents testing with bogus image data", "Glance looks into what is uploaded"
    ),
    Expectation(
        r"Image format testing is not configured", "it needs a collection of images that Tempest does not bring"
    ),
    Expectation(r"Skipped until bug: https://launchpad\.net/bugs/2030527 is resolved\.", "Tempest's own decision"),
    # Network.
    Expectation(r"dhcp_agent_scheduler extension not enabled\.", "OVN answers DHCP, without agents"),
    Expectation(r"metering extension not enabled\.", "Neutron has no such service plugin here"),
    Expectation(r"(dvr|DVR) extension not enabled\.", "OVN's routers are distributed, and have no switch for it"),
    Expectation(r"ip-substring-filtering extension not enabled\.", "Neutron does not offer it with OVN"),
    Expectation(r"tag extension not enabled\.", "the old name of standard-attr-tag, whose tests run"),
    # Compute and volume.
    Expectation(
        r"The microversion range\[[23]\.\d+ - \S+\] of this test is out of the configuration range\[None - None\]\.",
        "Tempest's options name no microversions of Nova and Cinder, so that it tests the first ones",
    ),
    Expectation(
        r"Resize not available\.|Change password not available\.|VNC Console feature is disabled\."
        r"|SPICE console feature is disabled\.|Serial console not supported\.|Nova personality feature disabled"
        r"|FQDN hostname sanitization is not supported\.|Stable rescue not available\."
        r"|Swapping volumes is not supported\.|Volume multi-attach is not available\."
        r"|DifferentHostFilter is not available\.|SameHostFilter is not available\."
        r"|Block Live migration not available|Volume-backed live migration not available"
        r"|Legacy quota update not available with unified limits|Attached volume extend is disabled\."
        r"|Attached encrypted volume extend is disabled\.|Manage (volume|snapshot) tests are disabled"
        r"|Cinder multi-backend feature disabled",
        "Tempest's options have it off by default",
    ),
    Expectation(r"Less than 2 compute nodes, skipping (migration|multi-nodes) test\.", "the cloud is one node"),
    Expectation(r"Instance validation tests are disabled\.|Validation must be enabled", "the small guest has no SSH"),
    Expectation(r"Need distinct images to run this test", "the cloud has one image"),
    Expectation(
        r"Skipped until bug: https://launchpad\.net/bugs/(1161411|2112187|1186354|2028851|1807723) is resolved\.",
        "Tempest's own decision",
    ),
    # Barbican.
    Expectation(r"enforce_scope is enabled for barbican, skipping project quota tests\.", "the plug-in's own decision"),
    Expectation(
        r"The microversion range\[1\.1 - latest\] of this test is out of the configuration range\[None - None\]\.",
        "Tempest's options name no microversion of Barbican, so that it tests the first one",
    ),
    Expectation(r"enable_multiple_secret_stores is not configured\. Skipping RBAC tests\.", "there is one store"),
    # Designate.
    Expectation(r".* tests require Designate API version 2\.[23] or newer\..*", "that of 2025.1 is 2.1"),
    Expectation(r"Config option dns\.nameservers is missing or empty", "the servers are asked by `make e2e-services`"),
    Expectation(r"Project ID in quotas is not being verified\.", "Designate does so if an option says so"),
    Expectation(
        r"Skipped until bug: https://launchpad\.net/bugs/(2009819|1935977|1960487|19341|19334|19265)\d* is resolved\.",
        "the plug-in's own decision",
    ),
    # Heat.
    Expectation(
        r"OS::Neutron::(Trunk|ExtraRouteSet) resource type not available, skipping test\.",
        "Neutron has no such extension here",
    ),
    Expectation(r"hidden_stack_tag is not set", "Tempest's options name no tag by which Heat hides stacks"),
    Expectation(r"messaging service type not available, skipping test\.", "there is no Zaqar"),
    # Octavia.
    Expectation(
        _NO_OPTION + r"OVN provider does not support (HTTP|HTTPS|PROXY) protocol",
        "OVN distributes connections of TCP, UDP and SCTP, and does not look into them",
    ),
    Expectation(
        _NO_OPTION + r"OVN provider does not support (LEAST_CONNECTIONS|ROUND_ROBIN|SOURCE_IP) algorithm",
        "the provider of 2025.1 has SOURCE_IP_PORT alone",
    ),
    Expectation(
        _NO_OPTION + r"OVN provider does not support (PING|TLS-HELLO) health monitor type\. Supported types: .*",
        "OVN asks members by TCP and UDP alone",
    ),
    Expectation(
        _NO_OPTION + r"OVN provider does not support allowed_cidrs option", "OVN has no access lists of a listener"
    ),
    Expectation(
        _NO_OPTION + r"OVN provider does not support loadbalancer failover", "OVN has no server to replace by another"
    ),
    Expectation(
        _NO_OPTION + r"OVN provider does not support mixing IPv4/IPv6 configuration within the same Load Balancer\.",
        "the load balancer has an address of IPv6, the member one of IPv4; another set has load balancers of IPv4",
    ),
    Expectation(
        _NO_OPTION + r"OVN Load Balancer does not support different member monitor address or port\.",
        "OVN's health monitor asks members where they serve",
    ),
    Expectation(
        _NO_OPTION + r"Subnet is required, or Loadbalancer associated with Pool must have a subnet, for Member .*",
        "the test names no subnet of its member, whose address is in none; OVN needs to know it",
    ),
    Expectation(
        _NO_ACTION + r"This provider does not support getting the supported (flavor|availability zone) metadata\.",
        "OVN has no flavors and no availability zones of load balancers",
    ),
    Expectation(
        _NO_ACTION + r"This provider does not support validating flavors\.", "OVN has no flavors of load balancers"
    ),
    Expectation(
        r"Availability Zone API tests require .*|Availability zone profile API tests require .*",
        "OVN has no availability zones of load balancers",
    ),
    Expectation(
        r'\[loadbalancer-feature-enabled\] "terminated_tls_enabled" is False in the tempest configuration\. .*',
        "OVN does not terminate TLS",
    ),
    Expectation(r"PROMETHEUS listener tests are disabled in the tempest configuration\.", "OVN has no such listener"),
    Expectation(r"Amphora tests only run with the amphora provider enabled\.", "OVN runs no servers"),
    Expectation(r'Skipping this test as test_with_ipv6 is not "True" in .*', "a set with IPv6 has this test, too"),
    Expectation(r"Skipped until bug: https://launchpad\.net/bugs/2045803 is resolved\.", "the plug-in's own decision"),
    # Smoke.
    Expectation(r"\w+ skipped as swift is not available", "this operator installs no Swift"),
    Expectation(
        r"Traffic tests will not work without run_validation enabled\.",
        "the small guest has no SSH; `make e2e-services` has clients of load balancers",
    ),
    Expectation(r"Multipools feature is being tested with --delete option\. .*", "the plug-in's own decision"),
    Expectation(r"Horizon support is required", "this cloud has no Horizon"),
    Expectation(r"Less than 2 compute nodes, skipping multinode tests\.", "the minimal cloud is one node"),
    Expectation(r"Validation should be enabled to ensure guest OS is running .*", "the small guest has no SSH"),
)
"""Tests that Tempest skips, by the reasons it gives."""


EXPECTED = Expectations(excluded=EXCLUDED, skipped=SKIPPED)
"""All of them."""


def excluding() -> str:
    """One expression for all tests that are not tried."""
    return "|".join(each.pattern for each in EXCLUDED)
