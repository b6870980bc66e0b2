// A chart that a person made, and its text in addresses and in the browser: `y|Gap|loss - val_loss`. Pure.

export interface OwnChart {
  /** The list of formulas and patterns. */
  readonly list: string;
  /** Empty: the list is the title. */
  readonly title: string;
  readonly isLog: boolean;
  readonly isLogX: boolean;
}

/** A text without the two bars is the list alone. */
export function ownChartOf(text: string): OwnChart {
  const [, axes = "", title = "", list = text] = /^([xy]*)\|([^|]*)\|(.*)$/.exec(text) ?? [];
  return { list, title, isLog: axes.includes("y"), isLogX: axes.includes("x") };
}

export function textOf({ list, title, isLog, isLogX }: OwnChart): string {
  return `${isLogX ? "x" : ""}${isLog ? "y" : ""}|${title.replaceAll("|", " ").trim()}|${list.replaceAll("\n", " ").trim()}`;
}

export function titleOf({ title, list }: OwnChart): string {
  return title || list;
}
