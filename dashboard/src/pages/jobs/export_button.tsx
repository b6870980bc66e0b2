// The button that saves all jobs of the view as a CSV file.

import { useEffect, useRef, useState } from "preact/hooks";
import { get } from "../../api/client.ts";
import { Problem } from "../../api/problem.ts";
import type { Job, Listed } from "../../api/types.ts";
import { number } from "../../format.ts";
import { saveAs } from "../../save.ts";
import { csvOf, MOST_JOBS } from "./csv.ts";
import { rowOf } from "./row.ts";
import { choice } from "./use_columns.ts";
import { listPath, type View } from "./view.ts";

const PAGE_ROWS = 500;

class Stopped extends Error {}

export function ExportButton({ view }: { view: View }) {
  const [text, setText] = useState<string>();
  const [isBusy, setBusy] = useState(false);
  const isStopped = useRef(false);
  const stop = (): void => {
    isStopped.current = true;
  };
  useEffect(() => stop, []);
  async function save(): Promise<void> {
    isStopped.current = false;
    setBusy(true);
    try {
      const { parts, isCut } = await csvOf(choice.peek().ids, view.metric, readPage(view), (count) => {
        if (isStopped.current) throw new Stopped();
        setText(`Stop (${number(count)} jobs)`);
      });
      saveAs("jobs.csv", new Blob([...parts], { type: "text/csv" }));
      setText(isCut ? `Only the first ${number(MOST_JOBS)} jobs` : undefined);
    } catch (error) {
      setText(error instanceof Stopped ? undefined : error instanceof Problem ? error.title : "The export failed");
    }
    setBusy(false);
  }
  return (
    <button
      type="button"
      title="All jobs of this view, with the columns of the table, as a CSV file"
      onClick={() => (isBusy ? stop() : void save())}
    >
      {text ?? "CSV"}
    </button>
  );
}

/** Reads the jobs of a view in long pages. */
export function readPage(view: View) {
  return async (cursor: string | null) => {
    const answer = await get<Listed<Job>>(listPath(view, PAGE_ROWS, cursor));
    return { rows: answer.items.map((job) => rowOf(job)), nextCursor: answer.next_cursor };
  };
}
