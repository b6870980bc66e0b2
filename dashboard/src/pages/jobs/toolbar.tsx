// The controls above the jobs: filters, order, metric and columns.

import { useState } from "preact/hooks";
import { COLUMNS, type ColumnId } from "./columns.ts";
import { type Filtering, FiltersInUse, OwnerFilters, Statuses } from "./filters.tsx";
import { Menu } from "./menu.tsx";
import { Search } from "./search.tsx";
import styles from "./toolbar.module.css";
import { choose, columnIds, isChosen, isNarrow } from "./use_columns.ts";
import { METRICS, type Order, SORTS, type View } from "./view.ts";

export function Toolbar({ view, rows, onChange }: Filtering) {
  const search = <Search value={view.search} onChange={(text) => onChange({ search: text })} />;
  const metric = <MetricField view={view} onChange={onChange} />;
  return (
    <div class={styles["toolbar"]} role="search" aria-label="Jobs">
      {search}
      {isNarrow.value ? (
        <Menu title="View" count={filtersIn(view)} side="right">
          <Statuses view={view} onChange={onChange} />
          <OwnerFilters view={view} rows={rows} onChange={onChange} />
          <OrderField view={view} onChange={onChange} />
          {metric}
        </Menu>
      ) : (
        <>
          <Statuses view={view} onChange={onChange} />
          <OwnerFilters view={view} rows={rows} onChange={onChange} />
          <span class={styles["right"]}>
            {metric}
            <ColumnMenu />
          </span>
        </>
      )}
      <FiltersInUse view={view} onChange={onChange} />
    </div>
  );
}

function filtersIn({ statuses, owner, project, labels }: View): number {
  return statuses.length + labels.length + Number(owner !== "") + Number(project !== "");
}

const OTHER = "\0other";

function MetricField({ view, onChange }: Omit<Filtering, "rows">) {
  const [isTyping, setTyping] = useState(false);
  const metrics: readonly string[] = METRICS;
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
      <span>Metric</span>
      <select
        value={view.metric}
        onChange={(event) => {
          const { value } = event.currentTarget;
          if (value === OTHER) setTyping(true);
          else take(value);
        }}
      >
        {[...metrics, ...(metrics.includes(view.metric) ? [] : [view.metric])].map((name) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
        <option value={OTHER}>other…</option>
      </select>
    </label>
  );
}

function OrderField({ view, onChange }: Omit<Filtering, "rows">) {
  return (
    <label class={styles["field"]}>
      <span>Order</span>
      <select value={view.order} onChange={(event) => onChange({ order: event.currentTarget.value as Order })}>
        {SORTS.flatMap((sort) => [
          <option key={`-${sort}`} value={`-${sort}`}>
            {sort.replaceAll("_", " ")} ↓
          </option>,
          <option key={sort} value={sort}>
            {sort.replaceAll("_", " ")} ↑
          </option>,
        ])}
      </select>
    </label>
  );
}

function ColumnMenu() {
  const shownIds = columnIds.value;
  const toggle = (id: ColumnId): void =>
    choose(shownIds.includes(id) ? shownIds.filter((other) => other !== id) : [...shownIds, id]);
  return (
    <Menu title="Columns" side="right">
      <fieldset class={styles["columns"]}>
        <legend class="spoken">Columns</legend>
        {COLUMNS.filter(({ id }) => id !== "name").map(({ id, title }) => (
          <label key={id}>
            <input type="checkbox" checked={shownIds.includes(id)} onChange={() => toggle(id)} />
            {title}
          </label>
        ))}
      </fieldset>
      <button type="button" disabled={!isChosen.value} onClick={() => choose(null)}>
        Fit the columns to the page
      </button>
    </Menu>
  );
}
