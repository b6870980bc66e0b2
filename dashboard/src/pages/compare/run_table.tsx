// The settings that differ, and the results. Two or three runs are columns, to be read field
// by field. More runs are rows, which can be sorted.

import { useComputed } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { Swatch } from "../../charts/swatch.tsx";
import { Figure } from "../../parts/figure.tsx";
import { Panel } from "../../parts/panel.tsx";
import { SortHead } from "../../parts/sort_head.tsx";
import { StatusBadge } from "../../parts/status.tsx";
import { saveAs } from "../../save.ts";
import { bestOf, type Field, type Settings, type Value } from "./fields.ts";
import { focused, focusing } from "./focus.ts";
import styles from "./run_table.module.css";
import type { Run } from "./runs.ts";
import { bestValues, csvOfRuns, differenceFrom, nextSort, parseSort, sortedRuns } from "./table.ts";
import tools from "./tools.module.css";
import { baselineParam, orderParam } from "./view.ts";

const FEW = 3;

interface Props {
  runs: readonly Run[];
  /** Ids of runs that are drawn faintly. */
  faded: ReadonlySet<string>;
  settings: Settings;
  results: readonly Field[];
}

export function RunTable({ runs, faded, settings, results }: Props) {
  const fields = useMemo(() => inOrder(settings.differing, results), [results, settings]);
  const isFew = runs.length > 1 && runs.length <= FEW;
  const Shape = isFew ? AsColumns : AsRows;
  const baseline = runs.find(({ id }) => id === baselineParam.value);
  const save = (): void => {
    const sorted = isFew ? runs : sortedRuns(runs, fields, parseSort(orderParam.value));
    saveAs("compare.csv", new Blob([csvOfRuns(sorted, fields)], { type: "text/csv" }));
  };
  return (
    <Panel
      title="Runs side by side"
      flush
      tools={
        <>
          {runs.length > 1 && <Baseline runs={runs} baseline={baseline} />}
          <button type="button" title="This table with exact values, as a CSV file" onClick={save}>
            CSV
          </button>
        </>
      }
    >
      <div
        class={`${styles["scroll"]} ${isFew ? "" : styles["long"]}`}
        tabIndex={0}
        role="region"
        aria-label="Table of runs"
      >
        <Shape runs={runs} faded={faded} fields={fields} baseline={baseline} />
      </div>
      {settings.shared.length > 0 && runs.length > 1 && <SharedSettings settings={settings.shared} />}
    </Panel>
  );
}

/** The choice of the run that the others are compared with. */
function Baseline({ runs, baseline }: Pick<ShapeProps, "runs" | "baseline">) {
  return (
    <label class={`${tools["check"]} ${styles["baseline"]}`}>
      Baseline
      <select value={baseline?.id ?? ""} onChange={(event) => baselineParam.set(event.currentTarget.value)}>
        <option value="">none</option>
        {runs.map(({ id, number, label }) => (
          <option key={id} value={id}>
            {number} {label}
          </option>
        ))}
      </select>
    </label>
  );
}

/** Settings of the spec, then results, then settings of the plan. */
function inOrder(differing: readonly Field[], results: readonly Field[]): Field[] {
  const isPlanned = ({ key }: Field): boolean => key.startsWith("plan.");
  return [...differing.filter((field) => !isPlanned(field)), ...results, ...differing.filter(isPlanned)];
}

interface ShapeProps {
  runs: readonly Run[];
  faded: ReadonlySet<string>;
  fields: readonly Field[];
  baseline: Run | undefined;
}

