// The page of a job at /jobs/ID: its header, why it failed, and its parts as tabs.

import { useEffect } from "preact/hooks";
import type { Advice, Attempt, Job, JobEvent, Listed, Media } from "../../api/types.ts";
import { Notice, Waiting } from "../../parts/notice.tsx";
import { withParams } from "../../query.ts";
import { param, query } from "../../url.ts";
import { useWholeAddress } from "../../whole_address.ts";
import { CodePanel } from "./code/code_panel.tsx";
import { EventsPanel } from "./events/events.tsx";
import { Failure } from "./failure.tsx";
import { Header } from "./header.tsx";
import { LogPanel } from "./logs/log_panel.tsx";
import { MediaPanel } from "./media/media_panel.tsx";
import { NotesPanel } from "./notes/notes_panel.tsx";
import { Overview } from "./overview.tsx";
import styles from "./page.module.css";
import { ArtifactsPanel } from "./results/artifacts.tsx";
import { CheckpointsPanel } from "./results/checkpoints.tsx";
import { SpecPanels } from "./spec/spec_panel.tsx";
import { Timeline } from "./timeline/timeline.tsx";
import { useJob, useOfJob } from "./use_job.ts";

const TABS = [
  ["overview", "Overview"],
  ["logs", "Logs"],
  ["spec", "Spec"],
  ["code", "Code"],
  ["artifacts", "Artifacts"],
  ["events", "Events"],
  ["notes", "Notes"],
  ["media", "Media"], // the last one: it comes when its list has
] as const;

const ADVICE_S = 60; // the api computes the advice of a live job for each request
const tab = param("tab", "overview");

export function JobPage({ id }: { id: string }) {
  const { job, events, problem, refresh } = useJob(id, tab.value === "events");
  useWholeAddress("jobs", id, job?.id);
  const name = job?.name;
  useEffect(() => {
    if (name !== undefined) document.title = `${name} · Hora`;
  }, [name]);
  if (problem?.status === 404) {
    return (
      <Notice kind="warn" title={job === undefined ? `There is no job ${id}` : "This job was deleted"} isPage>
        {job === undefined ? "It may have been removed, or the address is not complete." : job.name}
        <p>
          <a href="/">Go to the jobs</a>
        </p>
      </Notice>
    );
  }
  if (job === undefined) return <Waiting problem={problem} subject="the job" />;
  return <Loaded job={job} events={events} onChange={refresh} />;
}

interface LoadedProps {
  job: Job;
  events: readonly JobEvent[];
  onChange: () => void;
}

function Loaded({ job, events, onChange }: LoadedProps) {
  const attempts = useOfJob<Listed<Attempt>>(
    `/v1/jobs/${job.id}/attempts?limit=1000`,
    job.revision,
    job.ended_at === null ? 5 : 60,
  );
  const mediaPath = job.code !== null && job.attempt > 0 ? `/v1/jobs/${job.id}/media?limit=500` : null;
  // The page of another job may have had a tab that this job cannot have.
  const mayHave: Readonly<Record<string, boolean>> = { code: job.code !== null, media: mediaPath !== null };
  const isOverview = !TABS.slice(1).some(([value]) => value === tab.value && mayHave[value] !== false);
  const isAdvised = job.attempt > 0 && (isOverview || job.status === "failed");
  const advicePath = isAdvised ? `/v1/jobs/${job.id}/advice` : null;
  const advice = useOfJob<Listed<Advice>>(advicePath, job.revision, ADVICE_S);
  const media = useOfJob<Listed<Media>>(mediaPath, job.revision, job.ended_at === null ? 15 : 60);
  const isShown: typeof mayHave = { ...mayHave, media: !!media.data?.items.length };
  return (
    <div class={styles["page"]}>
      <Header job={job} onChange={onChange}>
        {job.status === "failed" && <Failure job={job} advice={advice.data} isBrief={!isOverview} />}
        <Timeline job={job} attempts={attempts.data?.items} events={events} />
      </Header>
      <nav class={styles["tabs"]} aria-label="Parts of the job">
        {TABS.filter(([value]) => isShown[value] ?? true).map(([value, text]) => (
          <a
            key={value}
            href={`?${withParams(query.value, { tab: value === "overview" ? null : value, file: null })}`}
            aria-current={(value === "overview" ? isOverview : tab.value === value) ? "page" : undefined}
          >
            {text}
            {value === "notes" && job.notes_at && (
              <span title="There are notes">
                <span aria-hidden="true"> •</span>
                <span class="spoken">, there are some</span>
              </span>
            )}
          </a>
        ))}
      </nav>
      {tab.value === "logs" && <LogPanel job={job} />}
      {tab.value === "spec" && <SpecPanels job={job} attempt={attempts.data?.items.at(-1)} />}
      {tab.value === "code" && job.code !== null && <CodePanel job={job} />}
      {tab.value === "artifacts" && (
        <ArtifactsPanel job={job} onChange={onChange}>
          <CheckpointsPanel job={job} />
        </ArtifactsPanel>
      )}
      {tab.value === "notes" && <NotesPanel job={job} onChange={onChange} />}
      {tab.value === "media" &&
        mediaPath !== null &&
        (media.data === undefined ? (
          <Waiting problem={media.problem} subject="the media" />
        ) : (
          <MediaPanel job={job} items={media.data.items} />
        ))}
      {tab.value === "events" && <EventsPanel events={events} />}
      {isOverview && <Overview job={job} advice={advice} />}
    </div>
  );
}
