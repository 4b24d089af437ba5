
… until everything stands.
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  Ready: True

The release becomes next.
  + Job/placement-db-sync-…
  - Job/placement-db-sync-…
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  SchemaReady: Progressing, job placement-db-sync-… is running
  APIReady: Waiting, waiting for Schema
  Ready: True, Progressing, Schema: job placement-db-sync-… is running

Job placement-db-sync fails.
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  SchemaReady: JobFailed, job placement-db-sync-… failed; its log ends: DBMigrationError: Table 'traits' already exists
  APIReady: Waiting, waiting for Schema
  Ready: True, JobFailed, Schema: job placement-db-sync-… failed; its log ends: DBMigrationError: Table 'traits' already exists

The release becomes 2025.1.
  + Job/placement-db-sync-…
  - Job/placement-db-sync-…
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  SchemaReady: Progressing, job placement-db-sync-… is running
  APIReady: Waiting, waiting for Schema
  Ready: True, Progressing, Schema: job placement-db-sync-… is running
