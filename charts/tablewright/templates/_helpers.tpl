{{- define "tablewright.name" -}}
{{- if contains "tablewright" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-tablewright" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end -}}
{{- end -}}

{{- define "tablewright.selector" -}}
app.kubernetes.io/name: tablewright
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "tablewright.labels" -}}
{{ include "tablewright.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
{{- end -}}

{{/* Of a list: an image, and the version that is its tag if it names none. */}}
{{- define "tablewright.image" -}}
{{- $image := index . 0 -}}
{{- if $image.digest }}{{ $image.repository }}@{{ $image.digest }}{{ else }}{{ $image.repository }}:{{ $image.tag | default (index . 1) }}{{ end -}}
{{- end -}}

{{/* The operator's rights over what it watches: in a ClusterRole, or in a Role of each namespace. */}}
{{- define "tablewright.rules" -}}
# What people declare is read; only finalizers and status are written.
- apiGroups: [tablewright.dev]
  resources: [tablecatalogs, tablepolicies, managedtables, maintenanceruns]
  verbs: [get, list, watch]
- apiGroups: [tablewright.dev]
  resources: [managedtables]
  verbs: [patch]
- apiGroups: [tablewright.dev]
  resources: [managedtables/status, maintenanceruns/status, tablecatalogs/status, tablepolicies/status]
  verbs: [patch]
- apiGroups: [tablewright.dev]
  resources: [managedtables/finalizers, maintenanceruns/finalizers]
  verbs: [update]
# Runs are started, and stopped when their table goes.
- apiGroups: [tablewright.dev]
  resources: [maintenanceruns]
  verbs: [create, delete]
# A Job whose pod never started is replaced when what it was made with was corrected.
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch, create, delete]
# The driver's report is in its pod's termination message.
- apiGroups: [""]
  resources: [pods]
  verbs: [list]
# The pointers of ConfigMap catalogs.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch, create, update, delete]
# Storage credentials that a TableCatalog names.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get]
# What happened, for people to read; and why a Job has no pod, which only its events say.
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, list]
{{- end -}}
