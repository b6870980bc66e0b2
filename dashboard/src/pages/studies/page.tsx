// The page of a study at /studies/ID: its progress, report and notes. Live while its jobs run.

import { useRef } from "preact/hooks";
import { usePolled } from "../../api/polled.ts";
import type { Study, StudyReport } from "../../api/types.ts";
import { Notice, ProblemNotice, Waiting } from "../../parts/notice.tsx";
import { pathWith } from "../../query.ts";
import { useWholeAddress } from "../../whole_address.ts";
import { Cost, Speedup, TimeToTarget } from "./answers.tsx";
import { CellTable } from "./cell_table.tsx";
import { Configuration } from "./configuration.tsx";
import { Curves } from "./curves.tsx";
import { Findings } from "./findings.tsx";
import { Grid } from "./grid.tsx";
import { Header } from "./header.tsx";
import { Notes } from "./notes.tsx";
import { Outliers } from "./outliers.tsx";
import styles from "./page.module.css";
import { Search } from "./search.tsx";
import { endedJobs } from "./state.ts";
import { outliersParam, targetNow } from "./view.ts";

const LIVE_S = 3;
const ENDED_S = 10; // notes are added, and jobs may be resumed

export function StudyPage({ id }: { id: string }) {
  const path = `/v1/studies/${id}`;
  const study = usePolled<Study>(path, { every_s: LIVE_S });
  const every_s = study.data?.complete ? ENDED_S : LIVE_S;
  const query = { target: targetNow(), outliers: outliersParam.value === "keep" ? "keep" : null };
  const polled = usePolled<StudyReport>(pathWith(`${path}/report`, query), { every_s });
  const newestReport = useRef(polled.data);
  newestReport.current = polled.data ?? newestReport.current; // while the report for another target is on its way
  const report = newestReport.current;
  useWholeAddress("studies", id, study.data?.id);
  if (study.problem?.status === 404) return <NotFound id={id} />;
  if (study.data === undefined) return <Waiting problem={study.problem} subject="the study" />;
  const refresh = (): void => {
    study.refresh();
    polled.refresh();
  };
  return (
    <div class={styles["page"]}>
      <Header study={study.data} report={report} onChange={refresh} />
      <ProblemNotice problem={polled.problem} />
      {report === undefined ? (
        <Waiting problem={undefined} subject="the report" />
      ) : (
        <Report study={study.data} report={report} every_s={every_s} onChange={refresh} />
      )}
    </div>
  );
}

function NotFound({ id }: { id: string }) {
  return (
    <Notice kind="warn" title="Study not found" isPage>
      No study has the id <span class="mono">{id}</span>. <a href="/studies">Go to the studies</a>
    </Notice>
  );
}

interface Props {
  study: Study;
  report: StudyReport;
  every_s: number;
  onChange: () => void;
}

function Report({ study, report, every_s, onChange }: Props) {
  return (
    <>
      {study.obstacle && <Notice title="The next trial waits">{study.obstacle}.</Notice>}
      {!report.complete && (
        <Notice title={`${endedJobs(study)} of ${study.jobs} jobs have ended`}>
          The figures below are from these jobs alone. They update as others end.
        </Notice>
      )}
      <div class={styles["texts"]}>
        <Findings report={report} />
        <Notes study={study} onChange={onChange} />
      </div>
      {report.trials ? <Search report={report} /> : <Cells study={study} report={report} every_s={every_s} />}
      <Configuration study={study} />
    </>
  );
}

/** The figures of a grid. */
function Cells({ study, report, every_s }: Omit<Props, "onChange">) {
  const hasFigures = report.cells.some((cell) => cell.repeats > 0);
  return (
    <>
      <Outliers report={report} />
      {hasFigures && (
        <>
          <div class={styles["charts"]}>
            <Speedup report={report} />
            <TimeToTarget report={report} />
            <Cost report={report} />
          </div>
          <div class={styles["charts"]}>
            <Grid report={report} />
          </div>
          <Curves report={report} every_s={every_s} />
        </>
      )}
      <CellTable study={study} report={report} />
    </>
  );
}
