
A Placement appears; its database answers, Keystone does not yet.
  + NetworkPolicy/placement-egress
  + Secret/placement-credentials
  + MariaDBDatabase/placement-db
  + KeystoneUser/placement-user
  + Secret/placement-config
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  DatabaseReady: Progressing, MariaDBDatabase/placement-db has not reported yet
  IdentityReady: Progressing, KeystoneUser/placement-user has not reported yet
  SchemaReady: Waiting, waiting for Database
  APIReady: Waiting, waiting for Database, Identity, Schema
  EndpointReady: Waiting, waiting for Database, Identity, API
  Ready: Progressing, Database: MariaDBDatabase/placement-db has not reported yet; Identity: KeystoneUser/placement-user has not reported yet

Finished: MariaDBDatabase.
  + Job/placement-db-sync-…
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  IdentityReady: Progressing, KeystoneUser/placement-user has not reported yet
  SchemaReady: Progressing, job placement-db-sync-… is running
  APIReady: Waiting, waiting for Identity, Schema
  EndpointReady: Waiting, waiting for Identity, API
  Ready: Progressing, Identity: KeystoneUser/placement-user has not reported yet; Schema: job placement-db-sync-… is running

Finished: Job.
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  IdentityReady: Progressing, KeystoneUser/placement-user has not reported yet
  APIReady: Waiting, waiting for Identity
  EndpointReady: Waiting, waiting for Identity, API
  Ready: Progressing, Identity: KeystoneUser/placement-user has not reported yet

Finished: KeystoneUser.
  + Deployment/placement-api
  + Service/placement-api
  + PodDisruptionBudget/placement-api
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  APIReady: Progressing, placement-api: 0/1 pods ready
  EndpointReady: Waiting, waiting for API
  Ready: Progressing, placement-api: 0/1 pods ready

Finished: Deployment.
  + KeystoneService/placement-catalog
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  EndpointReady: Progressing, KeystoneService/placement-catalog has not reported yet
  Ready: Progressing, Endpoint: KeystoneService/placement-catalog has not reported yet

Finished: everything that was applied.
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  Ready: True

Nothing changes.
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  Ready: True
