
… until everything stands.
  Ready: True

KeystoneUser and KeystoneService are not ready anymore.

The user writes replicas: 3.
  ~ Deployment/placement-api
  IdentityReady: Progressing, KeystoneUser/placement-user: Keystone/keystone: API: keystone-api: 0/1 pods ready
  APIReady: Progressing, placement-api: not yet seen by its controller
  EndpointReady: Progressing, KeystoneService/placement-catalog: Keystone/keystone: API: keystone-api: 0/1 pods ready
  Ready: Progressing, Identity: KeystoneUser/placement-user: Keystone/keystone: API: keystone-api: 0/1 pods ready; API: placement-api: not yet seen by its controller; Endpoint: KeystoneService/placement-catalog: Keystone/keystone: API: keystone-api: 0/1 pods ready
