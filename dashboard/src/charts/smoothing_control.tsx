// How much curves are smoothed, and in which way.

import { kernelOf, MOST_SMOOTH, partsOf, type Smoothing, smoothingOf } from "./smoothing.ts";
import styles from "./smoothing_control.module.css";

interface Props {
  smoothing: Smoothing;
  onChange: (smoothing: Smoothing) => void;
}

export function SmoothingControl({ smoothing, onChange }: Props) {
  const [kind, weight] = partsOf(smoothing);
  return (
    <span class={styles["smoothing"]}>
      <label>
        Smoothing
        <input
          type="range"
          min="0"
          max={MOST_SMOOTH}
          step="0.01"
          value={weight}
          onInput={(event) => onChange(smoothingOf(kind, Number(event.currentTarget.value)))}
        />
        <output>{kind === "mean" ? `${2 * kernelOf(kind, weight).length - 1} points` : weight.toFixed(2)}</output>
      </label>
      <select
        aria-label="Kind of smoothing"
        value={kind}
        onChange={(event) => onChange(smoothingOf(event.currentTarget.value, weight))}
      >
        <option value="">Moving average</option>
        <option value="mean">Running mean</option>
        <option value="gauss">Gaussian</option>
      </select>
    </span>
  );
}
