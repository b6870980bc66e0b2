// Goes from match to match in a log, also to lines that were not read yet. Used by `log_panel.tsx`.

import type { RefObject } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import type { LogLine } from "../../../api/types.ts";
import type { LogFeed } from "./feed.ts";
import { indexOfId, matchesOf } from "./lines.ts";

export interface Matches {
  /** The number of matches in the loaded lines. */
  readonly count: number;
  /** The number of the current match, from 1; 0 if there is none yet. */
  readonly position: number;
  readonly target: { readonly id: number } | null;
  readonly isSearching: boolean;
  /** Go to the next match, or with -1 to the previous one. */
  readonly go: (step: 1 | -1) => Promise<void>;
}

/** `topId` is the first line in view, where the search begins. */
export function useMatches(feed: LogFeed, needle: string, topId: RefObject<number>, onGo: () => void): Matches {
  const { lines } = feed.reading;
  const matchIndexes = useMemo(() => matchesOf(lines, needle), [lines, needle]);
  const [target, setTarget] = useState<{ id: number } | null>(null);
  const [isSearching, setSearching] = useState(false);
  useEffect(() => setTarget(null), [feed, needle]);

  const idOf = (place: number): number => (lines[matchIndexes[place] as number] as LogLine).id;
  const firstFrom = (id: number): number => {
    const top = indexOfId(lines, id);
    return matchIndexes.findIndex((index) => index >= top);
  };
  const currentMatch = target === null ? -1 : matchIndexes.indexOf(indexOfId(lines, target.id));

  async function go(step: 1 | -1): Promise<void> {
    if (needle === "" || isSearching) return;
    onGo();
    const next =
      target === null ? (step === 1 ? firstFrom(topId.current ?? 0) : matchIndexes.length - 1) : currentMatch + step;
    if (next >= 0 && next < matchIndexes.length) return setTarget({ id: idOf(next) });
    if (step === -1) {
      setSearching(true);
      const id = await feed.matchBefore(needle);
      if (id !== null) await feed.backTo(id);
      setSearching(false);
      if (id !== null) return setTarget({ id });
    }
    if (matchIndexes.length > 0) setTarget({ id: idOf(step === 1 ? 0 : matchIndexes.length - 1) });
  }

  return { count: matchIndexes.length, position: currentMatch + 1, target, isSearching, go };
}
