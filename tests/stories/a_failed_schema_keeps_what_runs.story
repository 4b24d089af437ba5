
… until everything stands.
  Ready: True

The release becomes next.
  + Job/placement-db-sync-…
  - Job/placement-db-sync-…
  SchemaReady: Progressing, job placement-db-sync-… is running
  APIReady: Waiting, waiting for Schema
  Ready: Progressing, Schema: job placement-db-sync-… is running

Job placement-db-sync fails.
  SchemaReady: JobFailed, job placement-db-sync-… failed; its log ends: DBMigrationError: Table 'traits' already exists
  APIReady: Waiting, waiting for Schema
  Ready: JobFailed, Schema: job placement-db-sync-… failed; its log ends: DBMigrationError: Table 'traits' already exists

The release becomes 2025.1.
  + Job/placement-db-sync-…
  - Job/placement-db-sync-…
  SchemaReady: Progressing, job placement-db-sync-… is running
  APIReady: Waiting, waiting for Schema
  Ready: Progressing, Schema: job placement-db-sync-… is running
