
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
  ConductorReady: Progressing, nova-conductor: its controller has not processed it yet
  CellsReady: Progressing, nova-cell1-conductor: its controller has not processed it yet; nova-cell1-novncproxy: its controller has not processed it yet
  ComputeReady: Progressing, nova-cell1-compute: its controller has not processed it yet
  SchedulerReady: Progressing, nova-scheduler: its controller has not processed it yet
  APIReady: Progressing, nova-api: its controller has not processed it yet
  MetadataReady: Progressing, nova-metadata: its controller has not processed it yet
  AuthoritiesReady: True, Ready, the authority of live migrations is replaced from 2032-08-30 on; the authority of consoles is replaced from 2032-08-30 on
  ConfigValid: True, UnknownOptions, spec.config.DEFAULT.debgu: Nova 2025.1 ignores it: there is no option 'debgu' in section [DEFAULT]; did you mean debug?
  Ready: True, Progressing, nova-conductor: its controller has not processed it yet; Cells: nova-cell1-conductor: its controller has not processed it yet; nova-cell1-novncproxy: its controller has not processed it yet; nova-cell1-compute: its controller has not processed it yet; nova-scheduler: its controller has not processed it yet; nova-api: its controller has not processed it yet; nova-metadata: its controller has not processed it yet
