// The runs on parallel axes: settings that differ, then results. Ranges on axes filter the runs of the whole page.

import { useMemo } from "preact/hooks";
import { type AxisValue, wantsLog } from "../../charts/axis_scale.ts";
import { ParallelChart, type ParallelLine } from "../../charts/parallel.tsx";
import { extentOf, RAMP, rampColour, shareOf } from "../../charts/ramp.ts";
import { Panel } from "../../parts/panel.tsx";
import styles from "./coordinates.module.css";
import { canBeLog } from "./curves.ts";
import { type Field, resultsAtFirst, valueText } from "./fields.ts";
import { focused } from "./focus.ts";
import { Ranges } from "./ranges.tsx";
import { type Run, toggled } from "./runs.ts";
import { Toggles } from "./toggles.tsx";
import { axesParam, brushes, byParam, chosenOf, chosenText, clearBrushes, scalesParam, setBrush } from "./view.ts";

const MOST_SETTINGS = 6; // axes that are shown by default

interface Props {
  runs: readonly Run[];
  /** Ids of runs that are drawn faintly. */
  faded: ReadonlySet<string>;
  settings: readonly Field[];
  results: readonly Field[];
}

export function Coordinates({ runs, faded, settings, results }: Props) {
  const fields = useMemo(() => [...settings, ...results], [settings, results]);
  const defaultKeys = useMemo(() => defaultAxes(settings, results), [settings, results]);
  const chosenKeys = useMemo(() => chosenOf(axesParam.value, defaultKeys), [axesParam.value, defaultKeys]);
  const shownFields = useMemo(() => fields.filter(({ key }) => chosenKeys.includes(key)), [fields, chosenKeys]);
  const by = results.find(({ key }) => key === byParam.value);
  const shownRuns = useMemo(() => runs.filter((run) => !run.isHidden), [runs]);
  const lines = useMemo(() => linesOf(shownRuns, by), [shownRuns, by]);
  const back = useMemo(() => new Set([...faded, ...withoutValue(shownRuns, by)]), [faded, shownRuns, by]);
  const scales = useMemo(() => scalesOf(scalesParam.value), [scalesParam.value]);
  const axes = useMemo(
    () => shownFields.map((field) => axisOf(field, shownRuns, scales.get(field.key))),
    [shownFields, shownRuns, scales],
  );
  const onScale = (key: string, isLog: boolean): void =>
    scalesParam.set(
      [...new Map(scales).set(key, isLog)].map(([name, log]) => `${name}:${log ? "log" : "linear"}`).join(","),
    );
  const keptCount = shownRuns.filter(({ id }) => !faded.has(id)).length;
  return (
    <Panel title="Parallel coordinates" flush tools={<ColourBy results={results} by={by} runs={shownRuns} />}>
      <div class={styles["axes"]}>
        <Toggles
          label="Axes"
          options={fields.map(({ key, label }) => [key, label])}
          chosenKeys={chosenKeys}
          onToggle={(key) => axesParam.set(chosenText(inOrder(toggled(chosenKeys, key), fields), defaultKeys))}
        />
        {brushes.value.size > 0 && (
          <p class={styles["kept"]} role="status">
            {keptCount} of {shownRuns.length} runs are within the ranges{" "}
            <button type="button" class="plain" onClick={clearBrushes}>
              Clear ranges
            </button>
          </p>
        )}
      </div>
      {axes.length < 2 ? (
        <p class={styles["none"]}>Choose at least two axes.</p>
      ) : (
        <ParallelChart
          title="Axes of runs"
          axes={axes}
          lines={lines}
          faded={back}
          brushes={brushes.value}
          onBrush={setBrush}
          onScale={onScale}
          pointed={pointedIds(shownRuns, focused.value)}
          onPoint={(key) => (focused.value = key)}
        />
      )}
      <Ranges fields={shownFields} runs={shownRuns} />
    </Panel>
  );
}

/** The run in focus, or all runs of the group in focus. */
function pointedIds(runs: readonly Run[], focus: string | null): readonly string[] {
  return focus === null ? [] : runs.filter(({ id, group }) => id === focus || group === focus).map(({ id }) => id);
}

function defaultAxes(settings: readonly Field[], results: readonly Field[]): string[] {
  const resultKeys = resultsAtFirst(results).map(({ key }) => key);
  const settingKeys = settings.map(({ key }) => key).filter((key) => key !== "seed" && !key.startsWith("plan."));
  return [...settingKeys.slice(0, MOST_SETTINGS), ...resultKeys];
}

function inOrder(keys: readonly string[], fields: readonly Field[]): string[] {
  return fields.filter(({ key }) => keys.includes(key)).map(({ key }) => key);
}

function scalesOf(text: string): Map<string, boolean> {
  const pairs = text === "" ? [] : text.split(",").map((pair) => pair.split(":"));
  return new Map(pairs.map(([key = "", scale]) => [key, scale === "log"]));
}

function axisOf(field: Field, runs: readonly Run[], isLog: boolean | undefined) {
  const raw = runs.map(({ job }) => field.valueIn(job));
  const isText = raw.some((value) => typeof value === "string" || typeof value === "boolean");
  const values: AxisValue[] = raw.map((value) =>
    value === null ? null : isText || typeof value === "boolean" ? valueText(value) : value,
  );
  return { key: field.key, label: field.label, values, isLog: isLog ?? (canBeLog(field.key) && wantsLog(values)) };
}

function linesOf(runs: readonly Run[], by: Field | undefined): ParallelLine[] {
  const extent = by && extentOf(figuresOf(by, runs));
  return runs.map((run) => {
    const line = { key: run.id, name: `${run.number} ${run.job.name}` };
    if (by === undefined) return { ...line, colour: `var(--${run.colour})`, dash: run.dash };
    const value = by.valueIn(run.job);
    const share = typeof value === "number" && extent ? shareOf(value, extent) : 0;
    return { ...line, colour: rampColour(share), dash: [] };
  });
}

/** The ids of runs without the result that sets the colour. They are drawn faintly too. */
function withoutValue(runs: readonly Run[], by: Field | undefined): string[] {
  return by === undefined ? [] : runs.filter(({ job }) => by.valueIn(job) === null).map(({ id }) => id);
}

function figuresOf(field: Field, runs: readonly Run[]): number[] {
  return runs.map(({ job }) => field.valueIn(job)).filter((value) => typeof value === "number");
}

function ColourBy({ results, by, runs }: { results: readonly Field[]; by: Field | undefined; runs: readonly Run[] }) {
  const extent = by && extentOf(figuresOf(by, runs));
  return (
    <>
      {by && extent && (
        <span class={styles["ramp"]}>
          {by.format(extent[0])} <span class={styles["bar"]} style={{ background: RAMP }} /> {by.format(extent[1])}
        </span>
      )}
      <label class={styles["by"]}>
        Colour by
        <select value={by?.key ?? ""} onChange={(event) => byParam.set(event.currentTarget.value)}>
          <option value="">{runs.some(({ group }) => group !== null) ? "group" : "run"}</option>
          {results.map(({ key, label }) => (
            <option key={key} value={key}>
              {label}
            </option>
          ))}
        </select>
      </label>
    </>
  );
}
