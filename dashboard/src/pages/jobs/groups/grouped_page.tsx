// The list of jobs in groups: by study, with a row for the jobs of no study, or by the values of fields. A row opens to
// its jobs.

import { useCallback, useMemo, useState } from "preact/hooks";
import { usePolled } from "../../../api/polled.ts";
import type { Job, Listed } from "../../../api/types.ts";
import type { Work } from "../acting.ts";
import { AllShown } from "../all_shown.tsx";
import { PAGE_ROWS } from "../listing.ts";
import pageStyles from "../page.module.css";
import { type Row, rowOf } from "../row.ts";
import { RowMenu } from "../row_menu.tsx";
import { Outcomes, Selected } from "../selected.tsx";
import { Toolbar } from "../toolbar.tsx";
import { choice } from "../use_columns.ts";
import { useMarks } from "../use_marks.ts";
import { listPath, type View } from "../view.ts";
import { NoStudyGroup } from "./group.tsx";
import styles from "./groups.module.css";
import { groupsPath, isByStudy } from "./groups.ts";
import { EVERY_S, GroupsPage } from "./groups_page.tsx";
import { useNews } from "./news.ts";

interface Props {
  view: View;
  onChange: (change: Partial<View>) => void;
}

export function GroupedPage({ view, onChange }: Props) {
  const news = useNews(view);
  const [rowsByGroup, setRowsByGroup] = useState<ReadonlyMap<string, readonly Row[]>>(new Map());
  const rows = useMemo(() => [...rowsByGroup.values()].flat(), [rowsByGroup]);
  const onRows = useCallback(
    (id: string, rowsOfGroup: readonly Row[]) =>
      setRowsByGroup((before) => {
        const next = new Map(before);
        if (rowsOfGroup.length === 0) next.delete(id);
        else next.set(id, rowsOfGroup);
        return next;
      }),
    [],
  );
  const proposing = useSample(view);
  const marks = useMarks(rows);
  const [work, setWork] = useState<Work | null>(null);
  const { problem } = usePolled(groupsPath(view, "", choice.value.ids), { every_s: EVERY_S }); // the first page's, which shows its data
  const title = `Jobs by ${view.group.join(" and ")}`;
  const shared = { view, news, marks, onRows, onChange };
  return (
    <div class={pageStyles["page"]}>
      <h1 class="spoken">{title}</h1>
      <Toolbar view={view} rows={[...rows, ...proposing]} problem={problem} onChange={onChange} />
      {work !== null && <Outcomes {...work} onClose={() => setWork(null)} />}
      <section class={styles["panel"]} aria-label={title}>
        <ul class={styles["groups"]}>
          {isByStudy(view) && <NoStudyGroup {...shared} />}
          <GroupsPage {...shared} cursor="" />
        </ul>
        <RowMenu rows={rows} view={view} marks={marks} onWork={setWork} />
        <footer class={styles["footer"]}>
          {marks.selection.size > 0 ? (
            <Selected rows={rows} view={view} marks={marks} onWork={setWork} />
          ) : (
            <AllShown view={view} />
          )}
        </footer>
      </section>
    </div>
  );
}

/** The first jobs of the list, whose fields and values the toolbar proposes while no group is open. */
function useSample(view: View): readonly Row[] {
  const { data } = usePolled<Listed<Job>>(listPath({ ...view, group: [] }, PAGE_ROWS), ONCE);
  return useMemo(() => data?.items.map((job) => rowOf(job)) ?? [], [data]);
}

const ONCE = { every_s: Number.POSITIVE_INFINITY };
