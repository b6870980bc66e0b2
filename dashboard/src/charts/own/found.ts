// What the lines of an own chart are: `loss - val_loss, layer_*, /grad\/.*/`. Each item of the list is a formula, names
// with a star, or a regular expression between slashes. Pure.

import { type Formula, formulaOf, formulaOfName } from "./formula.ts";

/** What formulas have besides metrics: how many GPUs the job has. */
export const GPUS = "gpus";

/** An item of the list, and the formulas that it stands for. */
export interface Found {
  readonly item: string;
  readonly formulas: readonly Formula[];
  /** What is wrong with it, whatever the metrics are. */
  readonly problem?: string;
  /** Names in it that no metric has. */
  readonly missing?: readonly string[];
}

/** What a list means for metrics of these names. */
export function foundIn(list: string, names: readonly string[]): Found[] {
  return itemsOf(list).map((item) => {
    try {
      const isMatch = matcher(item);
      if (names.includes(item)) return { item, formulas: [formulaOfName(item)] };
      if (isMatch) return { item, formulas: names.filter(isMatch).map(formulaOfName) };
      const formula = formulaOf(item);
      return {
        item,
        formulas: [formula],
        missing: formula.names.filter((name) => !names.includes(name) && name !== GPUS),
      };
    } catch (error) {
      return { item, formulas: [], problem: (error as Error).message };
    }
  });
}

/** The items of a list: the commas between them are outside of quotes, parentheses and regular expressions. */
export function itemsOf(list: string): string[] {
  const items: string[] = [];
  for (let rest = list; rest !== ""; ) {
    const length = /^\s*\/.*?\/\s*(?=,|$)/.exec(rest)?.[0].length ?? formulaLength(rest);
    items.push(rest.slice(0, length).trim());
    rest = rest.slice(length + 1);
  }
  return items.filter((item) => item !== "");
}

function formulaLength(text: string): number {
  let depth = 0;
  for (const { 0: sign, index } of text.matchAll(/"[^"]*"|[(),]/g)) {
    if (sign === "(") depth += 1;
    else if (sign === ")") depth -= 1;
    else if (sign === "," && depth <= 0) return index;
  }
  return text.length;
}

/** What tells the names of an item; null for a formula. A star beside a space or a number is a product. */
function matcher(item: string): ((name: string) => boolean) | null {
  const source = /^\/(.+)\/$/.exec(item)?.[1];
  const isGlob = item.includes("*") && !/[\s()"]|^[\d.]+\*|\*[\d.]+$/.test(item);
  if (source === undefined && !isGlob) return null;
  const glob = item.replace(/[^\w*]/g, "\\$&").replaceAll("*", ".*");
  const pattern = new RegExp(source ?? `^${glob}$`);
  return (name) => pattern.test(name);
}
