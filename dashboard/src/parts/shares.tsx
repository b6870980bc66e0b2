// Named shares as bars with their figures.

import styles from "./shares.module.css";

export interface Share {
  readonly label: string;
  /** From 0 to 1. */
  readonly share: number;
  readonly text: string;
  /** The figure is negative. */
  readonly isFalling?: boolean;
  readonly onClick?: () => void;
}

export function Shares({ rows }: { rows: readonly Share[] }) {
  return (
    <dl class={styles["shares"]}>
      {rows.map(({ label, share, text, isFalling, onClick }) => (
        <div key={label}>
          <dt>
            {onClick ? (
              <button type="button" class="plain" onClick={onClick}>
                {label}
              </button>
            ) : (
              label
            )}
          </dt>
          <dd>
            <span
              class={styles["bar"]}
              style={{ width: `${100 * share}%` }}
              data-falling={isFalling || undefined}
              aria-hidden="true"
            />
            <span class="figure">{text}</span>
          </dd>
        </div>
      ))}
    </dl>
  );
}
