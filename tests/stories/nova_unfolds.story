
Neutron is not ready: API: neutron-api: 0/1 pods ready.
  + NetworkPolicy/nova-egress
  + Secret/nova-credentials
  + MariaDBDatabase/nova-api-db
  + MariaDBDatabase/nova-cell0-db
  + RabbitMQVhost/nova-messaging
  + KeystoneUser/nova-user
  + Secret/nova-config
  + Secret/nova-console-ca
  + Secret/nova-console-node
  + Secret/nova-console-proxy
  + MariaDBDatabase/nova-cell1-db
  + RabbitMQVhost/nova-cell1
  + Secret/nova-cell1-setup
  + Secret/nova-cell1-config
  + Secret/nova-cell1--console-config
  + Service/nova-cell1-novncproxy
  + KeystoneUser/nova-compute-user
  + Secret/nova-migration-ca
  + Secret/nova-migration
  + DaemonSet/nova-libvirt
  + Secret/nova-cell1-compute-config
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  DatabaseReady: Progressing, MariaDBDatabase/nova-api-db has not reported yet; MariaDBDatabase/nova-cell0-db has not reported yet
  MessagingReady: Progressing, RabbitMQVhost/nova-messaging has not reported yet
  IdentityReady: Progressing, KeystoneUser/nova-user has not reported yet
  NeutronReady: Progressing, not ready: API: neutron-api: 0/1 pods ready
  SchemaReady: Waiting, waiting for Database
  ConductorReady: Waiting, waiting for Identity, Messaging, Schema
  CellsReady: Progressing, MariaDBDatabase/nova-cell1-db has not reported yet; RabbitMQVhost/nova-cell1 has not reported yet
  ComputeReady: Progressing, KeystoneUser/nova-compute-user has not reported yet
  SchedulerReady: Waiting, waiting for Identity, Messaging, Schema, Cell1Setup
  APIReady: Waiting, waiting for Identity, Messaging, Schema, Cell1Setup
  MetadataReady: Waiting, waiting for Identity, Messaging, Schema, Cell1Setup
  EndpointReady: Waiting, waiting for Neutron, Identity, API
  AuthoritiesReady: True, Ready, the authority of live migrations is replaced from 2032-08-30 on; the authority of consoles is replaced from 2032-08-30 on
  Ready: Progressing, Database: MariaDBDatabase/nova-api-db has not reported yet; MariaDBDatabase/nova-cell0-db has not reported yet; Messaging: RabbitMQVhost/nova-messaging has not reported yet; Identity: KeystoneUser/nova-user has not reported yet; Neutron: not ready: API: neutron-api: 0/1 pods ready; Cells: MariaDBDatabase/nova-cell1-db has not reported yet; RabbitMQVhost/nova-cell1 has not reported yet; Compute: KeystoneUser/nova-compute-user has not reported yet

Finished: MariaDBDatabase, RabbitMQVhost, KeystoneUser.
  + Job/nova-db-sync-…
  + RabbitMQVhost/nova-cell1--console
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  NeutronReady: Progressing, not ready: API: neutron-api: 0/1 pods ready
  SchemaReady: Progressing, job nova-db-sync-… is running
  ConductorReady: Waiting, waiting for Schema
  CellsReady: Progressing, RabbitMQVhost/nova-cell1--console has not reported yet
  ComputeReady: Waiting, waiting for Neutron, Cell1Conductor
  SchedulerReady: Waiting, waiting for Schema, Cell1Setup
  APIReady: Waiting, waiting for Schema, Cell1Setup
  MetadataReady: Waiting, waiting for Schema, Cell1Setup
  EndpointReady: Waiting, waiting for Neutron, API
  AuthoritiesReady: True, Ready, the authority of live migrations is replaced from 2032-08-30 on; the authority of consoles is replaced from 2032-08-30 on
  Ready: Progressing, Neutron: not ready: API: neutron-api: 0/1 pods ready; Schema: job nova-db-sync-… is running; Cells: RabbitMQVhost/nova-cell1--console has not reported yet

Finished: Job.
  + StatefulSet/nova-conductor
  + Job/nova-cell1-setup-…
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  NeutronReady: Progressing, not ready: API: neutron-api: 0/1 pods ready
  ConductorReady: Progressing, nova-conductor: 0/1 pods ready
  CellsReady: Progressing, job nova-cell1-setup-… is running; RabbitMQVhost/nova-cell1--console has not reported yet
  ComputeReady: Waiting, waiting for Neutron, Cell1Conductor
  SchedulerReady: Waiting, waiting for Cell1Setup
  APIReady: Waiting, waiting for Cell1Setup
  MetadataReady: Waiting, waiting for Cell1Setup
  EndpointReady: Waiting, waiting for Neutron, API
  AuthoritiesReady: True, Ready, the authority of live migrations is replaced from 2032-08-30 on; the authority of consoles is replaced from 2032-08-30 on
  Ready: Progressing, Neutron: not ready: API: neutron-api: 0/1 pods ready; nova-conductor: 0/1 pods ready; Cells: job nova-cell1-setup-… is running; RabbitMQVhost/nova-cell1--console has not reported yet

Neutron is ready.
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  ConductorReady: Progressing, nova-conductor: 0/1 pods ready
  CellsReady: Progressing, job nova-cell1-setup-… is running; RabbitMQVhost/nova-cell1--console has not reported yet
  ComputeReady: Waiting, waiting for Cell1Conductor
  SchedulerReady: Waiting, waiting for Cell1Setup
  APIReady: Waiting, waiting for Cell1Setup
  MetadataReady: Waiting, waiting for Cell1Setup
  EndpointReady: Waiting, waiting for API
  AuthoritiesReady: True, Ready, the authority of live migrations is replaced from 2032-08-30 on; the authority of consoles is replaced from 2032-08-30 on
  Ready: Progressing, nova-conductor: 0/1 pods ready; Cells: job nova-cell1-setup-… is running; RabbitMQVhost/nova-cell1--console has not reported yet

… until everything stands.
  NetworkPoliciesReady: True, Ready, the objects are applied; the network plug-in of the cluster enforces them, or does not
  AuthoritiesReady: True, Ready, the authority of live migrations is replaced from 2032-08-30 on; the authority of consoles is replaced from 2032-08-30 on
  Ready: True
