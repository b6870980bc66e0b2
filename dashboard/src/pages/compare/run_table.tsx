// The settings that differ, and the results. Two or three runs are columns, to be read field
// by field. More runs are rows, which can be sorted.

import { useComputed } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { Swatch } from "../../charts/swatch.tsx";
import { Figure } from "../../parts/figure.tsx";
import { Panel } from "../../parts/panel.tsx";
import { SortHead } from "../../parts/sort_head.tsx";
import { StatusBadge } from "../../parts/status.tsx";
import { bestOf, type Field, type Settings, type Value } from "./fields.ts";
import { focused, focusing } from "./focus.ts";
import styles from "./run_table.module.css";
import type { Run } from "./runs.ts";
import { bestValues, nextSort, parseSort, sortedRuns } from "./table.ts";
import { orderParam } from "./view.ts";

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
  return (
    <Panel title="Runs side by side" flush>
      <div
        class={`${styles["scroll"]} ${isFew ? "" : styles["long"]}`}
        tabIndex={0}
        role="region"
        aria-label="Table of runs"
      >
        <Shape runs={runs} faded={faded} fields={fields} />
      </div>
      {settings.shared.length > 0 && runs.length > 1 && <SharedSettings settings={settings.shared} />}
    </Panel>
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
}

function AsRows({ runs, faded, fields }: ShapeProps) {
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
  bestByKey: ReadonlyMap<string, Value>;
}

function Row({ run, isBack, fields, bestByKey }: RowProps) {
  const isFocused = useComputed(() => ([run.id, run.group].includes(focused.value ?? "") ? "true" : undefined));
  // Made once for each state of a run: while a range is drawn, hundreds of rows change only their colour.
  const cells = useMemo(
    () =>
      fields.map((field) => (
        <Cell key={field.key} field={field} run={run} isBest={isBest(field, run, bestByKey.get(field.key) ?? null)} />
      )),
    [run, fields, bestByKey],
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
    </span>
  );
}

function isBest(field: Field, run: Run, best: Value): boolean {
  return best !== null && field.valueIn(run.job) === best;
}

function Cell({ field, run, isBest }: { field: Field; run: Run; isBest: boolean }) {
  return (
    <td class={`figure ${styles["cell"]}`}>
      <Figure text={field.format(field.valueIn(run.job))} best={isBest ? `best ${field.label}` : null} />
    </td>
  );
}

function AsColumns({ runs, fields }: ShapeProps) {
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
                <Cell key={run.id} field={field} run={run} isBest={isBest(field, run, best)} />
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
