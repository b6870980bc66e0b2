// The settings of the curves: axis, smoothing, metrics. All of them are in the address.

import { usePolled } from "../../api/polled.ts";
import type { Job, Metrics } from "../../api/types.ts";
import { type Smoothing, smoothingFrom } from "../../charts/smoothing.ts";
import { SmoothingControl } from "../../charts/smoothing_control.tsx";
import { NO_ZOOM } from "../../charts/use_scope.ts";
import { metricText } from "../../metrics.ts";
import { pathWith } from "../../query.ts";
import { setParams } from "../../url.ts";
import { articlePath } from "./article.ts";
import { AXES, type Axis, axisAtFirst, metricOfAxis, metricsAmong, ordered, shownAtFirst } from "./curves.ts";
import { FieldChoice } from "./field_choice.tsx";
import type { Field } from "./fields.ts";
import { GroupTools } from "./group_tools.tsx";
import { type Best, parseBest, type Run, toggled } from "./runs.ts";
import { Toggles } from "./toggles.tsx";
import styles from "./tools.module.css";
import {
  axisParam,
  bestParam,
  chosenOf,
  chosenText,
  groupParam,
  logParam,
  logXParam,
  metricsParam,
  smoothParam,
} from "./view.ts";

/** The axis in the address, or the default. */
export function axisNow(jobs: readonly Job[]): Axis {
  return axisParam.value || axisAtFirst(jobs);
}

export function smoothNow(): Smoothing {
  return smoothingFrom(smoothParam.value, 0);
}

export function metricsNow(jobs: readonly Job[]): readonly string[] {
  return chosenOf(metricsParam.value, shownAtFirst(jobs));
}

const MANY = 40; // metrics: the others are in a menu

interface Props {
  runs: readonly Run[];
  results: readonly Field[];
  /** The settings that differ. */
  settings: readonly Field[];
}

export function Tools({ runs, results, settings }: Props) {
  const jobs = runs.map(({ job }) => job);
  const names = useNames(runs);
  const chosenNames = metricsNow(jobs);
  const allNames = metricsAmong(jobs, names, chosenNames);
  const shownNames = allNames.filter((name, place) => place < MANY || chosenNames.includes(name));
  const toggle = (name: string): void =>
    metricsParam.set(chosenText(ordered(toggled(chosenNames, name), allNames), shownAtFirst(jobs)));
  const setAxis = (axis: Axis): void => setParams({ x: axis === axisAtFirst(jobs) ? null : axis, ...NO_ZOOM });
  const [axis, smooth] = [axisNow(jobs), smoothNow()];
  return (
    <div class={styles["tools"]}>
      <label class={styles["check"]}>
        Axis
        <select value={axis} onChange={(event) => setAxis(event.currentTarget.value)}>
          {AXES.map(([name, text]) => (
            <option key={name} value={name}>
              {text}
            </option>
          ))}
          <optgroup label="A metric">
            {[...new Set([...allNames, ...(metricOfAxis(axis) === null ? [] : [axis])])].map((name) => (
              <option key={name} value={name}>
                {metricText(name)}
              </option>
            ))}
          </optgroup>
        </select>
      </label>
      <SmoothingControl smoothing={smooth} onChange={(next) => smoothParam.set(String(next))} />
      <label class={styles["check"]}>
        <input
          type="checkbox"
          checked={logParam.value === "1"}
          onChange={(event) => logParam.set(event.currentTarget.checked ? "1" : "")}
        />
        Log scale
      </label>
      <label class={styles["check"]}>
        <input
          type="checkbox"
          checked={logXParam.value === "1"}
          onChange={(event) => setParams({ logx: event.currentTarget.checked ? "1" : null, ...NO_ZOOM })}
        />
        Log axis
      </label>
      <BestOf results={results} />
      <GroupTools runs={runs} settings={settings} />
      {chosenNames.length > 0 && runs.some(({ isHidden }) => !isHidden) && (
        <a href={articlePath(runs, chosenNames, axis, groupParam.value)} title="An article with these curves">
          New article
        </a>
      )}
      <Toggles
        label="Metrics"
        options={shownNames.map((name) => [name, metricText(name)])}
        chosenKeys={chosenNames}
        onToggle={toggle}
      />
      {shownNames.length < allNames.length && (
        <select aria-label="Other metrics" value="" onChange={(event) => toggle(event.currentTarget.value)}>
          <option value="">{allNames.length - shownNames.length} more metrics…</option>
          {allNames
            .filter((name) => !shownNames.includes(name))
            .map((name) => (
              <option key={name} value={name}>
                {metricText(name)}
              </option>
            ))}
        </select>
      )}
    </div>
  );
}

/** The metrics of the first run over all ranks, with those that Hora measured. */
function useNames(runs: readonly Run[]): readonly string[] {
  const first =
    runs.find(({ job }) => job.ended_at !== null && job.summary !== null) ?? runs.find(({ job }) => job.started_at);
  const path = first === undefined ? null : pathWith(`/v1/jobs/${first.id}/metrics`, { rank: -1, max_points: 4 });
  const { data } = usePolled<Metrics>(path, { every_s: Number.POSITIVE_INFINITY });
  return [...new Set(data?.series.map(({ name }) => name))];
}

const COUNTS = [3, 5, 10, 20];

/** The choice to show only the best runs by a figure. */
function BestOf({ results }: { results: readonly Field[] }) {
  const ranking = results.filter(({ better }) => better !== undefined);
  const best = parseBest(bestParam.value);
  const set = (next: Best | null): void => bestParam.set(next === null ? "" : `${next.count}:${next.key}`);
  const counts = best === null || COUNTS.includes(best.count) ? COUNTS : [...COUNTS, best.count];
  return (
    <span class={styles["best"]}>
      <label>
        <span class="spoken">How many runs</span>
        <select
          value={best?.count ?? ""}
          onChange={({ currentTarget: { value } }) =>
            set(value === "" ? null : { count: Number(value), key: best?.key ?? ranking[0]?.key ?? "" })
          }
        >
          <option value="">All runs</option>
          {counts.map((count) => (
            <option key={count} value={count}>
              Best {count}
            </option>
          ))}
        </select>
      </label>
      {best !== null && (
        <FieldChoice label="by" value={best.key} fields={ranking} onChange={(key) => set({ ...best, key })} />
      )}
    </span>
  );
}
