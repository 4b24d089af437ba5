
… until everything stands.
  Ready: True

The user writes config: {'keystone_authtoken': {'password': 'mine'}}.
  InvalidSpec: spec.config.keystone_authtoken.password: the operator sets keystone_authtoken.password itself; remove it from config

The user writes config: {}.
  Ready: True
