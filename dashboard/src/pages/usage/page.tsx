// The usage of the past: GPU-hours by day or month, as a chart and as a table. The address has all choices.

import { usePolled } from "../../api/polled.ts";
import type { UsageReport } from "../../api/types.ts";
import { Bars } from "../../charts/bars.tsx";
import { runColour } from "../../charts/palette.ts";
import { number, UNKNOWN } from "../../format.ts";
import { ProblemNotice, Waiting } from "../../parts/notice.tsx";
import { Panel } from "../../parts/panel.tsx";
import { TypedInput } from "../../parts/typed_input.tsx";
import { pathWith } from "../../query.ts";
import { param } from "../../url.ts";
import styles from "../settings/kit.module.css";
import { Page } from "../settings/kit.tsx";
import { hoursByPeriod, nameOf } from "./periods.ts";

const KEYS = ["project", "user", "host", "device"] as const;
const FIELDS = [
  ["from", "From", "date"],
  ["until", "Until", "date"],
  ["project", "Project", "text"],
  ["user", "User", "text"],
] as const;
const FIELD_PARAMS = FIELDS.map(([name]) => param(name));
const CHOICES = [
  ["Each", param("period", "month"), ["month", "day"]],
  ["By", param("by", KEYS[0]), KEYS],
  ["And by", param("and"), ["", ...KEYS]],
] as const;
const MOST = 500; // rows of the table

export function UsagePage() {
  const [period, by, and] = CHOICES.map(([, { value }]) => value) as [string, string, string];
  const fields = FIELDS.map(([name], i) => [name, FIELD_PARAMS[i]?.value]);
  const asked = { ...Object.fromEntries(fields), period, by: and === "" ? by : [by, and] };
  const { data, problem } = usePolled<UsageReport>(pathWith("/v1/usage", asked), { every_s: 300 });
  return (
    <Page title="Usage">
      <div class={styles["filters"]} role="search" aria-label="Usage">
        {FIELDS.map(([name, label, type], i) => (
          <label key={name} class={styles["field"]}>
            <span>{label}</span>
            <TypedInput
              type={type}
              maxLength={255}
              value={FIELD_PARAMS[i]?.value ?? ""}
              onTyped={(input) => FIELD_PARAMS[i]?.set(input.value)}
            />
          </label>
        ))}
        {CHOICES.map(([label, choice, options]) => (
          <label key={label} class={styles["field"]}>
            <span>{label}</span>
            <select value={choice.value} onChange={(event) => choice.set(event.currentTarget.value)}>
              {options.map((option) => (
                <option key={option} value={option}>
                  {option || "nothing else"}
                </option>
              ))}
            </select>
          </label>
        ))}
        <a href={pathWith("/v1/usage", { ...asked, format: "csv" })} download>
          CSV
        </a>
      </div>
      {data === undefined ? (
        <Waiting problem={problem} subject="the usage" />
      ) : (
        <>
          <ProblemNotice problem={problem} />
          <Chart report={data} />
          <Rows report={data} />
        </>
      )}
    </Page>
  );
}

function Chart({ report }: { report: UsageReport }) {
  const hours = hoursByPeriod(report);
  const values = [...hours.values()].map((value) => ({ value, low: null, high: null }));
  const title = `GPU-hours by ${report.period_length}`;
  return (
    <Panel title={title}>
      <Bars
        title={title}
        xName={`${report.period_length}, UTC`}
        yName="GPU-hours"
        groups={[...hours.keys()]}
        series={[{ name: "", colour: runColour(0), values }]}
        isFromZero
        format={(value) => number(value, 3)}
        formatEstimate={({ value }) => number(value)}
      />
    </Panel>
  );
}

function Rows({ report }: { report: UsageReport }) {
  const { by, items, total } = report;
  const newestFirst = items.toSorted((a, b) => b.period.localeCompare(a.period));
  return (
    <div class={styles["scroll"]} tabIndex={0} role="region" aria-label="usage">
      <table class={styles["table"]}>
        <thead>
          <tr>
            {[report.period_length, ...by].map((head) => (
              <th key={head} scope="col">
                {head.replace(/^./, (letter) => letter.toUpperCase())}
              </th>
            ))}
            {["GPU-hours", "Jobs", "Cost"].map((head) => (
              <th key={head} scope="col" class="figure">
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {newestFirst.slice(0, MOST).map((row) => (
            <tr key={[row.period, ...by.map((key) => row[key])].join()}>
              <td>{nameOf(row.period, report)}</td>
              {by.map((key) => (
                <td key={key}>
                  <bdi>{row[key] ?? UNKNOWN}</bdi>
                </td>
              ))}
              <Figures of={row} />
            </tr>
          ))}
          <tr>
            <th scope="row" colSpan={by.length + 1}>
              Total{items.length > MOST && ` of ${number(items.length)} rows; the CSV has all`}
            </th>
            <Figures of={total} />
          </tr>
        </tbody>
      </table>
    </div>
  );
}

function Figures({ of: { gpu_hours, jobs, cost } }: { of: UsageReport["total"] }) {
  return [gpu_hours, jobs, cost].map((figure, i) => (
    <td key={i} class="figure">
      {number(figure)}
    </td>
  ));
}
