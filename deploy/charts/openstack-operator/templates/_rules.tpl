{{- /* Made by `openstack-operator generate`; change the models instead. */ -}}
{{- define "openstack-operator.rules" -}}
- apiGroups:
  - ''
  resources:
  - configmaps
  - persistentvolumeclaims
  - services
  verbs:
  - create
  - delete
  - get
  - list
  - patch
  - watch
- apiGroups:
  - ''
  resources:
  - events
  verbs:
  - create
  - list
  - watch
- apiGroups:
  - ''
  resources:
  - namespaces
  verbs:
  - get
- apiGroups:
  - ''
  resources:
  - pods
  verbs:
  - delete
  - get
  - list
  - patch
  - watch
- apiGroups:
  - ''
  resources:
  - secrets
  verbs:
  - create
  - delete
  - get
  - list
  - patch
  - update
  - watch
- apiGroups:
  - apps
  resources:
  - daemonsets
  - deployments
  - statefulsets
  verbs:
  - create
  - delete
  - get
  - list
  - patch
  - watch
- apiGroups:
  - autoscaling
  resources:
  - horizontalpodautoscalers
  verbs:
  - create
  - delete
  - get
  - list
  - patch
  - watch
- apiGroups:
  - batch
  resources:
  - cronjobs
  - jobs
  verbs:
  - create
  - delete
  - get
  - list
  - patch
  - watch
- apiGroups:
  - networking.k8s.io
  resources:
  - ingresses
  - networkpolicies
  verbs:
  - create
  - delete
  - get
  - list
  - patch
  - watch
- apiGroups:
  - openstack.k8s.io
  resources:
  - barbicans
  - cephstorages
  - cinders
  - glances
  - keystones
  - keystoneservices
  - mariadbs
  - memcacheds
  - neutrons
  - novas
  - octavias
  - ovnnetworks
  - placements
  - rabbitmqs
  verbs:
  - create
  - delete
  - get
  - list
  - patch
  - run-on-nodes
  - watch
- apiGroups:
  - openstack.k8s.io
  resources:
  - barbicans/finalizers
  - cephstorages/finalizers
  - cinderbackends/finalizers
  - cinderquotas/finalizers
  - cinders/finalizers
  - cindervolumetypes/finalizers
  - credentialrotations/finalizers
  - designates/finalizers
  - etcds/finalizers
  - glances/finalizers
  - heats/finalizers
  - horizons/finalizers
  - hypervisorclusters/finalizers
  - keystoneapplicationcredentials/finalizers
  - keystonedomains/finalizers
  - keystoneidentityproviders/finalizers
  - keystones/finalizers
  - keystoneservices/finalizers
  - keystoneusers/finalizers
  - mariadbdatabases/finalizers
  - mariadbs/finalizers
  - memcacheds/finalizers
  - neutrons/finalizers
  - novas/finalizers
  - octavias/finalizers
  - openstackbackups/finalizers
  - openstackbackupschedules/finalizers
  - openstackcontrolplanes/finalizers
  - openstackrestores/finalizers
  - ovnnetworks/finalizers
  - pkis/finalizers
  - placements/finalizers
  - rabbitmqs/finalizers
  - rabbitmqvhosts/finalizers
  - valkeys/finalizers
  verbs:
  - update
- apiGroups:
  - openstack.k8s.io
  resources:
  - barbicans/status
  - cephstorages/status
  - cinderbackends/status
  - cinderquotas/status
  - cinders/status
  - cindervolumetypes/status
  - credentialrotations/status
  - designates/status
  - etcds/status
  - glances/status
  - heats/status
  - horizons/status
  - hypervisorclusters/status
  - keystoneapplicationcredentials/status
  - keystonedomains/status
  - keystoneidentityproviders/status
  - keystones/status
  - keystoneservices/status
  - keystoneusers/status
  - mariadbdatabases/status
  - mariadbs/status
  - memcacheds/status
  - neutrons/status
  - novas/status
  - octavias/status
  - openstackbackups/status
  - openstackbackupschedules/status
  - openstackcontrolplanes/status
  - openstackrestores/status
  - ovnnetworks/status
  - pkis/status
  - placements/status
  - rabbitmqs/status
  - rabbitmqvhosts/status
  - valkeys/status
  verbs:
  - get
  - patch
- apiGroups:
  - openstack.k8s.io
  resources:
  - cinderbackends
  - cinderquotas
  - cindervolumetypes
  - designates
  - etcds
  - heats
  - horizons
  - keystoneapplicationcredentials
  - keystonedomains
  - keystoneidentityproviders
  - keystoneusers
  - mariadbdatabases
  - openstackbackups
  - pkis
  - rabbitmqvhosts
  - valkeys
  verbs:
  - create
  - delete
  - get
  - list
  - patch
  - watch
- apiGroups:
  - openstack.k8s.io
  resources:
  - credentialrotations
  - openstackbackupschedules
  verbs:
  - create
  - get
  - list
  - patch
  - watch
