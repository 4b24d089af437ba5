
… until everything stands.
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  AuthoritiesReady: True, Ready, the authority of live migrations is replaced from 2032-08-30 on; the authority of consoles is replaced from 2032-08-30 on
  Ready: True

The user writes config: {'DEFAULT': {'cpu_allocation_ratio': -1, 'debgu': True}, 'vnc': {'enabled': 'maybe'}}.
  ConfigValid InvalidOptions, InvalidSpec: spec.config.DEFAULT.cpu_allocation_ratio: is -1; the option takes a number from 0.0; spec.config.vnc.enabled: is 'maybe'; the option takes true or false

The user writes config: {'DEFAULT': {'cpu_allocation_ratio': 2, 'debgu': True}}.
  ~ Secret/nova-config
  ~ StatefulSet/nova-conductor
  ~ Secret/nova-cell1-config
  ~ StatefulSet/nova-cell1-conductor
  ~ Secret/nova-cell1--console-config
  ~ Deployment/nova-cell1-novncproxy
  ~ Secret/nova-cell1-compute-config
  ~ DaemonSet/nova-cell1-compute
  ~ StatefulSet/nova-scheduler
  ~ Deployment/nova-api
  ~ Deployment/nova-metadata
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  ConductorReady: Progressing, nova-conductor: not yet seen by its controller
  CellsReady: Progressing, nova-cell1-conductor: not yet seen by its controller; nova-cell1-novncproxy: not yet seen by its controller
  ComputeReady: Progressing, nova-cell1-compute: not yet seen by its controller
  SchedulerReady: Progressing, nova-scheduler: not yet seen by its controller
  APIReady: Progressing, nova-api: not yet seen by its controller
  MetadataReady: Progressing, nova-metadata: not yet seen by its controller
  AuthoritiesReady: True, Ready, the authority of live migrations is replaced from 2032-08-30 on; the authority of consoles is replaced from 2032-08-30 on
  ConfigValid: True, UnknownOptions, spec.config.DEFAULT.debgu: Nova 2025.1 ignores it: there is no option 'debgu' in section [DEFAULT]; did you mean debug?
  Ready: True, Progressing, nova-conductor: not yet seen by its controller; Cells: nova-cell1-conductor: not yet seen by its controller; nova-cell1-novncproxy: not yet seen by its controller; nova-cell1-compute: not yet seen by its controller; nova-scheduler: not yet seen by its controller; nova-api: not yet seen by its controller; nova-metadata: not yet seen by its controller
