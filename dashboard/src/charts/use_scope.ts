// The scope of a page's charts, with what a person zoomed to in the page's address.

import { useMemo } from "preact/hooks";
import { useSettled } from "../settled.ts";
import { cutsFrom, cutsText, rangeFrom, textsOf } from "./address.ts";
import type { Range } from "./lines.ts";
import { newScope, type Scope } from "./scope.ts";

const ZOOM = {
  read: (params: URLSearchParams) => rangeFrom(params.get("from") ?? "", params.get("to") ?? ""),
  write: (range: Range | null) => {
    const [from, to] = textsOf(range);
    return { from, to };
  },
};

const CUTS = {
  read: (params: URLSearchParams) => cutsFrom(params.get("y") ?? ""),
  write: (cuts: ReadonlyMap<string, Range>) => ({ y: cutsText(cuts) }),
};

const CROP = {
  read: (params: URLSearchParams) => params.get("crop") === "1",
  write: (isCropped: boolean) => ({ crop: isCropped ? "1" : null }),
};

export function useScope(): Scope {
  const [zoom, cuts, isCropped] = [useSettled(ZOOM), useSettled(CUTS), useSettled(CROP)];
  return useMemo(() => newScope(zoom, cuts, isCropped), [zoom, cuts, isCropped]);
}

/** The parameters of a change of the x axis, which ends its zoom. */
export const NO_ZOOM = { from: null, to: null } as const;
