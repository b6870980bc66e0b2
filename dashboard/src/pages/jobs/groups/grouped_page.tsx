// The list of jobs by study: one row for each study, which opens to its jobs, and one for the jobs of no study.

import { useCallback, useMemo, useState } from "preact/hooks";
import type { Work } from "../acting.ts";
import pageStyles from "../page.module.css";
import type { Row } from "../row.ts";
import { Outcomes, Selected } from "../selected.tsx";
import { Toolbar } from "../toolbar.tsx";
import { useMarks } from "../use_marks.ts";
import type { View } from "../view.ts";
import { NoStudyGroup } from "./group.tsx";
import styles from "./groups.module.css";
import { useNews } from "./news.ts";
import { StudyPage } from "./study_page.tsx";

interface Props {
  view: View;
  onChange: (change: Partial<View>) => void;
}

export function GroupedPage({ view, onChange }: Props) {
  const news = useNews(view);
  const [rowsByGroup, setRowsByGroup] = useState<ReadonlyMap<string, readonly Row[]>>(new Map());
  const rows = useMemo(() => [...rowsByGroup.values()].flat(), [rowsByGroup]);
  const onRows = useCallback(
    (study: string, rowsOfGroup: readonly Row[]) =>
      setRowsByGroup((before) => {
        const next = new Map(before);
        if (rowsOfGroup.length === 0) next.delete(study);
        else next.set(study, rowsOfGroup);
        return next;
      }),
    [],
  );
  const marks = useMarks(rows);
  const [work, setWork] = useState<Work | null>(null);
  const shared = { view, news, marks, onRows, onChange };
  return (
    <div class={pageStyles["page"]}>
      <h1 class="spoken">Jobs by study</h1>
      <Toolbar view={view} rows={rows} onChange={onChange} />
      {work !== null && <Outcomes {...work} onClose={() => setWork(null)} />}
      <section class={styles["panel"]} aria-label="Jobs by study">
        <ul class={styles["groups"]}>
          <NoStudyGroup {...shared} />
          <StudyPage {...shared} cursor="" />
        </ul>
        {marks.selection.size > 0 && (
          <footer class={styles["footer"]}>
            <Selected selection={marks.selection} rows={rows} onSelect={marks.select} onWork={setWork} />
          </footer>
        )}
      </section>
    </div>
  );
}
