{{/*
For another chart, which puts hookonce into its consumer's pod. It has this one among its dependencies, with `gateway.enabled:
false`, and gives each template `.Subcharts.hookonce` (or its alias) as its context:

  annotations:
    {{- include "hookonce.sidecar.annotations" .Subcharts.hookonce | nindent 8 }}
  spec:
    terminationGracePeriodSeconds: {{ include "hookonce.sidecar.terminationGracePeriodSeconds" .Subcharts.hookonce }}
    containers:
      - name: consumer
        lifecycle:
          {{- include "hookonce.sidecar.lifecycle" .Subcharts.hookonce | nindent 10 }}
      {{- include "hookonce.sidecar.container" .Subcharts.hookonce | nindent 6 }}
    volumes:
      {{- include "hookonce.sidecar.volumes" .Subcharts.hookonce | nindent 6 }}

The Service then has `targetPort: hookonce`. docs/kubernetes.md says why the consumer waits, and why hookonce is no native
sidecar.
*/}}

{{/* hookonce, as an item of `containers`. */}}
{{- define "hookonce.sidecar.container" -}}
{{- include "hookonce.container" (dict "context" . "data" "hookonce" "admin" "hookonce-admin") -}}
{{- end -}}

{{/* Items of `volumes`. */}}
{{- define "hookonce.sidecar.volumes" -}}
{{- include "hookonce.volumes" . -}}
{{- end -}}

{{/* The pod's annotations: new pods where the configuration asks for them. */}}
{{- define "hookonce.sidecar.annotations" -}}
{{- include "hookonce.checksum" . | replace "checksum/config" "checksum/hookonce" -}}
{{- end -}}

{{/*
The consumer's `lifecycle`: it serves until hookonce has ended, and only then gets its SIGTERM. Before 1.30 it takes the
program `sleep` in the consumer's image.
*/}}
{{- define "hookonce.sidecar.lifecycle" -}}
preStop:
  {{- if semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version }}
  sleep:
    seconds: {{ include "hookonce.drainSeconds" . }}
  {{- else }}
  exec:
    command: ["sleep", {{ include "hookonce.drainSeconds" . | quote }}]
  {{- end }}
{{- end -}}

{{/* The pod's grace period: the consumer's wait, and then its own end. */}}
{{- define "hookonce.sidecar.terminationGracePeriodSeconds" -}}
{{- $least := add (include "hookonce.drainSeconds" .) (int .Values.sidecar.consumerStopSeconds) -}}
{{- .Values.terminationGracePeriodSeconds | default $least | int -}}
{{- end -}}
