// The charts of metrics in sections by the first part of their names: `train/loss` is in `train`. Pure.

import { grouped } from "./answers.ts";
import type { Chart } from "./chart.ts";

interface Section {
  /** In the list of folded and unfolded groups. */
  readonly key: string;
  readonly title: string;
  readonly charts: readonly Chart[];
}

/** The charts of no section come first. A part that only one chart has makes no section. */
export function sectionsOf(charts: readonly Chart[]): { loose: readonly Chart[]; sections: readonly Section[] } {
  const byPart = grouped(charts, ({ key }) => /^(.+?)\//.exec(key)?.[1] ?? "");
  const isSection = (part: string): boolean => part !== "" && (byPart.get(part)?.length ?? 0) > 1;
  const sections = [...byPart]
    .filter(([part]) => isSection(part))
    .map(([part, ofPart]) => ({ key: `-${part}`, title: part, charts: ofPart }));
  return { loose: [...byPart].flatMap(([part, ofPart]) => (isSection(part) ? [] : ofPart)), sections };
}

/** Whether a group is unfolded. The list names the sections that are not, as they are unfolded at first. */
export function isOpen(key: string, listed: ReadonlySet<string>): boolean {
  return key.startsWith("-") !== listed.has(key);
}
