// The header of a study: its facts, progress, actions and links.

import { usePolled } from "../../api/polled.ts";
import type { Attempt, Host, Listed, Study, StudyReport } from "../../api/types.ts";
import { ago, moment } from "../../format.ts";
import { StatusBadge } from "../../parts/status.tsx";
import { pathWith } from "../../query.ts";
import { Actions } from "./actions.tsx";
import { CountsBar } from "./counts_bar.tsx";
import styles from "./header.module.css";
import { gridLine, isPaused, progressLine, statusOf } from "./state.ts";
import { targetNow } from "./view.ts";

interface Props {
  study: Study;
  report: StudyReport | undefined;
  onChange: () => void;
}

export function Header({ study, report, onChange }: Props) {
  return (
    <header class={styles["header"]}>
      <div class={styles["line"]}>
        <h1>{study.name}</h1>
        <span class="mono muted">{study.id}</span>
        <StatusBadge status={statusOf(study)} pausedAt={isPaused(study) ? study.created_at : null} />
        <Actions study={study} onChange={onChange} />
      </div>
      <div class={styles["progress"]}>
        <CountsBar study={study} />
        <span>{progressLine(study)}</span>
      </div>
      <p class={styles["facts"]}>
        <span>{gridLine(study)}</span>
        <span>
          {study.owner}, {study.project}
        </span>
        <span title={moment(study.created_at)}>created {ago(study.created_at)}</span>
      </p>
      <p class={`${styles["facts"]} ${styles["late"]}`}>
        <Scaling report={report} />
        <SlotKind job={study.cells[0]?.jobs[0]?.id} />
      </p>
      <nav class={styles["links"]} aria-label="Links of this study">
        <a href={`/?study=${study.id}`}>Its jobs</a>
        <a href={`/compare?study=${study.id}`}>Compare its runs</a>
        <Downloads id={study.id} />
      </nav>
    </header>
  );
}

const SCALING = {
  strong: "strong scaling: the global batch stays the same",
  weak: "weak scaling: the batch per GPU stays the same",
};

function Scaling({ report }: { report: StudyReport | undefined }) {
  return report?.scaling == null ? null : <span>{SCALING[report.scaling]}</span>;
}

const ONCE = { every_s: Number.POSITIVE_INFINITY };

/** The device of its slots, from its first job. An attempt of an earlier version does not say: then its host does. */
function SlotKind({ job }: { job: string | undefined }) {
  const attempts = usePolled<Listed<Attempt>>(job === undefined ? null : `/v1/jobs/${job}/attempts`, ONCE);
  const share = attempts.data?.items[0]?.shares[0];
  const device = share?.devices?.[0];
  const asked = share === undefined || device !== undefined ? null : `/v1/hosts/${encodeURIComponent(share.host)}`;
  const host = usePolled<Host>(asked, ONCE);
  const name = device ?? host.data?.slots.find(({ index }) => index === share?.slots[0])?.name;
  return name === undefined ? null : <span>slots: {name === "cpu" ? "CPU share" : name}</span>;
}

function Downloads({ id }: { id: string }) {
  const link = (format: string, ending: string) => ({
    href: pathWith(`/v1/studies/${id}/report`, { target: targetNow(), format }),
    download: `study-${id}.${ending}`,
  });
  return (
    <span class={styles["downloads"]}>
      <span class="muted">Report as</span> <a {...link("csv", "csv")}>CSV</a>{" "}
      <a {...link("markdown", "md")}>Markdown</a> <a {...link("png", "png")}>PNG</a>
    </span>
  );
}
