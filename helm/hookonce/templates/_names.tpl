{{/* Names, labels and the image. */}}

{{- define "hookonce.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimAll "-." -}}
{{- end -}}

{{/*
The first part of every name. Ten letters are left for "-dashboard", so that no name has more than 63; and a Service's holds no dot,
though a release's may.
*/}}
{{- define "hookonce.fullname" -}}
{{- $name := .Values.nameOverride | default .Chart.Name -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- .Values.fullnameOverride | default $full | replace "." "-" | trunc 53 | trimAll "-" -}}
{{- end -}}

{{- define "hookonce.adminName" -}}
{{- include "hookonce.fullname" . }}-admin
{{- end -}}

{{- define "hookonce.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (ternary (include "hookonce.fullname" .) "default" .Values.serviceAccount.create) -}}
{{- end -}}

{{/* What tells this release's objects of one component from all others: dict "context" $ "component" NAME. */}}
{{- define "hookonce.selectorLabels" -}}
app.kubernetes.io/name: {{ include "hookonce.name" .context }}
app.kubernetes.io/instance: {{ .context.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/*
All labels of an object: dict "context" $ "component" NAME, and "more" for those of the values. Nobody's take the place of those
that objects are selected by.
*/}}
{{- define "hookonce.labels" -}}
{{- $own := dict "app.kubernetes.io/version" (include "hookonce.label" .context.Chart.AppVersion) -}}
{{- $_ := set $own "app.kubernetes.io/managed-by" .context.Release.Service -}}
{{- $_ := set $own "helm.sh/chart" (include "hookonce.label" (printf "%s-%s" .context.Chart.Name .context.Chart.Version)) -}}
{{- $selector := include "hookonce.selectorLabels" . | fromYaml -}}
{{- merge $selector (.more | default dict) .context.Values.commonLabels $own | toYaml -}}
{{- end -}}

{{/* Those of a pod: the chart's version is not among them, which would make new pods for nothing. */}}
{{- define "hookonce.podLabels" -}}
{{- omit (include "hookonce.labels" . | fromYaml) "helm.sh/chart" | toYaml -}}
{{- end -}}

{{/* A version may hold "+", a label may not. */}}
{{- define "hookonce.label" -}}
{{- . | replace "+" "_" | trunc 63 | trimAll "-._" -}}
{{- end -}}

{{- define "hookonce.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}
