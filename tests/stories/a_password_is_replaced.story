
… until everything stands.
  Ready: True

A CredentialRotation orders another account in the database.
  ~ Secret/placement-credentials
  ~ MariaDBDatabase/placement-db
  + MariaDBDatabase/placement-db--b
  DatabaseReady: Progressing, MariaDBDatabase/placement-db: the operator is looking at its change; MariaDBDatabase/placement-db--b has not reported yet
  Ready: Progressing, Database: MariaDBDatabase/placement-db: the operator is looking at its change; MariaDBDatabase/placement-db--b has not reported yet

The operator is killed; another one takes over.
  DatabaseReady: Progressing, MariaDBDatabase/placement-db: the operator is looking at its change; MariaDBDatabase/placement-db--b has not reported yet
  Ready: Progressing, Database: MariaDBDatabase/placement-db: the operator is looking at its change; MariaDBDatabase/placement-db--b has not reported yet

Finished: MariaDBDatabase.
  ~ Secret/placement-credentials
  ~ Secret/placement-config
  ~ Deployment/placement-api
  APIReady: Progressing, placement-api: not yet seen by its controller
  Ready: Progressing, API: placement-api: not yet seen by its controller

The operator is killed; another one takes over.
  APIReady: Progressing, placement-api: not yet seen by its controller
  Ready: Progressing, API: placement-api: not yet seen by its controller

The API has not rolled.
  APIReady: Progressing, placement-api: not yet seen by its controller
  Ready: Progressing, API: placement-api: not yet seen by its controller

Finished: Deployment.

Its pods are new, but for one on a node that does not answer.
  Ready: True

That one is gone, too.
  ~ Secret/placement-credentials
  - MariaDBDatabase/placement-db
  Ready: True

Nothing changes.
  Ready: True
