{{/*
What is wrong with the values, beyond what values.schema.json can say. Everything is told at once, before anything reaches
the cluster. Each check writes lines; a line is a mistake.
*/}}

{{- define "hookonce.check" -}}
{{- $checks := list "Names" "Program" "Store" "Secrets" "Stopping" -}}
{{- $checks = concat $checks (ternary (list "Replicas" "Ways") (list "Sidecar") .Values.gateway.enabled) -}}
{{- $said := list -}}
{{- range $checks -}}
{{- $said = concat $said (include (printf "hookonce.check%s" .) $ | splitList "\n") -}}
{{- end -}}
{{- $mistakes := list -}}
{{- range $said }}{{ with trim . }}{{ $mistakes = append $mistakes . }}{{ end }}{{ end -}}
{{- if $mistakes -}}
{{- fail (printf "\n\nhookonce cannot be deployed with these values:\n  - %s\n" (join "\n  - " $mistakes)) -}}
{{- end -}}
{{- end -}}

{{- define "hookonce.checkNames" -}}
{{- $name := include "hookonce.fullname" . -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name) }}
{{ printf "%q cannot name a Service, which begins with a small letter: set fullnameOverride" $name }}
{{- end }}
{{- $namespace := include "hookonce.storeNamespace" . -}}
{{- if not (regexMatch "^[A-Za-z0-9_.-]+$" $namespace) }}
store.namespace: {{ $namespace | quote }} is not a namespace: write letters, digits, "_", "." and "-"
{{- end }}
{{- end -}}

{{- define "hookonce.checkProgram" -}}
{{- if not .Values.providers }}
providers: there is none. Name who delivers, with its path and secret
{{- end }}
{{- if not .Values.upstream }}
{{- range $name, $provider := .Values.providers }}
{{- if not $provider.upstream }}
upstream: is missing, and {{ $name }} has none of its own. Write where the consumer is: "http://HOST:PORT"
{{- end }}
{{- end }}
{{- end }}
{{- $elsewhere := dict "listen" "ports.data and bindAddress" "admin" "ports.admin and bindAddress" "admin_token" "adminToken" -}}
{{- $elsewhere = merge $elsewhere (dict "upstream" "upstream" "store" "store" "providers" "providers" "drain" "drain") -}}
{{- range $key, $_ := .Values.config }}
{{- with get $elsewhere $key }}
config.{{ $key }}: the chart needs to know of it. Write it as {{ . }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "hookonce.checkStore" -}}
{{- with .Values.store }}
{{- if not (or .url .urlFrom) }}
store: set url, or urlFrom where the URL holds a password. "redis://HOST:6379"
{{- else if and .url .urlFrom }}
store: url and urlFrom are both set. One of them is the store
{{- end }}
{{- if regexMatch "@|sentinel_password=" .url }}
store.url: holds a user or a password, and a ConfigMap is no place for it. Write username and password, or put the whole URL into a Secret: urlFrom
{{- end }}
{{- if and .username (not .password) }}
store.username: has no password: write password as { existingSecret: NAME, key: KEY }
{{- end }}
{{- if and .password (not (regexMatch "^rediss?([+-](sentinel|cluster))?://" .url)) }}
store.password: is put into url, which has to be that of a Redis: "redis://HOST:6379"
{{- end }}
{{- range $key := list "urlFrom" "password" "seal" "ca" }}
{{- with get $.Values.store $key }}
{{- if or (not .key) (not (or .existingSecret .existingConfigMap)) (and .existingSecret .existingConfigMap) }}
store.{{ $key }}: write { existingSecret: NAME, key: KEY }{{ if eq $key "ca" }} or { existingConfigMap: NAME, key: KEY }{{ end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- if hasPrefix "file:" .Values.store.url }}{{ include "hookonce.checkFile" . }}
{{- else if .Values.persistence.enabled }}
persistence.enabled: nothing is kept on that volume unless store.url is "file:{{ .Values.persistence.mountPath }}"
{{- end }}
{{- if and (hasPrefix "memory:" .Values.store.url) (not .Values.store.acceptForgetting) }}
store.url: memory: forgets every event when its pod ends, so that what is delivered again takes effect again. It is for trying out: store.acceptForgetting: true says that you know
{{- end }}
{{- if and (hasPrefix "memory:" .Values.store.url) .Values.gateway.enabled (include "hookonce.isSeveral" .) }}
store.url: memory: is known to its own pod only: set replicas: 1, and no autoscaling
{{- end }}
{{- end -}}

{{/* Whether there may be more than one pod. */}}
{{- define "hookonce.isSeveral" -}}
{{- if or .Values.autoscaling.enabled (gt (int .Values.replicas) 1) }}true{{ end -}}
{{- end -}}

