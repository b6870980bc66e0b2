// A few images of a version of a dataset, with their classes.

import { usePolled } from "../../api/polled.ts";
import type { DatasetSamples, DatasetVersion } from "../../api/types.ts";
import { ONCE } from "../settings/kit.tsx";
import styles from "./samples.module.css";

const IMAGE_DIMENSIONS = 3; // height, width, channels

export function Samples({ version: { name, version, status, facts } }: { version: DatasetVersion }) {
  const areImages = status === "ready" && facts?.shape.length === IMAGE_DIMENSIONS;
  const path = areImages ? `/v1/datasets/${name}/versions/${version}/samples` : null;
  const { data } = usePolled<DatasetSamples>(path, ONCE);
  if (data === undefined) return null;
  if (data.items.length === 0) {
    return (
      <p class="muted">
        No images to look at. They are taken when a version of up to 100,000 samples is validated; an earlier Hora took
        none.
      </p>
    );
  }
  return (
    <ul class={styles["samples"]} aria-label="Samples">
      {data.items.map((sample) => (
        <li key={sample.number}>
          <img src={sample.path} alt={`A sample of ${sample.label}`} loading="lazy" />
          <span title={sample.label}>{sample.label}</span>
        </li>
      ))}
    </ul>
  );
}
