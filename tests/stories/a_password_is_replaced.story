
… until everything stands.
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  Ready: True

A CredentialRotation orders another account in the database.
  ~ Secret/placement-credentials
  ~ MariaDBDatabase/placement-db
  + MariaDBDatabase/placement-db--b
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  DatabaseReady: Progressing, MariaDBDatabase/placement-db: the operator is processing its change; MariaDBDatabase/placement-db--b has not reported yet
  Ready: True, Progressing, MariaDBDatabase/placement-db: the operator is processing its change; MariaDBDatabase/placement-db--b has not reported yet

The operator is killed; another one takes over.
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  DatabaseReady: Progressing, MariaDBDatabase/placement-db: the operator is processing its change; MariaDBDatabase/placement-db--b has not reported yet
  Ready: True, Progressing, MariaDBDatabase/placement-db: the operator is processing its change; MariaDBDatabase/placement-db--b has not reported yet

Finished: MariaDBDatabase.
  ~ Secret/placement-credentials
  ~ Secret/placement-config
  ~ Deployment/placement-api
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  APIReady: Progressing, placement-api: its controller has not processed it yet
  Ready: True, Progressing, placement-api: its controller has not processed it yet

The operator is killed; another one takes over.
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  APIReady: Progressing, placement-api: its controller has not processed it yet
  Ready: True, Progressing, placement-api: its controller has not processed it yet

The API has not rolled.
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  APIReady: Progressing, placement-api: its controller has not processed it yet
  Ready: True, Progressing, placement-api: its controller has not processed it yet

Finished: Deployment.

Its pods are new, but for one on a node that does not answer.
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  Ready: True

That one is gone, too.
  ~ Secret/placement-credentials
  - MariaDBDatabase/placement-db
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  Ready: True

Nothing changes.
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  Ready: True
