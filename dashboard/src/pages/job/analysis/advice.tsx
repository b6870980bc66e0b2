// The advice for a job, most useful first, each with its reason and its expected gain.

import type { Advice } from "../../../api/types.ts";
import { number } from "../../../format.ts";
import { Panel } from "../../../parts/panel.tsx";
import { flatChange } from "./evidence.ts";
import { Evidence } from "./evidence.tsx";
import styles from "./findings.module.css";

export function AdvicePanel({ job, items, isLive }: { job: string; items: readonly Advice[]; isLive: boolean }) {
  return (
    <Panel title="Advice" id="advice">
      {items.length === 0 ? (
        <p class="muted">
          {isLive
            ? "No advice yet: there are too few measurements."
            : "No advice: the measurements do not suggest a change."}
        </p>
      ) : (
        <ol class={styles["advice"]}>
          {items.map((item) => (
            <Item key={item.rule + item.number} job={job} item={item} />
          ))}
        </ol>
      )}
    </Panel>
  );
}

function Item({ job, item }: { job: string; item: Advice }) {
  return (
    <li class={styles["item"]}>
      <span class={styles["number"]}>{item.number}</span>
      <h3>{item.what}</h3>
      <a
        class={styles["apply"]}
        href={`/new?clone=${job}&advice=${item.number}`}
        aria-label={`Apply advice ${item.number} to a clone`}
      >
        Apply
      </a>
      <div>
        <p>{item.why}</p>
        <p class={styles["gain"]}>
          <span>Expected: {item.gain.text}</span>
          {factors(item.gain).map((text) => (
            <span key={text}>{text}</span>
          ))}
        </p>
        <p class={styles["change"]}>
          {flatChange(item.change).map(([path, value]) => (
            <code key={path}>
              {path}: {value}
            </code>
          ))}
        </p>
        <Evidence figures={item.evidence} />
      </div>
    </li>
  );
}

/** The figures of a gain: time × 0.82. */
function factors({ time_factor: time, gpu_hours_factor: gpuHours, accuracy }: Advice["gain"]): string[] {
  return [
    time === null ? "" : `time × ${number(time, 2)}`,
    gpuHours === null ? "" : `GPU-hours × ${number(gpuHours, 2)}`,
    accuracy === null ? "" : `validation accuracy ${accuracy >= 0 ? "+" : ""}${number(accuracy, 2)}`,
  ].filter((text) => text !== "");
}
