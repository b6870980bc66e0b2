// The runs as points over two of their settings and results, and how each setting goes with the upper one.

import { useMemo } from "preact/hooks";
import { Scatter } from "../../charts/scatter.tsx";
import { number } from "../../format.ts";
import { Panel } from "../../parts/panel.tsx";
import { Shares } from "../../parts/shares.tsx";
import { axisOf, scalesNow } from "./axes.ts";
import { ColourBy, useColours } from "./colours.tsx";
import { pointedIds } from "./coordinates.tsx";
import { correlations } from "./correlations.ts";
import { AxisChoice } from "./field_choice.tsx";
import { type Field, resultsAtFirst } from "./fields.ts";
import { focused, pin, point } from "./focus.ts";
import styles from "./page.module.css";
import type { Run } from "./runs.ts";
import tools from "./tools.module.css";
import { acrossParam, upParam } from "./view.ts";

interface Props {
  runs: readonly Run[];
  /** Ids of runs that are drawn faintly. */
  faded: ReadonlySet<string>;
  settings: readonly Field[];
  results: readonly Field[];
}

export function Points({ runs, faded, settings, results }: Props) {
  const fields = [...settings, ...results];
  const fieldOf = (key: string, atFirst: Field | undefined): Field | undefined =>
    fields.find((field) => field.key === key) ?? atFirst;
  const up = fieldOf(upParam.value, resultsAtFirst(results)[0] ?? results[0]);
  const across = fieldOf(acrossParam.value, fields[0]);
  const shownRuns = useMemo(() => runs.filter((run) => !run.isHidden), [runs]);
  const colours = useColours(fields, shownRuns);
  if (up === undefined || across === undefined) return null;
  const scales = scalesNow();
  const axis = (field: Field) => {
    const made = axisOf(field, shownRuns, scales.get(field.key));
    return { ...made, format: made.values.some((value) => typeof value === "string") ? String : field.format };
  };
  const [x, y] = [axis(across), axis(up)];
  return (
    <div class={styles["pair"]}>
      <Panel title="Scatter" tools={<ColourBy fields={fields} colours={colours} runs={shownRuns} />}>
        <div class={tools["tools"]}>
          <AxisChoice label="Across" axis={x} fields={fields} onChange={acrossParam.set} />
          <AxisChoice label="Up" axis={y} fields={fields} onChange={upParam.set} />
        </div>
        <Scatter
          title="Scatter"
          x={x}
          y={y}
          points={shownRuns.map((run) => ({
            key: run.id,
            name: `${run.number} ${run.job.name}`,
            colour: colours.colourOf(run).colour,
          }))}
          faded={new Set([...faded, ...colours.without])}
          pointed={pointedIds(shownRuns, focused.value)}
          onPoint={point}
          onPick={pin}
        />
      </Panel>
      <Panel title={`Correlation with ${up.label}`}>
        <Correlations runs={shownRuns.filter(({ id }) => !faded.has(id))} settings={settings} result={up} />
      </Panel>
    </div>
  );
}

function Correlations({ runs, settings, result }: { runs: readonly Run[]; settings: readonly Field[]; result: Field }) {
  const found = correlations(
    settings.filter(({ key }) => !key.startsWith("plan.")), // the plan follows from the others
    result,
    runs.map(({ job }) => job),
  );
  if (found.length === 0) return <p class="muted">This needs four runs with different settings and results.</p>;
  return (
    <>
      <p class={styles["explanation"]}>
        The rank correlation: at 1 the result rises with the setting, at -1 it falls. Click a setting to see the runs.
      </p>
      <Shares
        rows={found.map(({ key, label, value, count }) => ({
          label,
          share: Math.abs(value),
          isFalling: value < 0,
          text: `${number(value, 2)}, n ${count}`,
          onClick: () => acrossParam.set(key),
        }))}
      />
    </>
  );
}
