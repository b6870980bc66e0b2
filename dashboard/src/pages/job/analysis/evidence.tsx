// The figures behind a finding or advice, folded.

import { figureOf, nameOf } from "./evidence.ts";
import styles from "./findings.module.css";

export function Evidence({ figures }: { figures: Readonly<Record<string, unknown>> }) {
  const entries = Object.entries(figures);
  if (entries.length === 0) return null;
  return (
    <details class={styles["evidence"]}>
      <summary>Figures</summary>
      <dl>
        {entries.map(([name, value]) => (
          <div key={name}>
            <dt>{nameOf(name)}</dt>
            <dd>{figureOf(name, value)}</dd>
          </div>
        ))}
      </dl>
    </details>
  );
}
