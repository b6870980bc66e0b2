// Compares runs, at /compare?jobs=a,b,c or those of a list, ?study=ID or ?status=running&owner=ada: their curves, settings
// and results.

import { useMemo } from "preact/hooks";
import { usePolled } from "../../api/polled.ts";
import type { Study } from "../../api/types.ts";
import { useScope } from "../../charts/use_scope.ts";
import { countText } from "../../format.ts";
import { Notice, ProblemNotice, Waiting } from "../../parts/notice.tsx";
import { Panel } from "../../parts/panel.tsx";
import { listOf, pairsOf } from "../../query.ts";
import { query, setParams } from "../../url.ts";
import { AddRuns } from "./add_runs.tsx";
import { Boxes } from "./boxes.tsx";
import { ChooseRuns } from "./choose_runs.tsx";
import { CodePanel } from "./code/code_difference.tsx";
import { Coordinates } from "./coordinates.tsx";
import { resultsAmong, settingsAmong } from "./fields.ts";
import { GroupList } from "./group_list.tsx";
import { coloured, grouped, withToggled } from "./groups.ts";
import { listOfAddress, listText, NO_LIST } from "./list.ts";
import { Overlay } from "./overlay.tsx";
import { OwnOverlay } from "./own_overlay.tsx";
import styles from "./page.module.css";
import { RunBars } from "./run_bars.tsx";
import { RunList } from "./run_list.tsx";
import { RunTable } from "./run_table.tsx";
import { fadedIds, MOST_RUNS, parseBest, runsOf, toggled } from "./runs.ts";
import { Points } from "./scatter.tsx";
import { axisNow, metricsNow, smoothNow, Tools } from "./tools.tsx";
import { useCurves } from "./use_curves.ts";
import { type Jobs, useJobs } from "./use_jobs.ts";
import { useWholeIds } from "./use_whole_ids.ts";
import { Utilization } from "./utilization.tsx";
import {
  bestParam,
  brushes,
  coloursParam,
  groupParam,
  hideParam,
  jobsParam,
  logParam,
  logXParam,
  studyParam,
} from "./view.ts";

const ONCE = { every_s: Number.POSITIVE_INFINITY };

export function ComparePage() {
  const [text, list] = [jobsParam.value, listOfAddress(query.value)];
  const namedIds = useMemo(() => [...new Set(listOf(text))], [text]);
  useWholeIds(namedIds);
  const jobs = useJobs(namedIds, list);
  const picking = {
    chosenIds: jobs.ids,
    study: studyParam.value,
    onToggle: (id: string) => (jobs.ids.includes(id) ? takeOut(jobs, [id]) : jobsParam.set([...namedIds, id].join())),
    onStudy: studyParam.set,
  };
  if (namedIds.length === 0 && list === "") {
    return (
      <Frame>
        <ChooseRuns />
      </Frame>
    );
  }
  return (
    <Frame tools={<AddRuns {...picking} />} jobs={jobs} list={list}>
      <ChoiceNotices jobs={jobs} />
      {jobs.isComplete ? <Comparison jobs={jobs} /> : <Waiting problem={jobs.problem} subject="runs" />}
    </Frame>
  );
}

/** Remove runs. The other runs of a list stay in the address by their ids. */
function takeOut(jobs: Jobs, removedIds: readonly string[]): void {
  const remainingIds = jobs.ids.filter((id) => !removedIds.includes(id));
  const hidden = listOf(hideParam.value).filter((id) => remainingIds.includes(id));
  setParams({ ...NO_LIST, jobs: remainingIds.join(), hide: hidden.join() });
}

interface FrameProps {
  tools?: preact.ComponentChildren;
  jobs?: Jobs;
  list?: string;
  children: preact.ComponentChildren;
}

function Frame({ jobs, list = "", ...props }: FrameProps) {
  const studyId = studyParam.value;
  const { data: study } = usePolled<Study>(studyId === "" ? null : `/v1/studies/${encodeURIComponent(studyId)}`, ONCE);
  return (
    <div class={styles["page"]}>
      <header class={styles["header"]}>
        <h1>Compare</h1>
        {jobs !== undefined && (
          <span class="muted">{countText(jobs.ids.filter((id) => !jobs.gone.has(id)).length, "run")}</span>
        )}
        {list !== "" && (
          <p>
            of the list <a href={`/?${list}`}>{listText(list, study?.name)}</a>
          </p>
        )}
        <span class={styles["tools"]}>{props.tools}</span>
      </header>
      {props.children}
    </div>
  );
}

