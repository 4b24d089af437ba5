
A Keystone appears.
  + NetworkPolicy/keystone-egress
  + Secret/keystone-credentials
  + MariaDBDatabase/keystone-db
  + Secret/keystone-admin
  + Secret/keystone-fernet-keys
  + Secret/keystone-credential-keys
  + Secret/keystone-config
  + Secret/keystone-clouds
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  DatabaseReady: Progressing, MariaDBDatabase/keystone-db has not reported yet
  BootstrapReady: Waiting, waiting for Database
  APIReady: Waiting, waiting for Bootstrap
  EndpointReady: Waiting, waiting for API
  ClientReady: Waiting, waiting for API
  Ready: Progressing, Database: MariaDBDatabase/keystone-db has not reported yet

Finished: MariaDBDatabase.
  + Job/keystone-bootstrap-…
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  BootstrapReady: Progressing, job keystone-bootstrap-… is running
  APIReady: Waiting, waiting for Bootstrap
  EndpointReady: Waiting, waiting for API
  ClientReady: Waiting, waiting for API
  Ready: Progressing, Bootstrap: job keystone-bootstrap-… is running

Finished: Job.
  + Deployment/keystone-api
  + Service/keystone-api
  + PodDisruptionBudget/keystone-api
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  APIReady: Progressing, keystone-api: 0/1 pods ready
  EndpointReady: Waiting, waiting for API
  ClientReady: Waiting, waiting for API
  Ready: Progressing, keystone-api: 0/1 pods ready

Finished: Deployment.
  + KeystoneService/keystone-catalog
  + Deployment/keystoneclient
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  EndpointReady: Progressing, KeystoneService/keystone-catalog has not reported yet
  ClientReady: Progressing, keystoneclient: 0/1 pods ready
  Ready: Progressing, Endpoint: KeystoneService/keystone-catalog has not reported yet; keystoneclient: 0/1 pods ready

Finished: everything that was applied.
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  Ready: True
