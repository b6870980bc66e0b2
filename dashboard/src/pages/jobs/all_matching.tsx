// The button that selects all jobs of the view, also those that are not loaded yet.

import { useState } from "preact/hooks";
import { readPage } from "./export_button.tsx";
import type { Row } from "./row.ts";
import type { Selection } from "./selection.ts";
import type { View } from "./view.ts";

const MOST_SELECTED = 1000;

interface Props {
  view: View;
  onSelect: (selection: Selection) => void;
}

export function AllMatching({ view, onSelect }: Props) {
  const [text, setText] = useState("Select all that match");
  const select = async (): Promise<void> => {
    setText("Reading…");
    const read = readPage(view);
    const rows: Row[] = [];
    let cursor: string | null = null;
    try {
      do {
        const page: Awaited<ReturnType<typeof read>> = await read(cursor);
        rows.push(...page.rows);
        cursor = page.nextCursor;
      } while (cursor !== null && rows.length < MOST_SELECTED);
      onSelect(new Map(rows.slice(0, MOST_SELECTED).map((row) => [row.id, row])));
    } catch {
      setText("Could not read them: try again");
    }
  };
  return (
    <button type="button" class="plain" title={`The first ${MOST_SELECTED} at most`} onClick={() => void select()}>
      {text}
    </button>
  );
}
