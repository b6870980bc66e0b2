// The choice of the table's columns: which, in which sequence, and which stay while the others scroll.

import { useMemo, useRef, useState } from "preact/hooks";
import { Menu } from "../../parts/menu.tsx";
import styles from "./column_menu.module.css";
import {
  type Choice,
  COLUMNS,
  type ColumnId,
  columnsOf,
  metricColumns,
  moved,
  pinToggled,
  toggled,
} from "./columns.ts";
import { fieldKeys, fieldOf } from "./fields.ts";
import type { Row } from "./row.ts";
import { choice, choose, isChosen, isCompact, setCompact } from "./use_columns.ts";

interface Props {
  rows: readonly Row[];
}

export function ColumnMenu({ rows }: Props) {
  return (
    <Menu title="Columns" side="right">
      <Shown choice={choice.value} />
      <Offered rows={rows} choice={choice.value} />
      <button type="button" disabled={!isChosen.value} onClick={() => choose(null)}>
        Fit the columns to the page
      </button>
      <label>
        <input
          type="checkbox"
          checked={isCompact.value}
          onChange={(event) => setCompact(event.currentTarget.checked)}
        />{" "}
        Compact rows
      </label>
    </Menu>
  );
}

/** The shown columns. Drag one, or press Alt and an arrow on it, to move it. */
function Shown({ choice }: { choice: Choice }) {
  const [dragged, setDragged] = useState<ColumnId>();
  const columns = columnsOf(choice.ids, "");
  const drop = (to: number): void => {
    if (dragged !== undefined) choose(moved(choice, dragged, to));
    setDragged(undefined);
  };
  return (
    <section aria-label="Shown columns">
      <h3 class={styles["title"]}>Shown, from left to right</h3>
      <ol class={styles["shown"]}>
        {columns.map(({ id, title }, index) => {
          const isPinned = choice.pinned.includes(id);
          const move = (by: number): void => {
            const focused = document.activeElement;
            choose(moved(choice, id, index + by));
            // A browser drops the focus of an element that is moved.
            requestAnimationFrame(() => focused instanceof HTMLElement && focused.focus());
          };
          return (
            <li
              key={id}
              draggable
              onDragStart={() => setDragged(id)}
              onDragOver={(event) => event.preventDefault()}
              onDrop={() => drop(index)}
              onKeyDown={(event) => {
                const by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
                if (!event.altKey || by === undefined) return;
                event.preventDefault();
                move(by);
              }}
            >
              <span class={styles["name"]}>{title}</span>
              <Small label={`Move ${title} to the left`} text="↑" onClick={() => move(-1)} />
              <Small label={`Move ${title} to the right`} text="↓" onClick={() => move(1)} />
              <Small label={`Pin ${title}`} text="⚲" isOn={isPinned} onClick={() => choose(pinToggled(choice, id))} />
              <Small
                label={`Hide ${title}`}
                text="×"
                isOff={id === "name"}
                onClick={() => choose(toggled(choice, id))}
              />
            </li>
          );
        })}
      </ol>
    </section>
  );
}

interface SmallProps {
  label: string;
  text: string;
  isOff?: boolean;
  isOn?: boolean;
  onClick: () => void;
}

function Small({ label, text, isOff = false, isOn, onClick }: SmallProps) {
  return (
    <button
      type="button"
      class={styles["small"]}
      aria-label={label}
      title={label}
      aria-pressed={isOn}
      disabled={isOff}
      onClick={onClick}
    >
      {text}
    </button>
  );
}

const OF_RUNS = "Lowest, highest, mean";
const KINDS = {
  spec: "Fields of the spec",
  label: "Labels",
  last: "Last values",
  low: OF_RUNS,
  high: OF_RUNS,
  mean: OF_RUNS,
  test: "Test results",
} as const;
const MOST_OFFERED = 200;

/** The columns that can be added: those of every job, and what the loaded jobs have. */
function Offered({ rows, choice }: Props & { choice: Choice }) {
  const [text, setText] = useState("");
  const offered = useMemo<ColumnId[]>(
    () => [...COLUMNS.map(({ id }) => id), ...metricColumns(rows, []), ...fieldKeys(rows)],
    [rows],
  );
  const input = useRef<HTMLInputElement>(null);
  const add = (id: ColumnId): void => {
    choose(toggled(choice, id));
    input.current?.focus(); // the button goes
  };
  const wanted = text.trim().toLowerCase();
  const found = columnsOf(offered, "").filter(
    ({ id, title }) => !choice.ids.includes(id) && `${id} ${title}`.toLowerCase().includes(wanted),
  );
  const shown = found.slice(0, MOST_OFFERED);
  const groups = [...new Set(shown.map(({ id }) => groupOf(id)))];
  return (
    <section class={styles["offered"]} aria-label="Other columns">
      <input
        ref={input}
        type="search"
        aria-label="Find a column"
        placeholder="Add: batch, params.x, team…"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      {groups.map((name) => (
        <fieldset key={name} class={styles["columns"]}>
          <legend>{name}</legend>
          {shown
            .filter(({ id }) => groupOf(id) === name)
            .map(({ id, title }) => (
              <button key={id} type="button" class={styles["add"]} onClick={() => add(id)}>
                <span aria-hidden="true">+ </span>
                <span class="spoken">Show </span>
                <bdi>{title}</bdi>
              </button>
            ))}
        </fieldset>
      ))}
      {found.length === 0 && <p class="muted">No loaded job has such a field.</p>}
      {found.length > MOST_OFFERED && (
        <p class="muted">And {found.length - MOST_OFFERED} more: type a part of a name.</p>
      )}
    </section>
  );
}

function groupOf(id: string): string {
  const kind = fieldOf(id)?.kind;
  if (kind !== undefined) return KINDS[kind];
  return id.startsWith("metrics.") ? "Best values" : "Of every job";
}
