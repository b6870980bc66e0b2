// The answers of the api, by the names of its OpenAPI document.

import type { components, paths } from "./schema.d.ts";

type Schemas = components["schemas"];
type UtilizationQuery = NonNullable<paths["/v1/jobs/{job_id}/utilization"]["get"]["parameters"]["query"]>;

export type Job = Schemas["JobView"];
export type JobGroup = Schemas["JobGroup"];
export type Status = Schemas["Status"];
export type EndReason = Schemas["EndReason"];
export type Progress = Schemas["Progress"];
export type Attempt = Schemas["AttemptView"];
export type CopiesBehind = Schemas["CopiesBehind"];
export type IdleNotice = Schemas["IdleNotice"];
export type Preemption = Schemas["PreemptionView"];
export type JobEvent = Schemas["EventView"];
export type LogLevel = Schemas["LogLevel"];
export type LogLine = Schemas["LogLineView"];
export type LogView = Schemas["LogView"];
export type Metrics = Schemas["MetricsView"];
export type MetricSeries = Schemas["MetricSeriesView"];
export type ManyMetrics = Schemas["ManyMetricsView"];
export type JobMetrics = Schemas["JobMetricsView"];
export type Utilization = Schemas["UtilizationView"];
export type SampleMetric = NonNullable<UtilizationQuery["metric"]>[number];
export type SampleSeries = Schemas["SampleSeriesView"];
export type Summary = Schemas["SummaryView"];
export type Code = Schemas["CodeView"];
export type CodeDifference = Schemas["CodeDifferenceView"];
export type Artifact = Schemas["ArtifactView"];
export type Checkpoint = Schemas["CheckpointView"];
export type Analysis = Schemas["Analysis"];
export type Finding = Schemas["Finding"];
export type Ledger = Schemas["Ledger"];
export type LedgerItem = Schemas["LedgerItem"];
export type Advice = Schemas["Advice"];
export type ProbeFindings = Schemas["ProbeFindings"];
export type ProbePoint = Schemas["ProbePoint"];
export type Host = Schemas["HostView"];
export type Slot = Schemas["SlotView"];
export type Preview = Schemas["Preview"];
export type Plan = Schemas["Plan"];
export type Quote = Schemas["Quote"];
export type Range = Schemas["Range"];
export type Me = Schemas["MeView"];
export type Token = Schemas["TokenView"];
export type CreatedToken = Schemas["CreatedTokenView"];
export type User = Schemas["UserView"];
export type AuditEntry = Schemas["AuditView"];
export type Webhook = Schemas["WebhookView"];
export type NewWebhook = Schemas["NewWebhookView"];
export type Delivery = Schemas["DeliveryView"];
export type DatasetVersions = Schemas["DatasetVersions"];
export type DatasetVersion = Schemas["DatasetVersionView"];
export type DatasetSamples = Schemas["DatasetSamples"];
export type ViewOfJobs = Schemas["ViewOfJobs"];
export type ViewContent = Schemas["ViewContent"];
export type Model = Schemas["Model"];
export type DatasetLine = Schemas["DatasetLine"];
export type Project = Schemas["ProjectView"];
export type Queue = Schemas["QueueView"];
export type QueuedJob = Schemas["QueuedJobView"];
export type QueueAccount = Schemas["AccountView"];
export type HostUtilization = Schemas["HostUtilizationView"];
export type ArticleLine = Schemas["ArticleLine"];
export type Article = Schemas["ArticleView"];
export type ArticleVersion = Schemas["ArticleVersionView"];
export type ArticlePreview = Schemas["ArticlePreview"];
export type ArticleRuns = Schemas["Runs"];
export type ArticleChart = Schemas["ChartBlock"];
export type ArticleTable = Schemas["TableBlock"];
export type StudyLine = Omit<Schemas["ListedStudy"], "best">;
export type ListedStudy = Schemas["ListedStudy"];
export type Study = Schemas["StudyView"];
export type Interval = Schemas["Interval"];
export type CellReport = Schemas["CellReport"];
export type Outlier = Schemas["Outlier"];
export type StudyReport = Schemas["StudyReport"];
export type StudyCurves = Schemas["StudyCurves"];
export type CellCurve = Schemas["CellCurve"];
export type Trial = Schemas["TrialReport"];
export type Note = Schemas["NoteView"];

/** A page of a list. */
export interface Listed<T> {
  items: T[];
  next_cursor: string | null;
}
