{{/* Every name is that of the release and a word, so that no two releases of a namespace meet. */}}
{{- define "mlbench.master" -}}
{{ .Release.Name }}-master
{{- end }}

{{/* Of what belongs to no namespace. */}}
{{- define "mlbench.nodes" -}}
{{ .Release.Name }}-{{ .Release.Namespace }}-nodes
{{- end }}

{{- define "mlbench.workers" -}}
{{ .Release.Name }}-workers
{{- end }}

{{- define "mlbench.tokenSecret" -}}
{{ .Values.token.existingSecret | default (printf "%s-token" .Release.Name) }}
{{- end }}

{{- define "mlbench.claim" -}}
{{ .Values.store.existingClaim | default (printf "%s-store" .Release.Name) }}
{{- end }}

{{/* Of all objects of the release. */}}
{{- define "mlbench.labels" -}}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{ include "mlbench.masterLabels" . }}
{{- end }}

{{/* By which the master's pod is found. */}}
{{- define "mlbench.masterLabels" -}}
app.kubernetes.io/name: mlbench
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: master
{{- end }}

{{/* By which the pods of the release's runs are found: the executor sets them, by MLBENCH_RELEASE. */}}
{{- define "mlbench.workerLabels" -}}
app.kubernetes.io/name: mlbench
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: rank
{{- end }}

{{/* (dict "image" VALUES "chart" .Chart) */}}
{{- define "mlbench.image" -}}
{{ .image.repository }}:{{ .image.tag | default .chart.AppVersion }}
{{- end }}

{{/* Whole cores of "3", "3000m" or 3. */}}
{{- define "mlbench.cores" -}}
{{- $cpu := toString . -}}
{{- if hasSuffix "m" $cpu }}{{ div (trimSuffix "m" $cpu | int) 1000 }}{{ else }}{{ $cpu }}{{ end -}}
{{- end }}
