
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

Finished: Job.
  ~ Deployment/placement-api
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  APIReady: Progressing, placement-api: its controller has not processed it yet
  Ready: True, Progressing, placement-api: its controller has not processed it yet

Finished: everything that was applied.
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  Ready: True
