{{- define "pg-graphrag.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "pg-graphrag.cluster" -}}
{{ include "pg-graphrag.name" . }}-db
{{- end }}

{{/* Labels that never change, of one part: (list . "serve") */}}
{{- define "pg-graphrag.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ $root.Chart.Name }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "pg-graphrag.labels" -}}
{{- $root := index . 0 -}}
{{ include "pg-graphrag.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
{{- end }}

{{/* Of pods that Kubernetes' profile "restricted" admits. */}}
{{- define "pg-graphrag.podSecurity" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 26
  runAsGroup: 26
  fsGroup: 26
  seccompProfile:
    type: RuntimeDefault
{{- end }}

{{- define "pg-graphrag.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop:
      - ALL
{{- end }}

{{- define "pg-graphrag.caSecret" -}}
{{- $root := index . 0 -}}
{{- $part := index . 1 -}}
{{- if $part.caSecret }}{{ $part.caSecret }}
{{- else if $root.Values.cluster.enabled }}{{ include "pg-graphrag.cluster" $root }}-ca
{{- end }}
{{- end }}

{{/* Where the database is: (list . .Values.serve "app"), the last being the Cluster's role. */}}
{{- define "pg-graphrag.environment" -}}
{{- $root := index . 0 -}}
{{- $part := index . 1 -}}
{{- $role := index . 2 -}}
{{- if $part.urlSecret -}}
- name: PG_GRAPHRAG_URL
  valueFrom:
    secretKeyRef:
      {{- toYaml $part.urlSecret | nindent 6 }}
{{- else if $root.Values.cluster.enabled -}}
- name: PGDATABASE
  value: app
{{- range $variable, $key := dict "PGHOST" "host" "PGUSER" "username" "PGPASSWORD" "password" }}
- name: {{ $variable }}
  valueFrom:
    secretKeyRef:
      name: {{ include "pg-graphrag.cluster" $root }}-{{ $role }}
      key: {{ $key }}
{{- end }}
{{- else -}}
{{- fail "without cluster.enabled, urlSecret must name the Secret with the URL of the database" }}
{{- end }}
{{- if include "pg-graphrag.caSecret" . }}
- name: PGSSLMODE
  value: verify-full
- name: PGSSLROOTCERT
  value: /etc/pg-graphrag/ca/ca.crt
{{- end }}
{{- end }}

{{- define "pg-graphrag.mounts" -}}
- name: tmp
  mountPath: /tmp
{{- if include "pg-graphrag.caSecret" . }}
- name: ca
  mountPath: /etc/pg-graphrag/ca
  readOnly: true
{{- end }}
{{- end }}

{{- define "pg-graphrag.volumes" -}}
- name: tmp
  emptyDir:
    sizeLimit: 1Gi
{{- with include "pg-graphrag.caSecret" . }}
- name: ca
  secret:
    secretName: {{ . }}
    items:
      - key: ca.crt
        path: ca.crt
{{- end }}
{{- end }}
