
… until everything stands.
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  Ready: True

KeystoneUser and KeystoneService are not ready anymore.

The user writes replicas: 3.
  ~ Deployment/placement-api
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  IdentityReady: Progressing, KeystoneUser/placement-user: Keystone/keystone: API: keystone-api: 0/1 pods ready
  APIReady: Progressing, placement-api: its controller has not processed it yet
  EndpointReady: Progressing, KeystoneService/placement-catalog: Keystone/keystone: API: keystone-api: 0/1 pods ready
  Ready: Progressing, Identity: KeystoneUser/placement-user: Keystone/keystone: API: keystone-api: 0/1 pods ready; placement-api: its controller has not processed it yet; Endpoint: KeystoneService/placement-catalog: Keystone/keystone: API: keystone-api: 0/1 pods ready
