// The page while there is nothing to compare: pick runs, then compare them all at once.

import { useState } from "preact/hooks";
import { Panel } from "../../parts/panel.tsx";
import { pathWith } from "../../query.ts";
import { go } from "../../url.ts";
import styles from "./choose_runs.module.css";
import { Picker } from "./picker.tsx";
import { toggled } from "./runs.ts";

export function ChooseRuns() {
  const [jobs, setJobs] = useState<readonly string[]>([]);
  const [study, setStudy] = useState("");
  return (
    <div class={styles["place"]}>
      <Panel title="Choose runs">
        <div class={styles["top"]}>
          <p>
            Select jobs in the <a href="/">table of jobs</a> and click Compare there, or pick them here.
          </p>
          <button
            type="button"
            class="primary"
            disabled={jobs.length === 0 && study === ""}
            onClick={() => go(pathWith("/compare", { jobs: jobs.join(), study }).replaceAll("%2C", ","))}
          >
            {compareText(jobs.length, study !== "")}
          </button>
        </div>
        <Picker chosenIds={jobs} study={study} onToggle={(id) => setJobs(toggled(jobs, id))} onStudy={setStudy} />
      </Panel>
    </div>
  );
}

function compareText(jobs: number, hasStudy: boolean): string {
  const parts = [hasStudy ? "the study" : "", jobs > 0 ? `${jobs} picked` : ""].filter(Boolean);
  return ["Compare", parts.join(" and ")].join(" ").trim();
}