- apiGroups:
  - openstack.k8s.io
  resources:
  - hypervisorclusters
  - openstackcontrolplanes
  verbs:
  - create
  - get
  - list
  - patch
  - run-on-nodes
  - watch
- apiGroups:
  - openstack.k8s.io
  resources:
  - openstackrestores
  verbs:
  - get
  - list
  - patch
  - watch
- apiGroups:
  - policy
  resources:
  - poddisruptionbudgets
  verbs:
  - create
  - delete
  - get
  - list
  - patch
  - watch
{{- end }}
{{- define "openstack-operator.rules.lease" -}}
- apiGroups:
  - coordination.k8s.io
  resources:
  - leases
  verbs:
  - get
  - update
  resourceNames:
  - openstack-operator
- apiGroups:
  - coordination.k8s.io
  resources:
  - leases
  verbs:
  - create
{{- end }}
{{- define "openstack-operator.rules.nodes" -}}
- apiGroups:
  - ''
  resources:
  - nodes
  verbs:
  - get
  - list
  - watch
- apiGroups:
  - admissionregistration.k8s.io
  resources:
  - validatingadmissionpolicies
  - validatingadmissionpolicybindings
  verbs:
  - get
  resourceNames:
  - openstack-operator-backups
  - openstack-operator-barbicans
  - openstack-operator-cephstorages
  - openstack-operator-cinders
  - openstack-operator-controlplanes
  - openstack-operator-glances
  - openstack-operator-hypervisorclusters
  - openstack-operator-keystones
  - openstack-operator-keystoneservices
  - openstack-operator-mariadbs
  - openstack-operator-memcacheds
  - openstack-operator-neutrons
  - openstack-operator-novas
  - openstack-operator-octavias
  - openstack-operator-openstackcontrolplanes
  - openstack-operator-ovnclusters
  - openstack-operator-ovnnetworks
  - openstack-operator-placements
  - openstack-operator-pod-endings
  - openstack-operator-pods
  - openstack-operator-rabbitmqs
{{- end }}
{{- define "openstack-operator.rules.reviews" -}}
- apiGroups:
  - authentication.k8s.io
  resources:
  - tokenreviews
  verbs:
  - create
- apiGroups:
  - authorization.k8s.io
  resources:
  - subjectaccessreviews
  verbs:
  - create
{{- end }}
{{- define "openstack-operator.rules.c5c3" -}}
- apiGroups:
  - c5c3.io
  resources:
  - controlplanes
  verbs:
  - create
  - get
  - list
  - patch
  - run-on-nodes
  - watch
- apiGroups:
  - c5c3.io
  resources:
  - controlplanes/finalizers
  - credentialrotations/finalizers
  - secretaggregates/finalizers
  verbs:
  - update
- apiGroups:
  - c5c3.io
  resources:
  - controlplanes/status
  - credentialrotations/status
  - secretaggregates/status
  verbs:
  - get
  - patch
- apiGroups:
  - c5c3.io
  resources:
  - credentialrotations
  - secretaggregates
  verbs:
  - create
  - get
  - list
  - patch
  - watch
- apiGroups:
  - cinder.openstack.c5c3.io
  resources:
  - cinders
  verbs:
  - create
  - delete
  - get
  - list
  - patch
  - run-on-nodes
  - watch
- apiGroups:
  - cinder.openstack.c5c3.io
  resources:
  - cinders/finalizers
  verbs:
  - update
- apiGroups:
  - cinder.openstack.c5c3.io
  resources:
  - cinders/status
  verbs:
  - get
  - patch
- apiGroups:
  - cortex.c5c3.io
  resources:
  - cortexes
  verbs:
  - create
  - delete
  - get
  - list
  - patch
  - watch
- apiGroups:
  - cortex.c5c3.io
  resources:
  - cortexes/finalizers
  verbs:
  - update
- apiGroups:
  - cortex.c5c3.io
  resources:
  - cortexes/status
  verbs:
  - get
  - patch
- apiGroups:
  - glance.openstack.c5c3.io
  resources:
  - glances
  verbs:
  - create
  - delete
  - get
  - list
  - patch
  - run-on-nodes
  - watch
- apiGroups:
  - glance.openstack.c5c3.io
  resources:
  - glances/finalizers
  verbs:
  - update
- apiGroups:
  - glance.openstack.c5c3.io
  resources:
  - glances/status
  verbs:
  - get
  - patch
- apiGroups:
  - keystone.openstack.c5c3.io
  resources:
  - keystones
  verbs:
  - create
  - delete
  - get
  - list
  - patch
  - run-on-nodes
  - watch
- apiGroups:
  - keystone.openstack.c5c3.io
  resources:
  - keystones/finalizers
  verbs:
  - update
- apiGroups:
  - keystone.openstack.c5c3.io
  resources:
  - keystones/status
  verbs:
  - get
  - patch
- apiGroups:
  - neutron.openstack.c5c3.io
  resources:
  - neutrons
  verbs:
  - create
  - delete
  - get
  - list
  - patch
  - run-on-nodes
  - watch
- apiGroups:
  - neutron.openstack.c5c3.io
  resources:
  - neutrons/finalizers
  verbs:
  - update
