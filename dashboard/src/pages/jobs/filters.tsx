// The filters of the jobs: by status, owner, project and labels; and the filters in use, as chips that remove them.

import type { ComponentChildren } from "preact";
import { useId, useMemo, useRef, useState } from "preact/hooks";
import { usePolled } from "../../api/polled.ts";
import type { Me, Status } from "../../api/types.ts";
import type { Row } from "./row.ts";
import styles from "./toolbar.module.css";
import { isFiltered, NO_FILTER, STATUSES, type View } from "./view.ts";

export interface Filtering {
  view: View;
  /** The loaded jobs, whose owners and labels can be chosen. */
  rows: readonly Row[];
  onChange: (change: Partial<View>) => void;
}

export function Statuses({ view, onChange }: Omit<Filtering, "rows">) {
  const toggle = (status: Status): void => {
    const rest = view.statuses.filter((other) => other !== status);
    onChange({ statuses: rest.length < view.statuses.length ? rest : [...rest, status] });
  };
  return (
    <fieldset class={styles["statuses"]}>
      <legend class="spoken">Status, any of these</legend>
      {STATUSES.map((status) => (
        <button key={status} type="button" aria-pressed={view.statuses.includes(status)} onClick={() => toggle(status)}>
          {status}
        </button>
      ))}
    </fieldset>
  );
}

export function OwnerFilters({ view, rows, onChange }: Filtering) {
  const owners = useSeenValues(rows, ownerOf, view.owner);
  const projects = usePolled<{ items: { name: string }[] }>("/v1/projects", { every_s: Number.POSITIVE_INFINITY });
  const names = useSeenValues(projects.data?.items ?? NONE, nameOf, view.project);
  const me = usePolled<Me>("/v1/me", { every_s: Number.POSITIVE_INFINITY }).data?.user;
  const isMine = me !== undefined && view.owner === me;
  return (
    <>
      {me !== undefined && (
        <button type="button" aria-pressed={isMine} onClick={() => onChange({ owner: isMine ? "" : me })}>
          Mine
        </button>
      )}
      <button type="button" aria-pressed={view.isStarred} onClick={() => onChange({ isStarred: !view.isStarred })}>
        <span aria-hidden="true">★</span> Starred
      </button>
      <Select allText="All owners" value={view.owner} options={owners} onChange={(owner) => onChange({ owner })} />
      {names.length > 1 && (
        <Select
          allText="All projects"
          value={view.project}
          options={names}
          onChange={(project) => onChange({ project })}
        />
      )}
      <LabelField rows={rows} onChange={(label) => onChange({ labels: [...new Set([...view.labels, label])] })} />
    </>
  );
}

const NONE: readonly never[] = [];
const ownerOf = (row: Row): string => row.owner;
const nameOf = (project: { name: string }): string => project.name;

/** All values that were seen while the page was open. With a filter on, the rows have only one. */
function useSeenValues<T>(items: readonly T[], readValue: (item: T) => string, selected: string): string[] {
  const seenValues = useRef(new Set<string>()).current;
  return useMemo(() => {
    for (const item of items) seenValues.add(readValue(item));
    if (selected !== "") seenValues.add(selected);
    return [...seenValues].sort();
  }, [items, readValue, selected, seenValues]);
}

interface SelectProps {
  /** The text while nothing is chosen. */
  allText: string;
  value: string;
  options: readonly string[];
  onChange: (value: string) => void;
}

function Select({ allText, value, options, onChange }: SelectProps) {
  return (
    <select
      aria-label={allText.replace("All ", "Filter by ")}
      value={value}
      onChange={(event) => onChange(event.currentTarget.value)}
    >
      <option value="">{allText}</option>
      {options.map((option) => (
        <option key={option} value={option}>
          {option}
        </option>
      ))}
    </select>
  );
}

function LabelField({ rows, onChange }: { rows: readonly Row[]; onChange: (label: string) => void }) {
  const id = useId();
  const [labels, setLabels] = useState<string[]>([]);
  const [isWrong, setWrong] = useState(false);
  const add = (input: HTMLInputElement): void => {
    const label = input.value.trim();
    const isLabel = /^[^:]+:/.test(label);
    setWrong(label !== "" && !isLabel);
    if (!isLabel) return;
    input.value = "";
    onChange(label);
  };
  return (
    <>
      <input
        type="text"
        class={styles["label"]}
        list={id}
        aria-label="Label, as key:value"
        placeholder="Label key:value"
        aria-invalid={isWrong}
        onFocus={() => setLabels([...new Set(rows.flatMap((row) => row.labels))].sort().slice(0, 500))}
        onChange={(event) => add(event.currentTarget)}
      />
      <datalist id={id}>
        {labels.map((label) => (
          <option key={label} value={label} />
        ))}
      </datalist>
    </>
  );
}

/** The filters that no other control shows, and a button that clears all filters. */
export function FiltersInUse({ view, onChange }: Omit<Filtering, "rows">) {
  const study = usePolled<{ name: string }>(view.study === "" ? null : `/v1/studies/${view.study}`, {
    every_s: Number.POSITIVE_INFINITY,
  });
  if (!isFiltered(view)) return null;
  return (
    <div class={styles["chips"]}>
      {view.labels.map((label) => (
        <Chip key={label} onRemove={() => onChange({ labels: view.labels.filter((other) => other !== label) })}>
          {label}
        </Chip>
      ))}
      {view.study !== "" && (
        <Chip onRemove={() => onChange({ study: "" })}>study {study.data?.name ?? view.study}</Chip>
      )}
      <button type="button" class={`plain ${styles["clear"]}`} onClick={() => onChange(NO_FILTER)}>
        Clear filters
      </button>
    </div>
  );
}

function Chip({ onRemove, children }: { onRemove: () => void; children: ComponentChildren }) {
  return (
    <span class={styles["chip"]}>
      {children}
      <button type="button" onClick={onRemove}>
        <span aria-hidden="true">×</span>
        <span class="spoken">Remove this filter</span>
      </button>
    </span>
  );
}
