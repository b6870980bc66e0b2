// The button that saves the whole log as text.

import { useState } from "preact/hooks";
import { get } from "../../../api/client.ts";
import { Problem } from "../../../api/problem.ts";
import type { Job, LogView } from "../../../api/types.ts";
import { fileStem } from "../../../format.ts";
import { saveAs } from "../../../save.ts";
import type { Source } from "./feed.ts";
import { wholeLog } from "./whole.ts";

export function DownloadLog({ job, source }: { job: Job; source: Source }) {
  const [state, setState] = useState<string>();
  async function save(): Promise<void> {
    setState("Reading…");
    try {
      const text = await wholeLog(source, get<LogView>, (count) => setState(`${count.toLocaleString("en")} lines…`));
      saveAs(`${fileStem(job.name)}-${job.id}.log`, new Blob([text], { type: "text/plain" }));
      setState(undefined);
    } catch (error) {
      setState(error instanceof Problem ? error.title : "The download failed");
    }
  }
  return (
    <button type="button" onClick={() => void save()} title="All lines as text">
      {state ?? "Download"}
    </button>
  );
}
