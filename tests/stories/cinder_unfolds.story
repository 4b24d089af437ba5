
CephStorage is Ceph does not answer yet.
  + NetworkPolicy/cinder-egress
  + Secret/cinder-credentials
  + MariaDBDatabase/cinder-db
  + RabbitMQVhost/cinder-messaging
  + KeystoneUser/cinder-user
  + Secret/cinder-config
  + Secret/cinder-rootless
  + Secret/cinder-ceph-config
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  DatabaseReady: Progressing, MariaDBDatabase/cinder-db has not reported yet
  MessagingReady: Progressing, RabbitMQVhost/cinder-messaging has not reported yet
  IdentityReady: Progressing, KeystoneUser/cinder-user has not reported yet
  SchemaReady: Waiting, waiting for Database
  APIReady: Waiting, waiting for Database, Messaging, Identity, Schema
  SchedulerReady: Waiting, waiting for Database, Messaging, Identity, Schema
  CephConnected: Progressing, Ceph does not answer yet
  BackendsReady: Waiting, waiting for CephConnected, Database, Messaging, Identity, Schema; waiting for API, Scheduler, Backend ceph
  EndpointReady: Waiting, waiting for Database, Messaging, Identity, API
  VolumeTypesReady: Waiting, waiting for API
  PurgeReady: Waiting, waiting for Schema
  Ready: Progressing, Database: MariaDBDatabase/cinder-db has not reported yet; Messaging: RabbitMQVhost/cinder-messaging has not reported yet; Identity: KeystoneUser/cinder-user has not reported yet; CephConnected: Ceph does not answer yet

Finished: MariaDBDatabase, RabbitMQVhost, KeystoneUser.
  + Job/cinder-db-sync-…
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  SchemaReady: Progressing, job cinder-db-sync-… is running
  APIReady: Waiting, waiting for Schema
  SchedulerReady: Waiting, waiting for Schema
  CephConnected: Progressing, Ceph does not answer yet
  BackendsReady: Waiting, waiting for CephConnected, Schema; waiting for API, Scheduler, Backend ceph
  EndpointReady: Waiting, waiting for API
  VolumeTypesReady: Waiting, waiting for API
  PurgeReady: Waiting, waiting for Schema
  Ready: Progressing, Schema: job cinder-db-sync-… is running; CephConnected: Ceph does not answer yet

Finished: Job.
  + Deployment/cinder-api
  + Service/cinder-api
  + PodDisruptionBudget/cinder-api
  + StatefulSet/cinder-scheduler
  + CronJob/cinder-purge
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  APIReady: Progressing, cinder-api: 0/1 pods ready
  SchedulerReady: Progressing, cinder-scheduler: 0/1 pods ready
  CephConnected: Progressing, Ceph does not answer yet
  BackendsReady: Waiting, waiting for CephConnected; waiting for API, Scheduler, Backend ceph
  EndpointReady: Waiting, waiting for API
  VolumeTypesReady: Waiting, waiting for API
  Ready: Progressing, cinder-api: 0/1 pods ready; cinder-scheduler: 0/1 pods ready; CephConnected: Ceph does not answer yet

CephStorage is ready.
  + StatefulSet/cinder-volume-ceph
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  APIReady: Progressing, cinder-api: 0/1 pods ready
  SchedulerReady: Progressing, cinder-scheduler: 0/1 pods ready
  BackendsReady: Progressing, cinder-volume-ceph: 0/1 pods ready
  EndpointReady: Waiting, waiting for API
  VolumeTypesReady: Waiting, waiting for API
  Ready: Progressing, cinder-api: 0/1 pods ready; cinder-scheduler: 0/1 pods ready; Backends: cinder-volume-ceph: 0/1 pods ready

… until everything stands.
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  Ready: True

CinderBackend/cinder-ceph: status Down, message no cinder-volume reports for it.
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  BackendsReady: Progressing, backend ceph is down: no cinder-volume reports for it; see the log of cinder-volume-ceph-0
  Ready: Progressing, Backends: backend ceph is down: no cinder-volume reports for it; see the log of cinder-volume-ceph-0

CinderBackend/cinder-ceph: status Ready, availableCapacity 100Gi, volumes 2.

The user writes backends: [{'name': 'files', 'type': 'nfs', 'nfs': {'shares': ['files.example:/volumes']}}].
  InvalidSpec: spec.backends: backend 'ceph' still has 2 volumes; delete or migrate the volumes, restore it, or list it in spec.allowOrphans to abandon its volumes

The user writes backends: [{'name': 'ceph', 'type': 'ceph'}, {'name': 'files', 'type': 'nfs', 'nfs': {'shares': ['files.example:/volumes']}}].

… until everything stands.
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  Ready: True

CinderBackend/cinder-ceph: status Ready, availableCapacity 100Gi, volumes 0.

The user writes backends: [{'name': 'files', 'type': 'nfs', 'nfs': {'shares': ['files.example:/volumes']}}].
  ~ Secret/cinder-config
  ~ Deployment/cinder-api
  ~ StatefulSet/cinder-scheduler
  + Job/cinder-forget-ceph-…
  - Secret/cinder-ceph-config
  - StatefulSet/cinder-volume-ceph
  - CinderVolumeType/cinder-ceph
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  APIReady: Progressing, cinder-api: its controller has not processed it yet
  SchedulerReady: Progressing, cinder-scheduler: its controller has not processed it yet
  BackendsReady: Progressing, job cinder-forget-ceph-… is running
  Ready: True, Progressing, cinder-api: its controller has not processed it yet; cinder-scheduler: its controller has not processed it yet; Backends: job cinder-forget-ceph-… is running

Finished: everything that was applied.
  - CinderBackend/cinder-ceph
  - Job/cinder-forget-ceph-…
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  Ready: True
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  Ready: True
