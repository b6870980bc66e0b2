// The dialog that makes or changes an own chart. It says what its list finds among the metrics.

import { useState } from "preact/hooks";
import { countText } from "../../format.ts";
import { Buttons, Dialog } from "../../parts/dialog.tsx";
import styles from "./dialog.module.css";
import { type Found, foundIn } from "./found.ts";
import type { OwnChart } from "./own_chart.ts";

interface Props {
  /** Undefined for a new one. */
  chart: OwnChart | undefined;
  metrics: readonly string[];
  onClose: () => void;
  onSave: (chart: OwnChart) => void;
}

const EMPTY: OwnChart = { list: "", title: "", isLog: false, isLogX: false };

export function ChartDialog({ chart, metrics, onClose, onSave }: Props) {
  const [draft, setDraft] = useState(chart ?? EMPTY);
  const found = foundIn(draft.list, metrics);
  const isWrong = found.some(({ problem }) => problem !== undefined);
  const field = (name: "list" | "title", label: string) => (
    <label>
      {label}
      <input
        type="text"
        value={draft[name]}
        aria-invalid={name === "list" && isWrong}
        onInput={(event) => setDraft({ ...draft, [name]: event.currentTarget.value })}
      />
    </label>
  );
  const check = (name: "isLog" | "isLogX", label: string) => (
    <label>
      <input type="checkbox" checked={draft[name]} onChange={() => setDraft({ ...draft, [name]: !draft[name] })} />
      {label}{" "}
    </label>
  );
  return (
    <Dialog title={chart ? "Edit the chart" : "New chart"} onClose={onClose}>
      <form
        class={styles["form"]}
        onSubmit={(event) => {
          event.preventDefault();
          onSave(draft);
        }}
      >
        {field("list", "Metrics")}
        <p class="muted">
          Names, with * for any letters, or /regular expressions/; loss - val_loss, log10(learning_rate). Spaces around
          * and / as operators, odd names in double quotes, commas between lines.
        </p>
        <ul aria-live="polite" aria-label="What matches">
          {found.map((each) => (
            <li key={each.item} class={each.problem === undefined ? undefined : styles["wrong"]}>
              <b>{each.item}</b> {textOf(each)}
            </li>
          ))}
        </ul>
        {field("title", "Title (optional)")}
        <div>
          {check("isLog", "Log scale")}
          {check("isLogX", "Log axis")}
        </div>
        <Buttons>
          <button type="button" onClick={onClose}>
            Back
          </button>
          <button type="submit" class="primary" disabled={isWrong || found.length === 0}>
            Save
          </button>
        </Buttons>
      </form>
    </Dialog>
  );
}

const FEW = 6; // names that are written out

function textOf({ formulas, problem, missing = [] }: Found): string {
  if (problem !== undefined) return problem;
  if (missing.length > 0) return `no metric here is called ${missing.map((name) => `“${name}”`).join(", ")}`;
  const names = [...new Set(formulas.flatMap((formula) => formula.names))];
  if (names.length === 0) return "no metric here";
  return `${countText(names.length, "metric")}: ${names.slice(0, FEW).join(", ")}${names.length > FEW ? ", …" : ""}`;
}
