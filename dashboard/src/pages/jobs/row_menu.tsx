// The menu of a job in the list: what the job's page and the selection offer, for one job.

import { Popup } from "../../parts/popup.tsx";
import { copied } from "../job/copy_button.tsx";
import type { Work } from "./acting.ts";
import type { Row } from "./row.ts";
import { Actions } from "./selected.tsx";
import type { Marks } from "./use_marks.ts";
import type { View } from "./view.ts";

interface Props {
  rows: readonly Row[];
  view: View;
  marks: Marks;
  onWork: (work: Work) => void;
}

export function RowMenu({ rows, view, marks, onWork }: Props) {
  const { menu, selection, closeMenu } = marks;
  if (menu === undefined) return null;
  const { id, name } = menu.row;
  const row = rows.find((other) => other.id === id) ?? menu.row;
  const others = [...selection.keys()].filter((other) => other !== id);
  return (
    <Popup label={`Job ${name}`} place={menu.place} onClose={closeMenu}>
      <a href={`/jobs/${id}`} target="_blank" rel="noreferrer" onClick={closeMenu}>
        Open in a new tab
      </a>
      <a href={`/new?clone=${id}`}>Clone…</a>
      {others.length > 0 && <a href={`/compare?jobs=${[id, ...others].join(",")}`}>Compare with the selection</a>}
      <button
        type="button"
        onClick={() => {
          closeMenu();
          marks.toggle(row, false);
        }}
      >
        {selection.has(id) ? "Deselect" : "Select"}
      </button>
      <button type="button" onClick={() => void copied(id).then(closeMenu)}>
        Copy the id
      </button>
      <Actions
        jobs={[row]}
        rows={rows}
        view={view}
        onGone={marks.deselect}
        onWork={(work) => {
          if (work.outcomes.length === 0) closeMenu(); // at the start: later there may be another menu
          onWork(work);
        }}
      />
    </Popup>
  );
}
