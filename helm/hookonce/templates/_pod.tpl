{{/* What the gateway's pods and a consumer's pod with hookonce in it have in common. */}}

{{/* How long the program may take to end: both times, and what it needs for its last words. */}}
{{- define "hookonce.drainSeconds" -}}
{{- add (int .Values.drain.delaySeconds) (int .Values.drain.timeoutSeconds) 5 -}}
{{- end -}}

{{- define "hookonce.terminationGracePeriodSeconds" -}}
{{- .Values.terminationGracePeriodSeconds | default (include "hookonce.drainSeconds" .) | int -}}
{{- end -}}

{{/* The container: dict "context" $ "data" PORTNAME "admin" PORTNAME. */}}
{{- define "hookonce.container" -}}
{{- $ports := dict "data" .data "admin" .admin -}}
{{- with .context -}}
- name: hookonce
  image: {{ include "hookonce.image" . | quote }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  args: ["run", "--config", "{{ include "hookonce.configFolder" . }}/hookonce.toml"]
  env:
    {{- include "hookonce.env" . | nindent 4 }}
  {{- with .Values.extraEnvFrom }}
  envFrom:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  ports:
    - name: {{ $ports.data }}
      containerPort: {{ .Values.ports.data }}
      protocol: TCP
    - name: {{ $ports.admin }}
      containerPort: {{ .Values.ports.admin }}
      protocol: TCP
  startupProbe:
    {{- include "hookonce.probe" (dict "path" "/healthz" "port" $ports.admin "times" .Values.probes.startup) | nindent 4 }}
  livenessProbe:
    {{- include "hookonce.probe" (dict "path" "/healthz" "port" $ports.admin "times" .Values.probes.liveness) | nindent 4 }}
  readinessProbe:
    {{- include "hookonce.probe" (dict "path" "/readyz" "port" $ports.admin "times" .Values.probes.readiness) | nindent 4 }}
  {{- with .Values.resources }}
  resources:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.securityContext }}
  securityContext:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  volumeMounts:
    {{- include "hookonce.volumeMounts" . | nindent 4 }}
{{- end -}}
{{- end -}}

{{- define "hookonce.probe" -}}
httpGet:
  path: {{ .path }}
  port: {{ .port }}
{{- with .times }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Variables win over the file. The image sets HOOKONCE__ADMIN, so that the file alone would not be heard. */}}
{{- define "hookonce.env" -}}
- name: HOOKONCE__ADMIN
  value: {{ include "hookonce.adminAddress" . | quote }}
{{- with .Values.store.urlFrom }}
- name: HOOKONCE__STORE__URL
  valueFrom:
    secretKeyRef:
      name: {{ .existingSecret }}
      key: {{ .key | quote }}
{{- end }}
{{- with .Values.store.password }}
- name: HOOKONCE_STORE_PASSWORD
  valueFrom:
    secretKeyRef:
      name: {{ .existingSecret }}
      key: {{ .key | quote }}
- name: HOOKONCE__STORE__URL
  value: {{ $.Values.store.url | replace "://" (printf "://%s:$(HOOKONCE_STORE_PASSWORD)@" $.Values.store.username) | quote }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Folders, never a subPath: a file that is mounted by itself stays what it was when its ConfigMap or Secret changes. */}}
{{- define "hookonce.volumeMounts" -}}
- name: hookonce-config
  mountPath: {{ include "hookonce.configFolder" . }}
  readOnly: true
{{- if include "hookonce.secretSources" . }}
- name: hookonce-secrets
  mountPath: {{ include "hookonce.secretFolder" . }}
  readOnly: true
{{- end }}
{{- if .Values.persistence.enabled }}
- name: hookonce-data
  mountPath: {{ .Values.persistence.mountPath }}
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "hookonce.volumes" -}}
- name: hookonce-config
  configMap:
    name: {{ include "hookonce.fullname" . }}
{{- with include "hookonce.secretSources" . }}
- name: hookonce-secrets
  projected:
    # 0444: no other container has it mounted, and a narrower mode would depend on the pod's fsGroup.
    defaultMode: 292
    sources:
      {{- . | trim | nindent 6 }}
{{- end }}
{{- if .Values.persistence.enabled }}
- name: hookonce-data
  persistentVolumeClaim:
    claimName: {{ .Values.persistence.existingClaim | default (include "hookonce.fullname" .) }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}
