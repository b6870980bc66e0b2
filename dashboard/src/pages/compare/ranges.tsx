// The ranges of the axes as a table with inputs: for the keyboard and exact values.

import type { Brush } from "../../charts/axis_scale.ts";
import { TypedInput } from "../../parts/typed_input.tsx";
import { type Field, valueText } from "./fields.ts";
import styles from "./ranges.module.css";
import { type Run, toggled } from "./runs.ts";
import { brushes, setBrush } from "./view.ts";

export function Ranges({ fields, runs }: { fields: readonly Field[]; runs: readonly Run[] }) {
  return (
    <details class={styles["details"]}>
      <summary>Ranges as numbers</summary>
      <div class={styles["scroll"]} tabIndex={0} role="region" aria-label="Ranges of the axes">
        <table>
          <thead>
            <tr>
              <th scope="col">Axis</th>
              <th scope="col">Runs have</th>
              <th scope="col">Keep</th>
            </tr>
          </thead>
          <tbody>
            {fields.map((field) => (
              <Range key={field.key} field={field} runs={runs} brush={brushes.value.get(field.key)} />
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}

function Range({ field, runs, brush }: { field: Field; runs: readonly Run[]; brush: Brush | undefined }) {
  const values = runs.map(({ job }) => field.valueIn(job)).filter((value) => value !== null);
  const numbers = values.filter((value) => typeof value === "number");
  const isNumeric = numbers.length === values.length && numbers.length > 0;
  const [least, greatest] = [Math.min(...numbers), Math.max(...numbers)];
  return (
    <tr>
      <th scope="row">{field.label}</th>
      <td>{isNumeric ? `${field.format(least)} to ${field.format(greatest)}` : `${new Set(values).size} values`}</td>
      <td class={styles["inputs"]}>
        {isNumeric ? (
          <Limits field={field} least={least} greatest={greatest} brush={brush} />
        ) : (
          <Texts field={field} texts={[...new Set(values.map(valueText))].sort()} brush={brush} />
        )}
      </td>
    </tr>
  );
}

interface LimitsProps {
  field: Field;
  least: number;
  greatest: number;
  brush: Brush | undefined;
}

function Limits({ field, least, greatest, brush }: LimitsProps) {
  const now = brush !== undefined && "from" in brush ? brush : { from: least, to: greatest };
  const set = (change: Partial<{ from: number; to: number }>): void => {
    const next = { ...now, ...change };
    setBrush(field.key, next.from <= least && next.to >= greatest ? null : next, true);
  };
  const input = (end: "from" | "to", without: number) => (
    <TypedInput
      type="number"
      step="any"
      value={Number(now[end].toPrecision(6))}
      aria-label={`${field.label} ${end}`}
      onTyped={({ value }) => set({ [end]: value === "" ? without : Number(value) })}
    />
  );
  return (
    <>
      {input("from", least)} to {input("to", greatest)}
    </>
  );
}

function Texts({ field, texts, brush }: { field: Field; texts: readonly string[]; brush: Brush | undefined }) {
  const keptTexts = brush !== undefined && "texts" in brush ? brush.texts : texts;
  const set = (text: string): void => {
    const next = toggled(keptTexts, text);
    setBrush(field.key, next.length === 0 || next.length === texts.length ? null : { texts: next }, true);
  };
  return (
    <>
      {texts.map((text) => (
        <label key={text}>
          <input type="checkbox" checked={keptTexts.includes(text)} onChange={() => set(text)} /> {text}
        </label>
      ))}
    </>
  );
}
