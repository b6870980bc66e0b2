// Writes whole ids into the address of a comparison that has beginnings of ids.

import { useEffect } from "preact/hooks";
import { get } from "../../api/client.ts";
import type { Job } from "../../api/types.ts";
import { setParams } from "../../url.ts";
import { ID_LENGTH, wholeIds } from "./whole_ids.ts";

export function useWholeIds(ids: readonly string[]): void {
  useEffect(() => {
    if (ids.every((id) => id.length >= ID_LENGTH)) return;
    let isOver = false;
    void wholeIds(ids, async (id) => (await get<Job>(`/v1/jobs/${encodeURIComponent(id)}`)).id).then((whole) => {
      if (!isOver && whole.join() !== ids.join()) setParams({ jobs: whole.join() });
    });
    return () => {
      isOver = true;
    };
  }, [ids]);
}
