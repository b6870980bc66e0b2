// A figure over the grid, as bars with intervals and as a matrix of two fields.

import type { StudyReport } from "../../api/types.ts";
import { Bars } from "../../charts/bars.tsx";
import { tint } from "../../charts/ramp.ts";
import { countText } from "../../format.ts";
import { Panel } from "../../parts/panel.tsx";
import { barsOf, mainField, matrixOf } from "./charts.ts";
import { chosenFigure, estimateText, type Figure, fieldLabel, figuresOf } from "./figures.ts";
import styles from "./grid.module.css";
import { columnParam, figureParam, rowParam } from "./view.ts";

export function Grid({ report }: { report: StudyReport }) {
  const figure = chosenFigure(figureParam.value, report);
  const figures = figuresOf(report);
  const choice = (
    <label class={styles["choice"]}>
      Figure
      <select value={figure.key} onChange={(event) => figureParam.set(event.currentTarget.value)}>
        {figures.map(({ key, label }) => (
          <option key={key} value={key}>
            {label}
          </option>
        ))}
      </select>
    </label>
  );
  return (
    <>
      <Panel title={`${heading(figure)} by ${fieldLabel(mainField(report)) || "cell"}`} tools={choice}>
        <FigureBars report={report} figure={figure} />
      </Panel>
      {report.varied.length > 1 && <Matrix report={report} figure={figure} />}
    </>
  );
}

/** A label as the start of a title. A metric's own name stays as it is. */
function heading({ key, label }: Figure): string {
  if (key === `metrics.${label}`) return label;
  return (label[0] ?? "").toUpperCase() + label.slice(1);
}

function FigureBars({ report, figure }: { report: StudyReport; figure: Figure }) {
  const { groups, series } = barsOf(report, figure);
  if (series.every(({ values }) => values.every((value) => value === null)))
    return <p class="muted">No cell has this figure yet.</p>;
  return (
    <Bars
      title={`${figure.label} by ${fieldLabel(mainField(report)) || "cell"}`}
      xName={fieldLabel(mainField(report))}
      yName={figure.label}
      groups={groups}
      series={series}
      isFromZero={figure.isFromZero}
      maximum={figure.maximum}
      format={figure.format}
      formatEstimate={(estimate) => estimateText(estimate, figure.format)}
    />
  );
}

function Matrix({ report, figure }: { report: StudyReport; figure: Figure }) {
  const row = report.varied.find((field) => field === rowParam.value) ?? (report.varied[0] as string);
  const otherFields = report.varied.filter((field) => field !== row);
  const column = otherFields.find((field) => field === columnParam.value) ?? (otherFields[0] as string);
  const { rows, columns, cell } = matrixOf(report, [row, column], figure);
  return (
    <Panel
      title={`${heading(figure)} by ${fieldLabel(row)} and ${fieldLabel(column)}`}
      tools={
        report.varied.length > 2 && (
          <>
            <FieldChoice label="Rows" value={row} fields={report.varied} onChange={rowParam.set} />
            <FieldChoice label="Columns" value={column} fields={otherFields} onChange={columnParam.set} />
          </>
        )
      }
    >
      <div class={styles["scroll"]} tabIndex={0} role="region" aria-label={`Matrix of ${figure.label}`}>
        <table class={styles["matrix"]}>
          <thead>
            <tr>
              <td class={styles["corner"]}>
                {fieldLabel(row)} \ {fieldLabel(column)}
              </td>
              {columns.map((text) => (
                <th key={text} scope="col" class="figure">
                  {text}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((inRow) => (
              <tr key={inRow}>
                <th scope="row">{inRow}</th>
                {columns.map((inColumn) => {
                  const matrixCell = cell(inRow, inColumn);
                  if (matrixCell === null) return <td key={inColumn} class="figure" />;
                  return (
                    <td key={inColumn} class="figure" style={{ background: tint(matrixCell.share) }}>
                      {figure.format(matrixCell.mean)}
                      {matrixCell.count > 1 && (
                        <span class={styles["mean"]}> mean of {countText(matrixCell.count, "cell")}</span>
                      )}
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class={styles["note"]}>
        A stronger tint is a higher value
        {figure.better === undefined ? "" : `; ${figure.better === "more" ? "more" : "less"} is better`}.
      </p>
    </Panel>
  );
}

interface FieldProps {
  label: string;
  value: string;
  fields: readonly string[];
  onChange: (field: string) => void;
}

function FieldChoice({ label, value, fields, onChange }: FieldProps) {
  return (
    <label class={styles["choice"]}>
      {label}
      <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        {fields.map((field) => (
          <option key={field} value={field}>
            {fieldLabel(field)}
          </option>
        ))}
      </select>
    </label>
  );
}