{{/* One process at a time has the files: two pods would be two memories, or one that does not start. */}}
{{- define "hookonce.checkFile" -}}
{{- $path := regexReplaceAll "^file:(//)?" .Values.store.url "" -}}
{{- $mount := .Values.persistence.mountPath -}}
{{- if not .Values.persistence.enabled }}
store.url: file: needs a volume, or its events are gone with the pod: set persistence.enabled: true
{{- else if not (or (eq $path $mount) (hasPrefix (printf "%s/" $mount) $path)) }}
store.url: {{ $path }} is not on the volume: write "file:{{ $mount }}", or set persistence.mountPath
{{- end }}
{{- if not .Values.gateway.enabled }}
{{- if not .Values.sidecar.singleReplica }}
store.url: file: serves one instance. Where the consumer's pod is never there twice, also not during a rollout, say so: sidecar.singleReplica: true
{{- end }}
{{- else }}
{{- if .Values.autoscaling.enabled }}
store.url: file: serves one instance: set autoscaling.enabled: false, or use Redis
{{- else if ne (int .Values.replicas) 1 }}
store.url: file: serves one instance: set replicas: 1, or use Redis
{{- end }}
{{- if ne .Values.strategy.type "Recreate" }}
store.url: file: cannot be opened by the next pod before the last one has ended: set strategy.type: Recreate
{{- end }}
{{- end }}
{{- end -}}

{{- define "hookonce.checkSecrets" -}}
{{- $where := dict "adminToken" .Values.adminToken "providers" .Values.providers "config" .Values.config -}}
{{- range $path, $value := $where }}{{ include "hookonce.checkSecret" (dict "path" $path "value" $value) }}{{ end }}
{{- end -}}

{{/* Walks dict "path" WHERE "value" VALUE. */}}
{{- define "hookonce.checkSecret" -}}
{{- $path := .path -}}
{{- if kindIs "map" .value }}
{{- $value := .value }}
{{- if and (hasKey $value "existingSecret") (or (not $value.existingSecret) (not $value.key) $value.env $value.file) }}
{{ $path }}: write { existingSecret: NAME, key: KEY } and nothing else
{{- else if and (hasKey $value "key") (not (hasKey $value "existingSecret")) }}
{{ $path }}: key names an entry of a Secret: write existingSecret beside it
{{- end }}
{{- range $key, $inner := $value }}
{{- if and (has $key (list "secret" "admin_token")) (kindIs "string" $inner) }}
{{ $path }}.{{ $key }}: is the secret itself, and a ConfigMap is no place for it: write { existingSecret: NAME, key: KEY }
{{- end }}
{{- include "hookonce.checkSecret" (dict "path" (printf "%s.%s" $path $key) "value" $inner) }}
{{- end }}
{{- else if kindIs "slice" .value }}
{{- range $index, $inner := .value }}{{ include "hookonce.checkSecret" (dict "path" (printf "%s[%d]" $path $index) "value" $inner) }}{{ end }}
{{- end }}
{{- end -}}

{{- define "hookonce.checkStopping" -}}
{{- $least := include "hookonce.drainSeconds" . | int -}}
{{- $why := printf "%d (drain.delaySeconds + drain.timeoutSeconds + 5)" $least -}}
{{- if not .Values.gateway.enabled -}}
{{- $least = add $least .Values.sidecar.consumerStopSeconds | int -}}
{{- $why = printf "%d (the above, and sidecar.consumerStopSeconds)" $least -}}
{{- end -}}
{{- with .Values.terminationGracePeriodSeconds }}
{{- if lt (int .) $least }}
terminationGracePeriodSeconds: {{ int . }} would end a pod in the middle of its deliveries: {{ $why }} at least
{{- end }}
{{- end }}
{{- end -}}

{{/* What would be asked for and not be made. */}}
{{- define "hookonce.checkSidecar" -}}
{{- range $key := list "ingress" "httpRoute" "autoscaling" "networkPolicy" "serviceMonitor" }}
{{- if (get $.Values $key).enabled }}
{{ $key }}.enabled: is for the gateway's own pods. As a sidecar hookonce is in yours, and so is what leads to them
{{- end }}
{{- end }}
{{- end -}}

{{- define "hookonce.checkReplicas" -}}
{{- with .Values.autoscaling }}
{{- if and .enabled (gt (int .minReplicas) (int .maxReplicas)) }}
autoscaling: minReplicas is above maxReplicas
{{- end }}
{{- end }}
{{- $pods := ternary .Values.autoscaling.minReplicas .Values.replicas .Values.autoscaling.enabled | int -}}
{{- $kept := .Values.podDisruptionBudget.minAvailable -}}
{{- if and .Values.podDisruptionBudget.enabled $kept (not (kindIs "string" $kept)) (ge (int $kept) $pods) }}
podDisruptionBudget.minAvailable: {{ $kept }} of {{ $pods }} would keep every node from being drained: write less, or maxUnavailable
{{- end }}
{{- end -}}

{{- define "hookonce.checkWays" -}}
{{- if .Values.ingress.enabled }}
{{- range $host := .Values.ingress.hosts }}
{{- if not (include "hookonce.paths" (dict "context" $ "host" $host) | fromJson).paths }}
ingress.hosts: every provider belongs to another host than {{ $host }}
{{- end }}
{{- else }}
ingress.hosts: is empty. Name the hosts that providers deliver to
{{- end }}
{{- end }}
{{- if and .Values.httpRoute.enabled (not .Values.httpRoute.parentRefs) }}
httpRoute.parentRefs: is empty. Name the Gateway that the route belongs to
{{- end }}
{{- with .Values.networkPolicy }}
{{- if and .enabled .egress.enabled }}
{{- if not .egress.consumer.to }}
networkPolicy.egress.consumer.to: is empty. Nothing could be forwarded
{{- end }}
{{- if and (not .egress.store.to) (not (regexMatch "^(file|memory):" $.Values.store.url)) }}
networkPolicy.egress.store.to: is empty. No event could be claimed
{{- end }}
{{- end }}
{{- end }}
{{- end -}}
