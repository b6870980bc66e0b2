// A figure of a table, marked if it is the best of its column.

import styles from "./figure.module.css";

export function Figure({ text, best }: { text: string; best: string | null }) {
  if (best === null) return <>{text}</>;
  return (
    <>
      <span class={styles["best"]} title={best}>
        <span aria-hidden="true">★</span>
        <span class="spoken">{best}</span>{" "}
      </span>
      <strong>{text}</strong>
    </>
  );
}