- apiGroups:
  - neutron.openstack.c5c3.io
  resources:
  - neutrons/status
  verbs:
  - get
  - patch
- apiGroups:
  - nova.openstack.c5c3.io
  resources:
  - novas
  verbs:
  - create
  - delete
  - get
  - list
  - patch
  - run-on-nodes
  - watch
- apiGroups:
  - nova.openstack.c5c3.io
  resources:
  - novas/finalizers
  verbs:
  - update
- apiGroups:
  - nova.openstack.c5c3.io
  resources:
  - novas/status
  verbs:
  - get
  - patch
- apiGroups:
  - ovn.c5c3.io
  resources:
  - ovnchassis
  verbs:
  - create
  - delete
  - get
  - list
  - patch
  - watch
- apiGroups:
  - ovn.c5c3.io
  resources:
  - ovnchassis/finalizers
  - ovnclusters/finalizers
  verbs:
  - update
- apiGroups:
  - ovn.c5c3.io
  resources:
  - ovnchassis/status
  - ovnclusters/status
  verbs:
  - get
  - patch
- apiGroups:
  - ovn.c5c3.io
  resources:
  - ovnclusters
  verbs:
  - create
  - get
  - list
  - patch
  - run-on-nodes
  - watch
- apiGroups:
  - placement.openstack.c5c3.io
  resources:
  - placements
  verbs:
  - create
  - delete
  - get
  - list
  - patch
  - run-on-nodes
  - watch
- apiGroups:
  - placement.openstack.c5c3.io
  resources:
  - placements/finalizers
  verbs:
  - update
- apiGroups:
  - placement.openstack.c5c3.io
  resources:
  - placements/status
  verbs:
  - get
  - patch
- apiGroups:
  - tempest.openstack.c5c3.io
  resources:
  - tempests
  verbs:
  - create
  - delete
  - get
  - list
  - patch
  - watch
- apiGroups:
  - tempest.openstack.c5c3.io
  resources:
  - tempests/finalizers
  verbs:
  - update
- apiGroups:
  - tempest.openstack.c5c3.io
  resources:
  - tempests/status
  verbs:
  - get
  - patch
{{- end }}
{{- define "openstack-operator.rules.cert-manager" -}}
- apiGroups:
  - cert-manager.io
  resources:
  - certificates
  verbs:
  - create
  - delete
  - get
  - list
  - patch
  - watch
- apiGroups:
  - cert-manager.io
  resources:
  - clusterissuers
  - issuers
  verbs:
  - get
{{- end }}
{{- define "openstack-operator.rules.external-secrets" -}}
- apiGroups:
  - external-secrets.io
  resources:
  - externalsecrets
  - pushsecrets
  verbs:
  - create
  - delete
  - get
  - list
  - patch
  - watch
{{- end }}
{{- define "openstack-operator.rules.gateway-api" -}}
- apiGroups:
  - gateway.networking.k8s.io
  resources:
  - backendtlspolicies
  - httproutes
  verbs:
  - create
  - delete
  - get
  - list
  - patch
  - watch
{{- end }}
{{- define "openstack-operator.rules.k-orc" -}}
- apiGroups:
  - openstack.k-orc.cloud
  resources:
  - domains
  - projects
  - roles
  - services
  - users
  verbs:
  - create
  - delete
  - get
  - list
  - patch
  - watch
{{- end }}
{{- define "openstack-operator.rules.mariadb-operator" -}}
- apiGroups:
  - k8s.mariadb.com
  resources:
  - databases
  - grants
  - mariadbs
  - physicalbackups
  - users
  verbs:
  - create
  - delete
  - get
  - list
  - patch
  - watch
{{- end }}
{{- define "openstack-operator.rules.memcached-operator" -}}
- apiGroups:
  - memcached.c5c3.io
  resources:
  - memcacheds
  verbs:
  - create
  - delete
  - get
  - list
  - patch
  - watch
{{- end }}
{{- define "openstack-operator.rules.monitoring" -}}
- apiGroups:
  - monitoring.coreos.com
  resources:
  - podmonitors
  - prometheusrules
  verbs:
  - create
  - delete
  - get
  - list
  - patch
  - watch
{{- end }}
{{- define "openstack-operator.rules.rabbitmq-operators" -}}
- apiGroups:
  - rabbitmq.com
  resources:
  - permissions
  - policies
  - rabbitmqclusters
  - users
  - vhosts
  verbs:
  - create
  - delete
  - get
  - list
  - patch
  - watch
{{- end }}
{{- define "openstack-operator.rules.rook" -}}
- apiGroups:
  - ceph.rook.io
  resources:
  - cephblockpools
  - cephclients
  - cephclusters
  verbs:
  - create
  - delete
  - get
  - list
  - patch
  - watch
{{- end }}
{{- define "openstack-operator.rules.valkey-operator" -}}
- apiGroups:
  - cache.cs.sap.com
  resources:
  - valkeys
  verbs:
  - create
  - delete
  - get
  - list
  - patch
  - watch
{{- end }}
