// What is known of a version of a dataset, in words. Pure.

import type { DatasetVersion } from "../../api/types.ts";
import { bytes, number, UNKNOWN } from "../../format.ts";

export function shapeText(shape: readonly number[] | null): string {
  return shape === null ? UNKNOWN : shape.join(" × ");
}

/** The facts of a validated version, as pairs of a name and a text. */
export function factsOf({ facts, source, fingerprint, options }: DatasetVersion): [name: string, text: string][] {
  const known: [string, string][] = [
    ["Source", source],
    ["Options", JSON.stringify(options)],
  ];
  if (fingerprint !== null) known.push(["Fingerprint", fingerprint]);
  if (facts === null) return known;
  known.push(
    ["Format", facts.format],
    ["Shape", shapeText(facts.shape)],
    [
      "Samples",
      `${number(facts.train)} to train, ${number(facts.validation)} to validate, ${number(facts.test)} to test`,
    ],
    ["Files", `${number(facts.files)}, ${bytes(facts.bytes)}`],
  );
  if (facts.damaged > 0) known.push(["Damaged", `${number(facts.damaged)}: ${facts.damaged_files.join(", ")}`]);
  for (const warning of facts.warnings ?? []) known.push(["Warning", warning]);
  return known;
}

/** The classes with the most samples, and how many others there are. */
export function classesOf({ facts }: DatasetVersion, most = 30): { counts: [string, number][]; others: number } {
  const counts = Object.entries(facts?.class_counts ?? {}).sort(([, a], [, b]) => b - a);
  return { counts: counts.slice(0, most), others: Math.max(0, counts.length - most) };
}
