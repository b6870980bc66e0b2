// The quote of a job: means and ranges from comparable past jobs, with links to them.

import type { Quote, Range } from "../../api/types.ts";
import { duration, gpuTime, number, percent } from "../../format.ts";
import { Panel } from "../../parts/panel.tsx";
import styles from "./outlook.module.css";
import { lowered } from "./text.ts";

const BASIS: Record<Quote["basis"], string> = {
  same_spec: "the same spec except for names and rates",
  same_batch_and_gpus: "the same work with the same batch on as many GPUs",
  scaled: "the same work with other batches or GPUs, scaled",
};

type Figure = Range | number | null;
type Write = (value: number) => string;
type Row = readonly [name: string, figure: Figure, write: Write];

export function Expected({ quote }: { quote: Quote | null | undefined }) {
  if (quote === null || quote === undefined) {
    return (
      <Panel title="Expected">
        <p class="muted">No quote: no past job did comparable work.</p>
      </Panel>
    );
  }
  const rows: readonly Row[] = [
    ["Training", quote.wall_s, (value) => duration(value)],
    ["Set-up", quote.setup_s, (value) => duration(value)],
    ["GPU time", quote.gpu_hours, (value) => gpuTime(value)],
    ["Samples per second", quote.samples_per_s, (value) => number(value, 3)],
    ["Speed-up over one GPU", quote.speedup, times],
    ["Efficiency", quote.efficiency, (value) => percent(value)],
    ["Gain over half as many GPUs", quote.doubling_gain, (value) => `${times(value)} of 2`],
  ];
  const unknown = rows.filter(([, figure]) => figure === null).map(([name]) => lowered(name));
  return (
    <Panel title="Expected">
      <Basis quote={quote} />
      <table class={styles["rows"]}>
        <caption class="spoken">Expected figures</caption>
        <tbody>
          {rows.map(([name, figure, write]) => (
            <Line key={name} name={name} figure={figure} write={write} />
          ))}
        </tbody>
      </table>
      {unknown.length > 0 && <p class={styles["unknown"]}>Unknown: {unknown.join(", ")}.</p>}
    </Panel>
  );
}

const SHOWN = 3;

function Basis({ quote: { basis, jobs, epochs, wall_s } }: { quote: Quote }) {
  return (
    <div class={styles["basis"]}>
      <p>
        From {jobs.length === 1 ? "a past job" : `${jobs.length} past jobs`}: {BASIS[basis]} (
        {jobs.slice(0, SHOWN).map((id, index) => (
          <span key={id}>
            {index > 0 && ", "}
            <a href={`/jobs/${id}`} class="mono">
              {id}
            </a>
          </span>
        ))}
        {jobs.length > SHOWN && ", …"}).
      </p>
      {epochs !== null && <p>Calculated with {epochs}.</p>}
      {epochs === null && wall_s === null && <p>The number of epochs is unknown, and so is the time.</p>}
    </div>
  );
}

function Line({ name, figure, write }: { name: string; figure: Figure; write: Write }) {
  if (figure === null) return null;
  const [low, high] = typeof figure === "number" ? ["", ""] : [write(figure.low), write(figure.high)];
  return (
    <tr>
      <th scope="row">{name}</th>
      <td>
        {write(typeof figure === "number" ? figure : figure.mean)}
        {low !== high && (
          <small>
            {low} to {high}
          </small>
        )}
      </td>
    </tr>
  );
}

function times(factor: number): string {
  return `${number(factor, 3)} ×`;
}
