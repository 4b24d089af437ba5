
A Keystone appears.
  + NetworkPolicy/keystone-egress
  + Secret/keystone-credentials
  + MariaDBDatabase/keystone-db
  + Secret/keystone-admin
  + Secret/keystone-fernet-keys
  + Secret/keystone-credential-keys
  + Secret/keystone-config
  + Secret/keystone-clouds
  DatabaseReady: Progressing, MariaDBDatabase/keystone-db has not reported yet
  BootstrapReady: Waiting, waiting for Database
  APIReady: Waiting, waiting for Bootstrap
  EndpointReady: Waiting, waiting for API
  ClientReady: Waiting, waiting for API
  Ready: Progressing, Database: MariaDBDatabase/keystone-db has not reported yet

Finished: MariaDBDatabase.
  + Job/keystone-bootstrap-…
  BootstrapReady: Progressing, job keystone-bootstrap-… is running
  APIReady: Waiting, waiting for Bootstrap
  EndpointReady: Waiting, waiting for API
  ClientReady: Waiting, waiting for API
  Ready: Progressing, Bootstrap: job keystone-bootstrap-… is running

Finished: Job.
  + Deployment/keystone-api
  + Service/keystone-api
  + PodDisruptionBudget/keystone-api
  APIReady: Progressing, keystone-api: 0/1 pods ready
  EndpointReady: Waiting, waiting for API
  ClientReady: Waiting, waiting for API
  Ready: Progressing, API: keystone-api: 0/1 pods ready

Finished: Deployment.
  + KeystoneService/keystone-catalog
  + Deployment/keystoneclient
  EndpointReady: Progressing, KeystoneService/keystone-catalog has not reported yet
  ClientReady: Progressing, keystoneclient: 0/1 pods ready
  Ready: Progressing, Endpoint: KeystoneService/keystone-catalog has not reported yet; Client: keystoneclient: 0/1 pods ready

Finished: everything that was applied.
  Ready: True
