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
import { METRICS, metricOf, type Order, SORTS, type View } from "./view.ts";
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

const MOST_GROUPED = 2; // fields

function GroupField({ view, rows, onChange }: Filtering) {
  const { group } = view;
  const change = (place: number, field: string): void =>
    onChange({ group: field === "" ? group.slice(0, place) : group.toSpliced(place, 1, field) });
  return (
    <span class={styles["field"]}>
      {[...group, ""].slice(0, MOST_GROUPED).map((field, place) => (
        <select
          key={place === 0 ? "first" : "second"}
          aria-label={place === 0 ? "Group" : "And by"}
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

/** The order, on pages without headings. */
function OrderField({ view, rows, onChange }: Filtering) {
  const sort = view.order.replace(/^-/, "");
  const isFalling = sort !== view.order;
  return (
    <div class={styles["field"]}>
      <span>Order</span>
      <select
        aria-label="Order"
        value={sort}
        onChange={(event) => onChange({ order: `${isFalling ? "-" : ""}${event.currentTarget.value}` as Order })}
      >
        <FieldOptions rows={rows} first={[sort]} ofEveryJob={SORTS} />
      </select>
      <button
        type="button"
        aria-label={isFalling ? "Falling" : "Rising"}
        onClick={() => onChange({ order: (isFalling ? sort : `-${sort}`) as Order })}
      >
        {isFalling ? "↓" : "↑"}
      </button>
    </div>
  );
}
