// A small curve in tables and cards. As SVG it takes its colour from the theme, is sharp on every screen,
// and with forty points is cheaper than a canvas.

import { useMemo } from "preact/hooks";
import { sparkOf } from "./spark_path.ts";
import styles from "./sparkline.module.css";

interface Props {
  x: readonly number[];
  /** Null is a gap. */
  y: readonly (number | null)[];
  /** The curve in words. */
  label: string;
  width?: number;
  height?: number;
}

const SPACE_PX = 3;

export function Sparkline({ x, y, label, width = 96, height = 24 }: Props) {
  const spark = useMemo(() => sparkOf(x, y, width, height, SPACE_PX), [x, y, width, height]);
  if (spark === null) return null;
  return (
    <svg class={styles["spark"]} width={width} height={height} role="img" aria-label={label}>
      <path d={spark.path} />
      <circle cx={spark.end[0]} cy={spark.end[1]} r="2" />
    </svg>
  );
}
