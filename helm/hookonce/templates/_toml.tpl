{{/*
TOML. Helm's own toToml writes whole numbers as floats (`4.0`, and Helm 4 `1e+06`), since numbers in values are floats to it;
the program takes no float for a number of things.
*/}}

{{/* A configuration: the top level's keys, then a table each, and one for each provider. What lies deeper is written in line. */}}
{{- define "hookonce.toml" -}}
{{- $keys := dict -}}
{{- $tables := dict -}}
{{- range $name, $value := omit . "providers" -}}
{{- $_ := set (ternary $tables $keys (and (kindIs "map" $value) (ne $name "admin_token"))) $name $value -}}
{{- end -}}
{{- range $name, $table := .providers }}{{ $_ := set $tables (printf "providers.%s" $name) $table }}{{ end -}}
{{- include "hookonce.tomlKeys" $keys | trim }}
{{- range $name, $table := $tables }}

[{{ $name }}]
{{- include "hookonce.tomlKeys" $table }}
{{- end }}
{{- end -}}

{{/* The keys of a table, a line each. */}}
{{- define "hookonce.tomlKeys" -}}
{{- range $key, $value := . }}
{{ include "hookonce.tomlKey" $key }} = {{ include "hookonce.tomlValue" $value }}
{{- end }}
{{- end -}}

{{- define "hookonce.tomlKey" -}}
{{- if regexMatch "^[A-Za-z0-9_-]+$" . }}{{ . }}{{ else }}{{ include "hookonce.tomlValue" . }}{{ end -}}
{{- end -}}

{{- define "hookonce.tomlValue" -}}
{{- if kindIs "map" . -}}
  {{- $pairs := list -}}
  {{- range $key, $value := . -}}
    {{- $pairs = append $pairs (printf "%s = %s" (include "hookonce.tomlKey" $key) (include "hookonce.tomlValue" $value)) -}}
  {{- end -}}
  {{- if $pairs }}{ {{ join ", " $pairs }} }{{ else }}{}{{ end -}}
{{- else if kindIs "slice" . -}}
  {{- $items := list -}}
  {{- range . }}{{ $items = append $items (include "hookonce.tomlValue" .) }}{{ end -}}
  [{{ join ", " $items }}]
{{- else if kindIs "string" . -}}
  {{- /* Every escape of JSON is one of TOML. Only TOML wants one for DEL. */ -}}
  {{- toRawJson . | replace "\x7f" "\\u007f" -}}
{{- else if and (kindIs "float64" .) (eq (float64 .) (floor .)) -}}
  {{- printf "%.0f" . -}}
{{- else -}}
  {{- . -}}
{{- end -}}
{{- end -}}
