{{/* The program's configuration, from the values. */}}

{{- define "hookonce.configFolder" -}}/etc/hookonce{{- end -}}
{{- define "hookonce.secretFolder" -}}/run/secrets/hookonce{{- end -}}

{{- define "hookonce.adminAddress" -}}
{{- printf "%s:%d" .Values.bindAddress (int .Values.ports.admin) -}}
{{- end -}}

{{/*
The store's namespace. A namespace of Kubernetes holds no dot and a release's name no underscore: no two releases of a cluster
get the same, as `a-b` and `c` would with `a` and `b-c`. Two of one chart in one release have different aliases.
*/}}
{{- define "hookonce.storeNamespace" -}}
{{- $release := printf "%s.%s" .Release.Namespace .Release.Name -}}
{{- .Values.store.namespace | default (ternary $release (printf "%s_%s" $release .Chart.Name) (eq .Chart.Name "hookonce")) -}}
{{- end -}}

{{/* The configuration as JSON, as the program will read it: secrets are files by now. */}}
{{- define "hookonce.config" -}}
{{- $config := omit (deepCopy .Values.config) "listen" "admin" "admin_token" "upstream" "store" "providers" "drain" -}}
{{- $_ := set $config "listen" (printf "%s:%d" .Values.bindAddress (int .Values.ports.data)) -}}
{{- $_ := set $config "admin" (include "hookonce.adminAddress" .) -}}
{{- with .Values.adminToken }}{{ $_ := set $config "admin_token" . }}{{ end -}}
{{- with .Values.upstream }}{{ $_ := set $config "upstream" . }}{{ end -}}
{{- $_ := set $config "store" (include "hookonce.configStore" . | fromJson) -}}
{{- $delay := printf "%ds" (int .Values.drain.delaySeconds) -}}
{{- $_ := set $config "drain" (dict "delay" $delay "timeout" (printf "%ds" (int .Values.drain.timeoutSeconds))) -}}
{{- $_ := set $config "providers" .Values.providers -}}
{{- get (include "hookonce.withFiles" $config | fromJson) "value" | toJson -}}
{{- end -}}

{{/* [store]. A URL that holds a password is a variable and not in the file. */}}
{{- define "hookonce.configStore" -}}
{{- $store := dict "namespace" (include "hookonce.storeNamespace" .) -}}
{{- with .Values.store -}}
{{- if and .url (not .password) }}{{ $_ := set $store "url" .url }}{{ end -}}
{{- with .timeout }}{{ $_ := set $store "timeout" . }}{{ end -}}
{{- with .seal }}{{ $_ := set $store "seal" . }}{{ end -}}
{{- if .ca }}{{ $_ := set $store "ca_file" (printf "%s/ca.pem" (include "hookonce.secretFolder" $)) }}{{ end -}}
{{- end -}}
{{- $store | toJson -}}
{{- end -}}

{{/*
A value as {"value": ...}, in which every { existingSecret, key } is a { file } and what is null is not there. Wrapped,
because fromJson reads nothing but objects.
*/}}
{{- define "hookonce.withFiles" -}}
{{- $out := . -}}
{{- if kindIs "map" . -}}
  {{- if hasKey . "existingSecret" -}}
    {{- $out = omit . "existingSecret" "key" -}}
    {{- $_ := set $out "file" (printf "%s/%s" (include "hookonce.secretFolder" .) (include "hookonce.secretFile" .)) -}}
  {{- else -}}
    {{- $out = dict -}}
    {{- range $key, $value := . -}}
      {{- if not (kindIs "invalid" $value) -}}
        {{- $_ := set $out $key (get (include "hookonce.withFiles" $value | fromJson) "value") -}}
      {{- end -}}
    {{- end -}}
  {{- end -}}
{{- else if kindIs "slice" . -}}
  {{- $out = list -}}
  {{- range . }}{{ $out = append $out (get (include "hookonce.withFiles" . | fromJson) "value") }}{{ end -}}
{{- end -}}
{{- dict "value" $out | toJson -}}
{{- end -}}

{{/* What new pods are needed for: a digest of what the program cannot take up while it runs, or of everything. */}}
{{- define "hookonce.checksum" -}}
{{- $config := include "hookonce.config" . | fromJson -}}
{{- if eq .Values.rolloutOnConfig "needed" -}}
{{- $config = pick $config "listen" "admin" "workers" "store" "limits" "log" "trace" -}}
{{- end -}}
{{- if ne .Values.rolloutOnConfig "never" -}}
checksum/config: {{ $config | toJson | sha256sum }}
{{- end -}}
{{- end -}}
