
… until everything stands.
  Ready: True

The release becomes next.
  + Job/placement-db-sync-…
  - Job/placement-db-sync-…
  SchemaReady: Progressing, job placement-db-sync-… is running
  APIReady: Waiting, waiting for Schema
  Ready: Progressing, Schema: job placement-db-sync-… is running

Finished: Job.
  ~ Deployment/placement-api
  APIReady: Progressing, placement-api: not yet seen by its controller
  Ready: Progressing, API: placement-api: not yet seen by its controller

Finished: everything that was applied.
  Ready: True
