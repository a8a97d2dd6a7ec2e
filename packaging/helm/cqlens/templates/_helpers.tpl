{{- define "cqlens.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "cqlens.name" -}}
{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" }}
{{- end }}

{{- define "cqlens.port" -}}
{{ regexFind "[0-9]+$" . }}
{{- end }}