/** Notices about the choice of runs. */
function ChoiceNotices({ jobs }: { jobs: Jobs }) {
  const gone = jobs.ids.filter((id) => jobs.gone.has(id));
  return (
    <>
      {jobs.isComplete && <ProblemNotice problem={jobs.problem} />}
      {gone.length > 0 && (
        <Notice kind="warn" title={gone.length === 1 ? "One run was not found" : `${gone.length} runs were not found`}>
          No job has {gone.length === 1 ? "the id" : "the ids"} <span class="mono">{gone.join(", ")}</span>, or it was
          removed.{" "}
          <button type="button" onClick={() => takeOut(jobs, gone)}>
            Remove
          </button>
        </Notice>
      )}
      {jobs.isCut && <Notice kind="warn">Too many runs: only the first {MOST_RUNS} are compared.</Notice>}
    </>
  );
}

function Comparison({ jobs }: { jobs: Jobs }) {
  const loadedJobs = useMemo(() => jobs.ids.flatMap((id) => jobs.jobs.get(id) ?? []), [jobs.ids, jobs.jobs]);
  const settings = useMemo(() => settingsAmong(loadedJobs), [loadedJobs]);
  const results = useMemo(() => resultsAmong(loadedJobs), [loadedJobs]);
  const fields = useMemo(() => [...settings.differing, ...results], [settings, results]);
  const [hide, best, drawnBrushes] = [hideParam.value, bestParam.value, brushes.value];
  const colourText = coloursParam.value;
  const colours = useMemo(() => pairsOf(colourText), [colourText]);
  const ownRuns = useMemo(
    () =>
      runsOf(jobs.ids, jobs.jobs, fields, {
        hidden: new Set(listOf(hide)),
        best: parseBest(best),
        places: jobs.places,
        colours,
      }),
    [jobs.ids, jobs.jobs, fields, hide, best, colours],
  );
  const groupBy = groupParam.value;
  const groups = useMemo(
    () => grouped(ownRuns, groupBy, settings.differing, colours),
    [ownRuns, groupBy, settings, colours],
  );
  const runs = useMemo(() => coloured(ownRuns, groups), [ownRuns, groups]);
  const faded = useMemo(() => fadedIds(runs, fields, drawnBrushes), [runs, fields, drawnBrushes]);
  const [metrics, axis] = [metricsNow(loadedJobs), axisNow(loadedJobs)];
  const curves = useCurves(runs, metrics, axis);
  const scope = useScope();
  const onHide = (key: string): void => {
    const group = groups.find((each) => each.key === key);
    hideParam.set((group ? withToggled(listOf(hide), group) : toggled(listOf(hide), key)).join());
  };
  const charts = { scope, runs, groups, faded, axis, smooth: smoothNow(), isLogX: logXParam.value === "1", onHide };
  const overlay = { ...charts, isLog: logParam.value === "1" };
  const list = { faded, onHide, onRemove: (id: string) => takeOut(jobs, [id]) };
  if (jobs.ids.length === 0) return <Notice>The list has no jobs yet. The page shows them when they come.</Notice>;
  if (runs.length === 0) return null;
  return (
    <>
      <div class={styles["columns"]}>
        <Panel title={groups.length > 0 ? "Groups of runs" : "Runs"} flush>
          {groups.length > 0 ? <GroupList groups={groups} {...list} /> : <RunList runs={runs} {...list} />}
        </Panel>
        <div class={styles["page"]}>
          <Tools runs={runs} results={results} settings={settings.differing} />
          <Overlay {...overlay} metrics={metrics} curves={curves} />
          <OwnOverlay {...overlay} />
          <Utilization {...charts} />
        </div>
      </div>
      <RunTable runs={runs} faded={faded} settings={settings} results={results} />
      {runs.length > 1 && <RunBars runs={runs} groups={groups} faded={faded} results={results} />}
      {groups.length > 0 && <Boxes groups={groups} faded={faded} settings={settings.differing} results={results} />}
      {runs.length > 1 && (
        <>
          <Points runs={runs} faded={faded} settings={settings.differing} results={results} />
          <Coordinates runs={runs} faded={faded} settings={settings.differing} results={results} />
        </>
      )}
      <CodePanel runs={runs} />
    </>
  );
}
