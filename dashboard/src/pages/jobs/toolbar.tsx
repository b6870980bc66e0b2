// The controls above the jobs: filters, order, groups, metric and columns.

import { useState } from "preact/hooks";
import { Menu } from "../../parts/menu.tsx";
import { asked, askFor } from "./asked.ts";
import { Builder } from "./builder.tsx";
import { ColumnMenu } from "./column_menu.tsx";
import { metricColumns } from "./columns.ts";
import { FieldOptions } from "./field_options.tsx";
import { ArchivedField, type Filtering, FiltersInUse, MineAndStarred, Statuses } from "./filters.tsx";
import { Search } from "./search.tsx";
import styles from "./toolbar.module.css";
import { isNarrow } from "./use_columns.ts";
import {
  isExtended,
  keysOf,
  METRICS,
  MOST_KEYS,
  metricOf,
  type OrderKey,
  SORTS,
  sortOf,
  type View,
  withKey,
} from "./view.ts";
import { ViewMenu } from "./view_menu.tsx";
import { conditionsOf } from "./where.ts";

export function Toolbar({ view, rows, problem, onChange }: Filtering) {
  const { count, place } = asked.value;
  const [before] = useState(count);
  const shared = { view, rows, problem, onChange };
  const quick = (
    <>
      <Statuses view={view} onChange={onChange} />
      <MineAndStarred view={view} onChange={onChange} />
    </>
  );
  const fields = (
    <>
      <GroupField {...shared} />
      <MetricField {...shared} />
    </>
  );
  return (
    <div class={styles["toolbar"]} role="search" aria-label="Jobs">
      <Search value={view.search} onChange={(text) => onChange({ search: text })} />
      {isNarrow.value && <ViewMenu view={view} />}
      <Menu
        key={count} // opens it for the condition that was asked for
        title="Filter"
        count={filtersIn(view)}
        side={isNarrow.value ? "right" : "left"}
        isWide
        startsOpen={count > before}
      >
        {isNarrow.value && (
          <>
            {quick}
            <OrderField {...shared} />
            {fields}
          </>
        )}
        <Builder {...shared} edited={place} />
        <ArchivedField view={view} onChange={onChange} />
      </Menu>
      {!isNarrow.value && (
        <>
          {quick}
          <span class={styles["right"]}>
            {fields}
            <ViewMenu view={view} />
            <ColumnMenu rows={rows} />
          </span>
        </>
      )}
      <FiltersInUse {...shared} onEdit={askFor} />
    </div>
  );
}

function filtersIn(view: View): number {
  const quick = isNarrow.value ? view.statuses.length + Number(view.isStarred) : 0;
  return quick + Number(view.archived !== "") + conditionsOf(view).length;
}

const BY = ["Group", "And by", "And then by"]; // the most fields

function GroupField({ view, rows, onChange }: Filtering) {
  const { group } = view;
  const change = (place: number, field: string): void =>
    onChange({ group: field === "" ? group.slice(0, place) : group.toSpliced(place, 1, field) });
  return (
    <span class={styles["field"]}>
      {[...group, ""].slice(0, BY.length).map((field, place) => (
        <select
          key={BY[place]}
          aria-label={BY[place]}
          value={field}
          disabled={view.study !== ""}
          onChange={(event) => change(place, event.currentTarget.value)}
        >
          <option value="">{place === 0 ? "No groups" : "and by…"}</option>
          <FieldOptions rows={rows} first={["study", ...group]} />
        </select>
      ))}
    </span>
  );
}

const OTHER = "\0other";

function MetricField({ view, rows, onChange }: Filtering) {
  const [isTyping, setTyping] = useState(false);
  const reported = metricColumns(rows, []).map((key) => metricOf(key) ?? "");
  const metrics = new Set([...METRICS, ...reported, ...(view.metric === "" ? [] : [view.metric])]);
  const take = (metric: string): void => {
    setTyping(false);
    if (metric !== "") onChange({ metric });
  };
  if (isTyping)
    return (
      <input
        type="text"
        class={styles["metric"]}
        aria-label="Name of a metric"
        placeholder="Name of a metric"
        maxLength={255}
        ref={(input) => input?.focus()}
        onChange={(event) => take(event.currentTarget.value.trim())}
        onBlur={() => setTyping(false)}
      />
    );
  return (
    <label class={styles["field"]}>
      <span class="spoken">Metric</span>
      <select
        value={view.metric}
        onChange={(event) => {
          const { value } = event.currentTarget;
          if (value === OTHER) setTyping(true);
          else onChange({ metric: value });
        }}
      >
        <option value="">Goal metric</option>
        {[...metrics].map((name) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
        <option value={OTHER}>other…</option>
      </select>
    </label>
  );
}

/** The order, on pages without headings: its keys, and one more. */
function OrderField({ view, rows, onChange }: Filtering) {
  const { order } = view;
  const more = isExtended(order) ? [""] : [];
  return [...keysOf(order), ...more].slice(0, MOST_KEYS).map((key, place) => {
    const sort = key.replace(/^-/, "");
    const isFalling = sort !== key;
    const change = (field: string, falls: boolean): void =>
      onChange({ order: withKey(order, place, field && (`${falls ? "-" : ""}${field}` as OrderKey)) });
    const label = place === 0 ? "Order" : `Then by (${place + 1})`;
    return (
      <div key={label} class={styles["field"]}>
        <span>{label}</span>
        <select
          aria-label={label}
          value={sort}
          onChange={(event) => change(event.currentTarget.value && sortOf(event.currentTarget.value), isFalling)}
        >
          {place > 0 && <option value="">…</option>}
          <FieldOptions rows={rows} first={sort === "" ? [] : [sort]} ofEveryJob={SORTS} />
        </select>
        {sort !== "" && (
          <button type="button" aria-label={isFalling ? "Falling" : "Rising"} onClick={() => change(sort, !isFalling)}>
            {isFalling ? "↓" : "↑"}
          </button>
        )}
      </div>
    );
  });
}
