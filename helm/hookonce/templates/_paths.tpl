{{/*
What may be asked for from outside, as JSON: {"paths": [{"path": ..., "exact": true}]}. dict "context" $ "host" NAME leaves out the
providers that belong to another host.
*/}}
{{- define "hookonce.paths" -}}
{{- $paths := dict -}}
{{- $host := .host | default "" | lower -}}
{{- range .context.Values.providers -}}
{{- $own := .host | default "" | lower -}}
{{- if or (not $own) (not $host) (eq $own $host) }}{{ $_ := set $paths .path true }}{{ end -}}
{{- end -}}
{{- range .context.Values.config.passthrough -}}
{{- if hasSuffix "/*" . -}}
{{- $_ := set $paths (trimSuffix "/*" .) false -}}
{{- else if not (hasKey $paths .) -}}
{{- $_ := set $paths . true -}}
{{- end -}}
{{- end -}}
{{- $all := list -}}
{{- range $path, $exact := $paths }}{{ $all = append $all (dict "path" $path "exact" $exact) }}{{ end -}}
{{- dict "paths" $all | toJson -}}
{{- end -}}
