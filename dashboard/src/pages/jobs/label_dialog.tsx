// The question which label the selected jobs get or lose.

import { useId, useState } from "preact/hooks";
import { countText } from "../../format.ts";
import { Buttons, Dialog } from "../../parts/dialog.tsx";
import { labelChange } from "./acting.ts";
import type { Row } from "./row.ts";
import styles from "./selected.module.css";

interface Props {
  /** The selected jobs. */
  jobs: readonly Row[];
  /** The loaded jobs, whose labels are proposed. */
  rows: readonly Row[];
  onClose: () => void;
  onChange: (jobs: readonly Row[], labels: Record<string, string | null>, words: readonly [string, string]) => void;
}

export function LabelDialog({ jobs, rows, onClose, onChange }: Props) {
  const id = useId();
  const [text, setText] = useState("");
  const added = labelChange(text, true);
  const removed = labelChange(text, false);
  const [key] = Object.keys(removed ?? {});
  const having = jobs.filter(({ labels }) => labels.some((label) => label.startsWith(`${key}:`)));
  return (
    <Dialog title={`Label ${countText(jobs.length, "job")}`} onClose={onClose}>
      <form
        class={styles["form"]}
        onSubmit={(event) => {
          event.preventDefault();
          if (added !== null) onChange(jobs, added, ["Adding the label", "Label added"]);
        }}
      >
        <input
          type="text"
          aria-label="Label, as key:value"
          placeholder="key:value"
          list={id}
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
        <datalist id={id}>
          {[...new Set([...jobs, ...rows].flatMap(({ labels }) => labels))].slice(0, 200).map((label) => (
            <option key={label} value={label} />
          ))}
        </datalist>
        <Buttons>
          <button type="button" onClick={onClose}>
            Back
          </button>
          <button
            type="button"
            disabled={removed === null || having.length === 0}
            onClick={() => removed !== null && onChange(having, removed, ["Removing the label", "Label removed"])}
          >
            Remove{having.length > 0 ? ` from ${having.length}` : ""}
          </button>
          <button type="submit" class="primary" disabled={added === null}>
            Add
          </button>
        </Buttons>
      </form>
    </Dialog>
  );
}
