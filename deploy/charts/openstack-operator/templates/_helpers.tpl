{{- /* Labels of all objects, beside app.kubernetes.io/name. */ -}}
{{- define "openstack-operator.labels" -}}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* Image of the operator; a tag beside a digest is for readers. */ -}}
{{- define "openstack-operator.image" -}}
{{- if .Values.image.digest }}
{{- .Values.image.repository }}{{ with .Values.image.tag }}:{{ . }}{{ end }}@{{ .Values.image.digest }}
{{- else }}
{{- .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{- /*
A role with its rules, bound to the operator's account. Takes `root`; `scope`, which is "Cluster" or empty; `namespace`
of a role without scope; `name` and `rules`.
*/ -}}
{{- define "openstack-operator.grant" }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .scope }}Role
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . | quote }}
  {{- end }}
  labels:
    app.kubernetes.io/name: openstack-operator
    {{- include "openstack-operator.labels" .root | nindent 4 }}
rules:
{{ .rules }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .scope }}RoleBinding
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . | quote }}
  {{- end }}
  labels:
    app.kubernetes.io/name: openstack-operator
    {{- include "openstack-operator.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .scope }}Role
  name: {{ .name }}
subjects:
- kind: ServiceAccount
  name: openstack-operator
  namespace: {{ .root.Release.Namespace | quote }}
{{- end }}
