// The jobs of a study by state as one bar. The same is in words beside it.

import styles from "./counts_bar.module.css";
import { type Counted, partsOf, progressLine } from "./state.ts";

export function CountsBar({ study }: { study: Counted }) {
  const text = progressLine(study);
  return (
    <span class={styles["bar"]} role="img" aria-label={text} title={text}>
      {partsOf(study).map(({ status, share }) => (
        <span key={status} class={styles[status]} style={{ width: `${(100 * share).toFixed(2)}%` }} />
      ))}
    </span>
  );
}
