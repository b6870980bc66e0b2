// How many letters of a log fit in a row. Used by `log_rows.tsx`.

import type { RefObject } from "preact";
import { useLayoutEffect, useState } from "preact/hooks";

export const FEWEST_COLUMNS = 20;

export interface Columns {
  readonly count: number;
  /** Of one letter; 0 before it was measured. */
  readonly widthPx: number;
}

/** Updated as `scroller` changes its size. `sample` contains `sampleLength` letters; `besidePx` are not for text. */
export function useColumns(
  scroller: RefObject<HTMLElement | null>,
  sample: RefObject<HTMLElement | null>,
  sampleLength: number,
  besidePx: number,
): Columns {
  const [columns, setColumns] = useState<Columns>({ count: 100, widthPx: 0 });
  useLayoutEffect(() => {
    const element = scroller.current;
    if (element === null || sample.current === null) return;
    const widthPx = sample.current.getBoundingClientRect().width / sampleLength;
    const measure = (): void => {
      const count = Math.max(FEWEST_COLUMNS, Math.floor((element.clientWidth - besidePx) / widthPx));
      setColumns((now) => (now.count === count && now.widthPx === widthPx ? now : { count, widthPx }));
    };
    const watcher = new ResizeObserver(measure);
    watcher.observe(element);
    measure();
    return () => watcher.disconnect();
  }, [scroller, sample, sampleLength, besidePx]);
  return columns;
}
