{{/* Secrets of the cluster, as files: a file is followed when its Secret changes, a variable is not. */}}

{{/* The name of a secret's file. A Secret's name holds no underscore: no two of them meet in one file. */}}
{{- define "hookonce.secretFile" -}}
{{- printf "%s_%s" .existingSecret .key -}}
{{- end -}}

{{/* Every { existingSecret, key } inside of a value, by its file, as JSON. */}}
{{- define "hookonce.secrets" -}}
{{- $found := dict -}}
{{- if kindIs "map" . -}}
  {{- if hasKey . "existingSecret" -}}
    {{- $_ := set $found (include "hookonce.secretFile" .) (pick . "existingSecret" "key") -}}
  {{- else -}}
    {{- range . }}{{ $found = merge $found (include "hookonce.secrets" . | fromJson) }}{{ end -}}
  {{- end -}}
{{- else if kindIs "slice" . -}}
  {{- range . }}{{ $found = merge $found (include "hookonce.secrets" . | fromJson) }}{{ end -}}
{{- end -}}
{{- $found | toJson -}}
{{- end -}}

{{/*
The sources of the one volume that holds them, if any. Nothing but the keys that are asked for is mounted, side by side: the
folder itself changes when one of them does.
*/}}
{{- define "hookonce.secretSources" -}}
{{- $secrets := include "hookonce.secrets" (list .Values.adminToken .Values.store.seal .Values.providers .Values.config) | fromJson -}}
{{- range $file, $secret := $secrets }}
- secret:
    name: {{ $secret.existingSecret }}
    items:
      - key: {{ $secret.key | quote }}
        path: {{ $file | quote }}
{{- end }}
{{- with .Values.store.ca }}
- {{ ternary "configMap" "secret" (hasKey . "existingConfigMap") }}:
    name: {{ .existingConfigMap | default .existingSecret }}
    items:
      - key: {{ .key | quote }}
        path: ca.pem
{{- end }}
{{- end -}}
