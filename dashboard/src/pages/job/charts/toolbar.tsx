// The settings of a job's charts: the axis, the smoothing, the scales, the ranks, and the range in view.

import type { Scope } from "../../../charts/scope.ts";
import { SmoothingControl } from "../../../charts/smoothing_control.tsx";
import { Zoom } from "../../../charts/zoom.tsx";
import { Choice } from "../../../parts/choice.tsx";
import { Find } from "../../../parts/find.tsx";
import { setParams } from "../../../url.ts";
import styles from "./toolbar.module.css";
import { findParam, type View } from "./use_view.ts";
import { AXES, type Axis, DEFAULTS, textOf, toggled } from "./view.ts";

interface Props {
  view: View;
  scope: Scope;
  /** How many ranks the job has. */
  count: number;
  onAxis: (axis: Axis) => void;
  onNew: () => void;
}

const LOGS = [
  ["losses", "Losses"],
  ["times", "Times"],
] as const;

export function Toolbar({ view, scope, count, onAxis, onNew }: Props) {
  return (
    <header class={styles["bar"]}>
      <h2 class="spoken">Charts</h2>
      <Choice label="Axis" value={view.axis} options={AXES} onChange={onAxis} />
      <SmoothingControl
        smoothing={view.smooth.value}
        onChange={(next) => {
          view.smooth.value = next;
        }}
      />
      <fieldset class={styles["logs"]}>
        <legend class="spoken">Logarithmic scale</legend>
        <span aria-hidden="true">Log</span>
        {LOGS.map(([key, text]) => (
          <label key={key}>
            <input
              type="checkbox"
              checked={view.logs.has(key)}
              onChange={() => setParams({ log: textOf(toggled(view.logs, key), DEFAULTS.logs) })}
            />
            {text}
          </label>
        ))}
      </fieldset>
      {count > 1 && <RankChoice view={view} count={count} />}
      <Find label="Find charts" text={findParam} />
      <button type="button" onClick={onNew}>
        New chart
      </button>
      <Zoom scope={scope} unitX={view.axis === "time" ? "seconds" : "tens"} />
    </header>
  );
}

function RankChoice({ view, count }: { view: View; count: number }) {
  return (
    <label class={styles["ranks"]}>
      <span class="spoken">Ranks</span>
      <select value={String(view.ranks)} onChange={(event) => setParams({ ranks: event.currentTarget.value })}>
        <option value="all">All {count} ranks</option>
        <option value="mean">Mean of ranks</option>
        {Array.from({ length: count }, (_, rank) => (
          <option key={String(rank)} value={String(rank)}>
            Rank {rank}
          </option>
        ))}
      </select>
    </label>
  );
}
