// The controls above the jobs: filters, order, metric and columns.

import { useState } from "preact/hooks";
import { words } from "../../format.ts";
import { Menu } from "../../parts/menu.tsx";
import { ColumnMenu } from "./column_menu.tsx";
import { metricColumns } from "./columns.ts";
import { ExportButton } from "./export_button.tsx";
import { type Filtering, FiltersInUse, OwnerFilters, Statuses } from "./filters.tsx";
import { Search } from "./search.tsx";
import styles from "./toolbar.module.css";
import { isNarrow } from "./use_columns.ts";
import { METRICS, metricOf, type Order, SORTS, type Sort, type View } from "./view.ts";
import { ViewMenu } from "./view_menu.tsx";

export function Toolbar({ view, rows, onChange }: Filtering) {
  const search = <Search value={view.search} onChange={(text) => onChange({ search: text })} />;
  const metric = <MetricField view={view} rows={rows} onChange={onChange} />;
  const group = <GroupField view={view} onChange={onChange} />;
  return (
    <div class={styles["toolbar"]} role="search" aria-label="Jobs">
      {search}
      {isNarrow.value ? (
        <>
          <ViewMenu view={view} />
          <Menu title="Filters" count={filtersIn(view)} side="right">
            <Statuses view={view} onChange={onChange} />
            <OwnerFilters view={view} rows={rows} onChange={onChange} />
            <OrderField view={view} rows={rows} onChange={onChange} />
            {group}
            {metric}
            <ExportButton view={view} />
          </Menu>
        </>
      ) : (
        <>
          <Statuses view={view} onChange={onChange} />
          <OwnerFilters view={view} rows={rows} onChange={onChange} />
          <span class={styles["right"]}>
            {group}
            {metric}
            <ViewMenu view={view} />
            <ColumnMenu rows={rows} />
            <ExportButton view={view} />
          </span>
        </>
      )}
      <FiltersInUse view={view} onChange={onChange} />
    </div>
  );
}

function filtersIn({ statuses, owner, project, labels, isStarred }: View): number {
  return statuses.length + labels.length + Number(owner !== "") + Number(project !== "") + Number(isStarred);
}

function GroupField({ view, onChange }: Omit<Filtering, "rows">) {
  return (
    <label class={styles["field"]}>
      <span>Group</span>
      <select
        value={view.isGrouped ? "study" : "none"}
        disabled={view.study !== ""}
        onChange={(event) => onChange({ isGrouped: event.currentTarget.value === "study" })}
      >
        <option value="none">none</option>
        <option value="study">study</option>
      </select>
    </label>
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
      <span>Metric</span>
      <select
        value={view.metric}
        onChange={(event) => {
          const { value } = event.currentTarget;
          if (value === OTHER) setTyping(true);
          else onChange({ metric: value });
        }}
      >
        <option value="">goal of each job</option>
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

function OrderField({ view, rows, onChange }: Filtering) {
  const sorts = new Set<Sort>([...SORTS, ...metricColumns(rows, []), view.order.replace(/^-/, "") as Sort]);
  return (
    <label class={styles["field"]}>
      <span>Order</span>
      <select value={view.order} onChange={(event) => onChange({ order: event.currentTarget.value as Order })}>
        {[...sorts].flatMap((sort) => [
          <option key={`-${sort}`} value={`-${sort}`}>
            {metricOf(sort) ?? words(sort)} ↓
          </option>,
          <option key={sort} value={sort}>
            {metricOf(sort) ?? words(sort)} ↑
          </option>,
        ])}
      </select>
    </label>
  );
}