function AsRows({ runs, faded, fields, baseline }: ShapeProps) {
  const sort = parseSort(orderParam.value);
  const bestByKey = useMemo(
    () =>
      bestValues(
        fields,
        runs.map(({ job }) => job),
      ),
    [fields, runs],
  );
  return (
    <table class={styles["table"]}>
      <thead>
        <tr>
          <th scope="col" class={styles["fixed"]}>
            Run
          </th>
          <th scope="col">Status</th>
          {fields.map((field) => (
            <SortHead
              key={field.key}
              label={field.label}
              sorted={sort?.key !== field.key ? "none" : sort.isFalling ? "descending" : "ascending"}
              onSort={() => orderParam.set(nextSort(sort, field))}
            />
          ))}
        </tr>
      </thead>
      <tbody>
        {sortedRuns(runs, fields, sort).map((run) => (
          <Row
            key={run.id}
            run={run}
            isBack={run.isHidden || faded.has(run.id)}
            fields={fields}
            baseline={baseline}
            bestByKey={bestByKey}
          />
        ))}
      </tbody>
    </table>
  );
}

interface RowProps {
  run: Run;
  isBack: boolean;
  fields: readonly Field[];
  baseline: Run | undefined;
  bestByKey: ReadonlyMap<string, Value>;
}

function Row({ run, isBack, fields, baseline, bestByKey }: RowProps) {
  const isFocused = useComputed(() => ([run.id, run.group].includes(focused.value ?? "") ? "true" : undefined));
  // Made once for each state of a run: while a range is drawn, hundreds of rows change only their colour.
  const cells = useMemo(
    () =>
      fields.map((field) => (
        <Cell
          key={field.key}
          field={field}
          run={run}
          baseline={baseline}
          isBest={isBest(field, run, bestByKey.get(field.key) ?? null)}
        />
      )),
    [run, fields, baseline, bestByKey],
  );
  return (
    <tr data-focused={isFocused} data-back={isBack || undefined} {...focusing(run.id)}>
      <th scope="row" class={styles["fixed"]}>
        <Name run={run} />
      </th>
      <td>
        <StatusBadge status={run.job.status} reason={run.job.end_reason} pausedAt={run.job.paused_at} />
      </td>
      {cells}
    </tr>
  );
}

function Name({ run }: { run: Run }) {
  return (
    <span class={styles["name"]}>
      <span class={styles["number"]}>{run.number}</span> <Swatch colour={run.colour} dash={run.dash} />{" "}
      <a href={`/jobs/${run.id}`} title={`${run.job.name} · ${run.id}`}>
        {run.label}
      </a>
      {run.id === baselineParam.value && <span class="muted">baseline</span>}
    </span>
  );
}

function isBest(field: Field, run: Run, best: Value): boolean {
  return best !== null && field.valueIn(run.job) === best;
}

interface CellProps {
  field: Field;
  run: Run;
  baseline: Run | undefined;
  isBest: boolean;
}

function Cell({ field, run, baseline, isBest }: CellProps) {
  const difference = baseline && baseline.id !== run.id ? differenceFrom(baseline.job, run.job, field) : null;
  const verdict = difference === null || difference.isBetter === null ? "" : difference.isBetter ? "better" : "worse";
  return (
    <td class={`figure ${styles["cell"]}`}>
      <Figure text={field.format(field.valueIn(run.job))} best={isBest ? `best ${field.label}` : null} />
      {difference !== null && (
        <small class={styles[verdict || "even"]}>
          {difference.text} {verdict}
        </small>
      )}
    </td>
  );
}

function AsColumns({ runs, fields, baseline }: ShapeProps) {
  const jobs = runs.map(({ job }) => job);
  return (
    <table class={styles["table"]}>
      <thead>
        <tr>
          <td />
          {runs.map((run) => (
            <th key={run.id} scope="col" class={styles["head"]} {...focusing(run.id)}>
              <Name run={run} />
              <StatusBadge status={run.job.status} pausedAt={run.job.paused_at} />
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {fields.map((field) => {
          const best = bestOf(field, jobs);
          return (
            <tr key={field.key}>
              <th scope="row">{field.label}</th>
              {runs.map((run) => (
                <Cell key={run.id} field={field} run={run} baseline={baseline} isBest={isBest(field, run, best)} />
              ))}
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

function SharedSettings({ settings }: { settings: Settings["shared"] }) {
  return (
    <details class={styles["same"]}>
      <summary>{settings.length} settings are the same in all runs</summary>
      <dl>
        {settings.map(({ label, text }) => (
          <div key={label}>
            <dt>{label}</dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
    </details>
  );
}
