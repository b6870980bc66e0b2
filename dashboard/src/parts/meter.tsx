// A share of a whole as a bar.

import styles from "./meter.module.css";

/** `share` is 0..1; null is unknown, and shows an empty bar. */
export function Meter({ share, label, text }: { share: number | null; label: string; text?: string }) {
  const width = `${(100 * Math.min(1, Math.max(0, share ?? 0))).toFixed(1)}%`;
  return (
    <span
      class={styles["meter"]}
      role="meter"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={share === null ? 0 : Math.round(share * 100)}
      aria-valuetext={text ?? (share === null ? "unknown" : undefined)}
    >
      <span class={styles["fill"]} style={{ width }} />
    </span>
  );
}
