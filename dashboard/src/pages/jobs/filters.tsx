// The filters of the jobs: by status, one's own, starred; and the conditions in use, as chips.

import type { ComponentChildren } from "preact";
import { usePolled } from "../../api/polled.ts";
import type { Problem } from "../../api/problem.ts";
import type { Me, Status } from "../../api/types.ts";
import type { Row } from "./row.ts";
import styles from "./toolbar.module.css";
import { archivedOf, isFiltered, NO_FILTER, STATUSES, type View } from "./view.ts";
import { conditionsOf, messageFor } from "./where.ts";

export interface Filtering {
  view: View;
  /** The loaded jobs, whose fields and values are proposed. */
  rows: readonly Row[];
  /** Why the jobs of the view could not be read. */
  problem: Problem | undefined;
  onChange: (change: Partial<View>) => void;
}

type Props = Pick<Filtering, "view" | "onChange">;

export function Statuses({ view, onChange }: Props) {
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

export function MineAndStarred({ view, onChange }: Props) {
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
    </>
  );
}

/** What is shown of archived jobs. */
export function ArchivedField({ view, onChange }: Props) {
  return (
    <label class={styles["field"]}>
      Archived jobs
      <select value={view.archived} onChange={(event) => onChange({ archived: archivedOf(event.currentTarget.value) })}>
        <option value="">without them</option>
        <option value="all">with them</option>
        <option value="true">only them</option>
      </select>
    </label>
  );
}

interface InUseProps extends Omit<Filtering, "rows"> {
  onEdit: (place: number) => void;
}

/** The filters that no other control shows, and a button that clears all filters. */
export function FiltersInUse({ view, problem, onChange, onEdit }: InUseProps) {
  const study = usePolled<{ name: string }>(view.study === "" ? null : `/v1/studies/${view.study}`, {
    every_s: Number.POSITIVE_INFINITY,
  });
  if (!isFiltered(view)) return null;
  return (
    <div class={styles["chips"]}>
      {conditionsOf(view).map(({ text, removal }, place) => (
        <Chip
          key={`${place} ${text}`}
          isWrong={messageFor(text, problem) !== undefined}
          onRemove={() => onChange(removal)}
        >
          <button type="button" title="Change this filter" onClick={() => onEdit(place)}>
            <bdi>{text}</bdi>
          </button>
        </Chip>
      ))}
      {view.study !== "" && (
        <Chip onRemove={() => onChange({ study: "" })}>
          <span>study {study.data?.name ?? view.study}</span>
        </Chip>
      )}
      {view.archived !== "" && (
        <Chip onRemove={() => onChange({ archived: "" })}>
          <span>{view.archived === "all" ? "with archived" : "archived"}</span>
        </Chip>
      )}
      <button type="button" class={`plain ${styles["clear"]}`} onClick={() => onChange(NO_FILTER)}>
        Clear filters
      </button>
    </div>
  );
}

interface ChipProps {
  isWrong?: boolean;
  onRemove: () => void;
  children: ComponentChildren;
}

function Chip({ isWrong = false, onRemove, children }: ChipProps) {
  return (
    <span class={`${styles["chip"]} ${isWrong ? styles["wrong"] : ""}`}>
      {children}
      <button type="button" onClick={onRemove}>
        <span aria-hidden="true">×</span>
        <span class="spoken">Remove this filter</span>
      </button>
    </span>
  );
}
