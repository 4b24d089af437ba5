
A CephStorage appears, with a Ceph of its own.
  + NetworkPolicy/cephstorage-egress
  + Secret/cephstorage-keys
  + Secret/cephstorage-daemon-config
  + Secret/cephstorage-record
  + Service/cephstorage-mon-a
  + Secret/cephstorage-mon-key
  + Secret/cephstorage-mgr-key
  + Secret/cephstorage-osd-key
  + Service/cephstorage-mons
  + StatefulSet/cephstorage-mon
  + PodDisruptionBudget/cephstorage-mon
  + Secret/cephstorage-client-volumes
  + Secret/cephstorage-client-images
  + Secret/cephstorage-client-vms
  + Secret/cephstorage-client-backups
  + Secret/cephstorage-pools-setup
  + Secret/cephstorage-status-setup
  + Deployment/cephstorage-status
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  MonitorsReady: Progressing, cephstorage-mon: 0/1 pods ready
  ManagerReady: Waiting, waiting for Monitors
  OSDsReady: Waiting, waiting for Monitors
  PoolsReady: Waiting, waiting for Monitors, Manager, OSDs
  StatusReady: Progressing, cephstorage-status: 0/1 pods ready
  CephConnected: Progressing, the status pod has not reported yet
  HealthReady: Progressing, unknown, because Ceph does not answer
  Ready: Progressing, Monitors: cephstorage-mon: 0/1 pods ready; cephstorage-status: 0/1 pods ready; CephConnected: the status pod has not reported yet; Health: unknown, because Ceph does not answer

Finished: StatefulSet.
  ~ Secret/cephstorage-record
  + Deployment/cephstorage-mgr
  + Service/cephstorage-osds
  + StatefulSet/cephstorage-osd
  + PodDisruptionBudget/cephstorage-osd
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  ManagerReady: Progressing, cephstorage-mgr: 0/1 pods ready
  OSDsReady: Progressing, cephstorage-osd: 0/1 pods ready
  PoolsReady: Waiting, waiting for Manager, OSDs
  StatusReady: Progressing, cephstorage-status: 0/1 pods ready
  CephConnected: Progressing, the status pod has not reported yet
  HealthReady: Progressing, unknown, because Ceph does not answer
  Ready: Progressing, Manager: cephstorage-mgr: 0/1 pods ready; OSDs: cephstorage-osd: 0/1 pods ready; cephstorage-status: 0/1 pods ready; CephConnected: the status pod has not reported yet; Health: unknown, because Ceph does not answer

Finished: StatefulSet.
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  ManagerReady: Progressing, cephstorage-mgr: 0/1 pods ready
  PoolsReady: Waiting, waiting for Manager
  StatusReady: Progressing, cephstorage-status: 0/1 pods ready
  CephConnected: Progressing, the status pod has not reported yet
  HealthReady: Progressing, unknown, because Ceph does not answer
  Ready: Progressing, Manager: cephstorage-mgr: 0/1 pods ready; cephstorage-status: 0/1 pods ready; CephConnected: the status pod has not reported yet; Health: unknown, because Ceph does not answer

Finished: Deployment.
  + Job/cephstorage-pools-…
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  PoolsReady: Progressing, job cephstorage-pools-… is running
  CephConnected: Progressing, the status pod has not reported yet
  HealthReady: Progressing, unknown, because Ceph does not answer
  Ready: Progressing, Pools: job cephstorage-pools-… is running; CephConnected: the status pod has not reported yet; Health: unknown, because Ceph does not answer

Finished: Job.
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  CephConnected: Progressing, the status pod has not reported yet
  HealthReady: Progressing, unknown, because Ceph does not answer
  Ready: Progressing, CephConnected: the status pod has not reported yet; Health: unknown, because Ceph does not answer

The pod that looks is heard.
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  Ready: True

An OSD fills up.
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  HealthReady: Unhealthy, HEALTH_ERR: OSD_FULL: 1 full osd(s); osd.0 is full
  Ready: Unhealthy, HEALTH_ERR: OSD_FULL: 1 full osd(s); osd.0 is full

Somebody removes the monitors' Service.
  + Service/cephstorage-mon-a
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  Ready: True
