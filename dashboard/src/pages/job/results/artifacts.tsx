// The artifacts of a job, and figures of its model.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { remove } from "../../../api/client.ts";
import { usePolled } from "../../../api/polled.ts";
import type { Artifact, Job, Listed, Me } from "../../../api/types.ts";
import { bytes, moment, number } from "../../../format.ts";
import { AskedButton } from "../../../parts/asked_button.tsx";
import { Notice, ProblemNotice, Waiting } from "../../../parts/notice.tsx";
import { Panel } from "../../../parts/panel.tsx";
import { pathWith, withParams } from "../../../query.ts";
import { mayChange } from "../../../rights.ts";
import { param, query } from "../../../url.ts";
import { CopyButton } from "../copy_button.tsx";
import { RowsTable } from "../rows_table.tsx";
import { useOfJob } from "../use_job.ts";
import { FileLink } from "./file_link.tsx";
import { isShown, Preview } from "./preview.tsx";
import styles from "./results.module.css";

const MOST = 500; // the api's limit for one answer
const fileParam = param("file");

interface Props {
  job: Job;
  onChange: () => void;
  /** What stands below the list. It comes with the list, so that it does not move. */
  children: ComponentChildren;
}

export function ArtifactsPanel({ job, onChange, children }: Props) {
  const path = `/v1/jobs/${job.id}/artifacts?limit=${MOST}`;
  const { data, problem } = useOfJob<Listed<Artifact>>(path, job.revision, job.ended_at === null ? 15 : 60);
  const command = `hora artifacts ${job.id} --all`;
  const [ticked, setTicked] = useState<readonly string[]>([]);
  const me = usePolled<Me>("/v1/me", { every_s: Number.POSITIVE_INFINITY }).data;
  const chosen = data?.items.map(({ path }) => path).filter((each) => ticked.includes(each)) ?? [];
  const hasFiles = data !== undefined && data.items.length > 0;
  const isRemovable = job.ended_at !== null && job.artifacts_removed_at === null && mayChange(me, job);
  const tools = (
    <span class={styles["command"]}>
      {isRemovable && !!(job.artifact_bytes || job.checkpoint_bytes) && (
        <AskedButton
          text="Remove files"
          question={`Remove the files of ${job.name}?`}
          action="Remove the files"
          work={() => remove(`/v1/jobs/${job.id}/artifacts`).then(onChange)}
        >
          {sizesOf(job)} are removed for good. The curves, logs and results of the job stay.
        </AskedButton>
      )}
      <span class={`${styles["command"]} ${hasFiles ? "" : styles["hidden"]}`}>
        <a href={pathWith(`/v1/jobs/${job.id}/artifacts.tar`, { path: chosen })} download title="As one tar archive">
          Download {chosen.length === 0 ? "all" : `${chosen.length} selected`}
        </a>
        <code>{command}</code>
        <CopyButton text={() => command} label="Copy the command that fetches all files">
          Copy
        </CopyButton>
      </span>
    </span>
  );
  return (
    <>
      <Panel title="Artifacts" flush tools={tools}>
        <ModelFacts job={job} />
        {data === undefined ? (
          <Waiting problem={problem} subject="the files" />
        ) : (
          <Files job={job} list={data} ticked={ticked} onTick={setTicked} />
        )}
        {data !== undefined && <ProblemNotice problem={problem} />}
      </Panel>
      {(data ?? problem) !== undefined && children}
    </>
  );
}

function sizesOf({ artifact_bytes: ofArtifacts, checkpoint_bytes: ofCheckpoints }: Job): string {
  const size = (of: number | null | undefined): string => (of == null ? "" : ` (${bytes(of)})`);
  return `Its artifacts${size(ofArtifacts)} and checkpoints${size(ofCheckpoints)}`;
}

interface FilesProps {
  job: Job;
  list: Listed<Artifact>;
  /** The paths of the selected files. */
  ticked: readonly string[];
  onTick: (paths: readonly string[]) => void;
}

function Files({ job, list, ticked, onTick }: FilesProps) {
  if (list.items.length === 0) return <p class={styles["empty"]}>{reasonForNone(job)}</p>;
  const above = `/v1/jobs/${job.id}/artifacts`;
  const shown = list.items.find((file) => file.path === fileParam.value && isShown(file));
  const named = (file: Artifact) => (
    <span class={styles["ticked"]}>
      <input
        type="checkbox"
        aria-label={`Select ${file.path}`}
        checked={ticked.includes(file.path)}
        onChange={() => onTick(toggled(ticked, file.path))}
      />
      <FileName above={above} file={file} />
    </span>
  );
  return (
    <>
      <RowsTable
        label="Files"
        rows={list.items}
        keyOf={({ path }) => path}
        columns={[
          { name: "File", cell: (file) => named(file) },
          {
            name: "Size",
            isFigure: true,
            cell: (file) => bytes(file.bytes),
            title: (file) => `${number(file.bytes)} bytes`,
          },
          { name: "Written", cell: (file) => moment(file.modified_at) },
          { name: "Type", cell: (file) => <span class="muted">{file.media_type}</span> },
        ]}
      />
      {list.next_cursor !== null && (
        <Notice>Only the first {number(MOST)} files are listed; the command fetches all.</Notice>
      )}
      {shown !== undefined && <Preview key={shown.path} above={above} file={shown} onClose={() => fileParam.set("")} />}
    </>
  );
}

function toggled(paths: readonly string[], path: string): string[] {
  return paths.includes(path) ? paths.filter((each) => each !== path) : [...paths, path];
}

/** Opens a file that the page can show, and downloads any other. */
function FileName({ above, file }: { above: string; file: Artifact }) {
  if (!isShown(file)) return <FileLink above={above} path={file.path} title="Download" />;
  return (
    <a class={styles["file"]} href={`?${withParams(query.value, { file: file.path })}`}>
      {file.path}
    </a>
  );
}

function ModelFacts({ job: { summary } }: { job: Job }) {
  if (summary?.parameters == null) return null;
  return (
    <p class={styles["model"]}>
      The model has <strong>{number(summary.parameters)}</strong> parameters
      {summary.trainable_parameters != null && <>, {number(summary.trainable_parameters)} of them trainable</>}
      {summary.model_bytes != null && <>, and takes {bytes(summary.model_bytes)} in memory</>}.
    </p>
  );
}

function reasonForNone(job: Job): string {
  if (job.artifacts_removed_at) return `The artifacts were removed on ${moment(job.artifacts_removed_at)}.`;
  if (job.ended_at === null) return "No files yet. The job writes weights and curves while it trains and at its end.";
  return "The job left no files.";
}
