"""Conditions that each kind may have, for fields that wait for one."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

_OF_ALL_KINDS = (
    "ConfigValid FieldsIgnored FieldsInconsistent ImageProfile Paused PreflightReady Ready Reconciling SingleCopy "
    "Stalled UpgradeReady VersionReady"
)
"""Conditions of every kind, with those that exist only in an upgrade."""

CONDITION_TYPES: Mapping[str, str] = {
    "OpenStackControlPlane": (
        "BarbicanReady CephStorageReady CinderReady CortexReady DesignateReady EtcdReady GlanceReady HeatReady "
        "HorizonReady ImagesCached KORCReady KeystoneReady MariaDBReady MemcachedReady MonitoringReady "
        "NeutronReady NovaReady OVNReady OctaviaReady PKIReady PlacementReady RabbitMQReady TempestReady "
        "ValkeyReady"
    ),
    "PKI": "AuthorityReady BundleReady IssuerReady RotationReady",
    "MariaDB": (
        "CertificateReady ConfigReady CredentialsReady EndpointReady NetworkPoliciesReady RecordReady RolesReady "
        "ServerReady"
    ),
    "RabbitMQ": "CertificateReady ConfigReady CredentialsReady EndpointReady NetworkPoliciesReady ServerReady",
    "Memcached": "CertificateReady ClientsReady NetworkPoliciesReady ServerReady",
    "Valkey": "CertificateReady ConfigReady CredentialsReady EndpointReady NetworkPoliciesReady ServerReady",
    "Etcd": "CertificateReady EndpointReady NetworkPoliciesReady RecordReady ServerReady",
    "OVNNetwork": (
        "CertificateReady ChassisAuthorityReady ControllersReady NetworkPoliciesReady NorthboundReady NorthdReady "
        "RelayReady RemoteChassisReady SouthboundReady"
    ),
    "OVNChassis": "OVSConnected",
    "CephStorage": (
        "AddressesReady CephConnected ClientsReady ClusterReady ConfigReady CredentialsReady HealthReady "
        "KeysReady ManagerReady MonitorsReady NetworkPoliciesReady OSDsReady PoolsReady RecordReady StatusReady"
    ),
    "Keystone": (
        "APIReady ApplicationCredentialReady BootstrapReady CertificateReady ClientReady ConfigReady "
        "CredentialKeysReady CredentialsReady DatabaseReady DependenciesReady DomainsReady EndpointReady "
        "FernetKeysReady IdentityProvidersReady KORCReady MessagingReady NetworkPoliciesReady PublicEndpointReady"
    ),
    "Glance": (
        "APIReady CephConnected CertificateReady ConfigReady CredentialsReady DatabaseReady DefinitionsReady "
        "DependenciesReady EndpointReady IdentityReady InternalAPIReady MessagingReady NetworkPoliciesReady "
        "PublicEndpointReady SchemaReady StorageReady"
    ),
    "Placement": (
        "APIReady CertificateReady ConfigReady CredentialsReady DatabaseReady DependenciesReady EndpointReady "
        "IdentityReady NetworkPoliciesReady PublicEndpointReady SchemaReady"
    ),
    "Neutron": (
        "APIReady CertificateReady ConfigReady CredentialsReady DatabaseReady DependenciesReady EndpointReady "
        "IdentityReady MessagingReady MetadataAgentReady NetworkPoliciesReady OVNConnected "
        "OVNMaintenanceWorkerReady PublicEndpointReady SchemaReady"
    ),
    "Nova": (
        "APIReady AuthoritiesReady BarbicanReady CellsReady CertificateReady ComputeReady ComputeRolloutReady "
        "ConductorReady ConfigReady CredentialsReady DatabaseReady DependenciesReady ElsewhereReady EndpointReady "
        "GlanceReady IdentityReady MessagingReady MetadataReady NetworkPoliciesReady NeutronReady PlacementReady "
        "PublicEndpointReady SchedulerReady SchemaReady"
    ),
    "HypervisorCluster": (
        "AuthoritiesReady ComputeReady ComputeRolloutReady ConfigReady MetadataAgentReady NetworkPoliciesReady "
        "OVNConnected"
    ),
    "Cinder": (
        "APIReady BackendsReady BackupReady BackupStorageReady BarbicanReady CephConnected CertificateReady "
        "ConfigReady CredentialsReady DatabaseReady DependenciesReady EndpointReady GlanceReady IdentityReady "
        "MessagingReady NetworkPoliciesReady PublicEndpointReady PurgeReady QuotaReady SchedulerReady SchemaReady "
        "VolumeTypesReady"
    ),
    "Barbican": (
        "APIReady CertificateReady ConfigReady CredentialsReady DatabaseReady DependenciesReady EndpointReady "
        "IdentityReady KEKReady MessagingReady NetworkPoliciesReady PublicEndpointReady PurgeReady SchemaReady "
        "VaultReady WorkerReady"
    ),
    "Heat": (
        "APICfnReady APIReady CertificateReady ConfigReady CredentialsReady DatabaseReady DependenciesReady "
        "DomainReady EncryptionKeyReady EndpointReady EngineReady IdentityReady MessagingReady "
        "NetworkPoliciesReady PublicEndpointReady PurgeReady SchemaReady"
    ),
    "Horizon": (
        "APIReady CertificateReady ConfigReady DependenciesReady IdentityReady NetworkPoliciesReady "
        "PublicEndpointReady SecretKeyReady SingleSignOnReady"
    ),
    "Designate": (
        "APIReady AddressesReady CentralReady CertificateReady ConfigReady CredentialsReady DNSReady "
        "DatabaseReady DependenciesReady EndpointReady IdentityReady MdnsReady MessagingReady "
        "NetworkPoliciesReady PoolsReady ProducerReady PublicEndpointReady RetiredPoolsReady SchemaReady "
        "ServerSchemaReady ServersReady WorkerReady ZonesReady"
    ),
    "Octavia": (
        "APIReady AmphoraeReady CertificateReady ConfigReady CredentialsReady DatabaseReady DependenciesReady "
        "EndpointReady IdentityReady MessagingReady NetworkPoliciesReady OVNConnected PublicEndpointReady "
        "PurgeReady SchemaReady"
    ),
    "Cortex": "CertificateReady ConfigReady DatasourcesReady NetworkPoliciesReady PipelinesReady",
    "Tempest": (
        "ConfigReady CredentialsReady DependenciesReady IdentityReady NetworkPoliciesReady ResultsReady RunsReady "
        "TestsPassed"
    ),
    "CredentialRotation": "RotationReady ServiceReady",
    "SecretAggregate": "SecretReady",
}
"""Conditions by kind, besides those of all kinds."""


def condition_fault(kind: str, condition: str) -> str:
    """Return why a resource of a kind never has a condition, with the one that is probably meant; empty if it may."""
    types = {*CONDITION_TYPES.get(kind, "").split(), *_OF_ALL_KINDS.split()}
    if condition in types:
        return ""
    nearest = difflib.get_close_matches(condition, sorted(types), n=1)
    meant = f"did you mean {nearest[0]}?" if nearest else "write Ready, or one of docs/reference/conditions.md"
    return f"{kind} has no condition {condition!r}; {meant}"
