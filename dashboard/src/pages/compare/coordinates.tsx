// The runs on parallel axes: settings that differ, then results. Ranges on axes filter the runs of the whole page.

import { useMemo } from "preact/hooks";
import { ParallelChart, type ParallelLine } from "../../charts/parallel.tsx";
import { Panel } from "../../parts/panel.tsx";
import { listOf } from "../../query.ts";
import { axisOf, scalesNow, setScale } from "./axes.ts";
import { ColourBy, type Colours, useColours } from "./colours.tsx";
import styles from "./coordinates.module.css";
import { type Field, resultsAtFirst } from "./fields.ts";
import { focused, point } from "./focus.ts";
import { Ranges } from "./ranges.tsx";
import { type Run, toggled } from "./runs.ts";
import { Toggles } from "./toggles.tsx";
import { axesParam, brushes, chosenOf, chosenText, clearBrushes, flipParam, scalesParam, setBrush } from "./view.ts";

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
  const shownFields = useMemo(
    () => chosenKeys.flatMap((key) => fields.find((field) => field.key === key) ?? []),
    [fields, chosenKeys],
  );
  const shownRuns = useMemo(() => runs.filter((run) => !run.isHidden), [runs]);
  const colours = useColours(fields, shownRuns);
  const lines = useMemo(() => linesOf(shownRuns, colours), [shownRuns, colours]);
  const back = useMemo(() => new Set([...faded, ...colours.without]), [faded, colours]);
  const [scales, flippedKeys] = [scalesNow(), listOf(flipParam.value)];
  const axes = useMemo(
    () =>
      shownFields.map((field) => ({
        ...axisOf(field, shownRuns, scales.get(field.key)),
        isFlipped: flippedKeys.includes(field.key),
      })),
    [shownFields, shownRuns, scalesParam.value, flipParam.value],
  );
  const keptCount = shownRuns.filter(({ id }) => !faded.has(id)).length;
  return (
    <Panel title="Parallel coordinates" flush tools={<ColourBy fields={fields} colours={colours} runs={shownRuns} />}>
      <div class={styles["axes"]}>
        <Toggles
          label="Axes"
          options={fields.map(({ key, label }) => [key, label])}
          chosenKeys={chosenKeys}
          onToggle={(key) => axesParam.set(chosenText(toggled(chosenKeys, key), defaultKeys))}
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
          entries={colours.entries}
          faded={back}
          brushes={brushes.value}
          onBrush={setBrush}
          onScale={setScale}
          onFlip={(key) => flipParam.set(toggled(flippedKeys, key).join())}
          onMove={(key) => axesParam.set(chosenText(movedLeft(axes, key), defaultKeys))}
          pointed={pointedIds(shownRuns, focused.value)}
          onPoint={point}
        />
      )}
      <Ranges fields={shownFields} runs={shownRuns} />
    </Panel>
  );
}

/** The run in focus, or all runs of the group in focus. */
export function pointedIds(runs: readonly Run[], focus: string | null): readonly string[] {
  return focus === null ? [] : runs.filter(({ id, group }) => id === focus || group === focus).map(({ id }) => id);
}

function defaultAxes(settings: readonly Field[], results: readonly Field[]): string[] {
  const resultKeys = resultsAtFirst(results).map(({ key }) => key);
  const settingKeys = settings.map(({ key }) => key).filter((key) => key !== "seed" && !key.startsWith("plan."));
  return [...settingKeys.slice(0, MOST_SETTINGS), ...resultKeys];
}

function movedLeft(axes: readonly { readonly key: string }[], key: string): string[] {
  const others = axes.map((axis) => axis.key).filter((other) => other !== key);
  return others.toSpliced(axes.findIndex((axis) => axis.key === key) - 1, 0, key);
}

function linesOf(runs: readonly Run[], { colourOf }: Colours): ParallelLine[] {
  return runs.map((run) => ({ key: run.id, name: `${run.number} ${run.job.name}`, ...colourOf(run) }));
}
