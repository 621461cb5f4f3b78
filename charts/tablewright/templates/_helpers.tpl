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

{{/* The operator's rights over our own kinds: in a ClusterRole, or in a Role of each namespace. */}}
{{- define "tablewright.rules" -}}
# Our own kinds: what people declare is read; only finalizers and status are written.
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
{{- end -}}

{{/* Its rights in a namespace with tables, over what others have objects of, too. */}}
{{- define "tablewright.tablesRules" -}}
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
# The Secrets that a TableCatalog names, each by its name.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get]
# What happened, for people to read; and why a Job has no pod, which only its events say.
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, list]
{{- end -}}

{{/* The rights of the jobs' account. */}}
{{- define "tablewright.jobsRules" -}}
# Progress.
- apiGroups: [tablewright.dev]
  resources: [maintenanceruns/status]
  verbs: [patch]
# The pointers of ConfigMap catalogs.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, update]
# The driver's own pod, and those of its executors.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, delete, deletecollection]
{{- end -}}

{{/* ClusterRoles are the cluster's: two releases must not share one. */}}
{{- define "tablewright.clusterRole" -}}
{{ include "tablewright.name" . }}-{{ .Release.Namespace }}
{{- end -}}
