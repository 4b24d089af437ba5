
… until everything stands.
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  Ready: True

The user writes config: {'keystone_authtoken': {'password': 'mine'}}.
  ConfigValid InvalidOptions, InvalidSpec: spec.config.keystone_authtoken.password: the operator sets keystone_authtoken.password itself; remove it from config

The user writes config: {}.
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  Ready: True
