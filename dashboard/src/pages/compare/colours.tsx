// The colours of runs by a setting or a result: a ramp of numbers, or a colour for each text. By default each run has its
// own colour.

import { useMemo } from "preact/hooks";
import type { Entry } from "../../charts/frame.tsx";
import { runColour, runDash } from "../../charts/palette.ts";
import { extentOf, RAMP, rampColour, shareOf } from "../../charts/ramp.ts";
import { Swatch } from "../../charts/swatch.tsx";
import { byValue } from "../../order.ts";
import styles from "./coordinates.module.css";
import { FieldChoice } from "./field_choice.tsx";
import type { Field, Value } from "./fields.ts";
import type { Run } from "./runs.ts";
import { byParam } from "./view.ts";

interface Paint {
  /** As CSS. */
  readonly colour: string;
  readonly dash: readonly number[];
}

export interface Colours {
  readonly by: Field | undefined;
  readonly colourOf: (run: Run) => Paint;
  /** The ids of runs without a value of the field. They are drawn faintly. */
  readonly without: readonly string[];
  /** Of numbers, the least and the greatest. */
  readonly extent: readonly [number, number] | null;
  /** The legend: the runs, or the texts that set their colours; none of a ramp. */
  readonly entries: readonly Entry[];
}

export function useColours(fields: readonly Field[], runs: readonly Run[]): Colours {
  const by = fields.find(({ key }) => key === byParam.value);
  return useMemo(() => coloursOf(by, runs), [by, runs]);
}

export function coloursOf(by: Field | undefined, runs: readonly Run[]): Colours {
  const values = runs.map(({ job }) => by?.valueIn(job) ?? null);
  const known = values.filter((value) => value !== null);
  const numbers = known.filter((value) => typeof value === "number");
  const extent = numbers.length === known.length ? extentOf(numbers) : null;
  const texts: readonly Value[] = extent === null ? [...new Set(known)].sort((a, b) => byValue(a, b, false)) : [];
  const colourOf = (run: Run): Paint => {
    if (by === undefined) return { colour: `var(--${run.colour})`, dash: run.dash };
    const value = by.valueIn(run.job);
    if (extent !== null) return { colour: rampColour(shareOf(Number(value), extent)), dash: [] };
    const place = Math.max(0, texts.indexOf(value));
    return { colour: `var(--${runColour(place)})`, dash: runDash(place) };
  };
  const without = by === undefined ? [] : runs.filter((_, i) => values[i] === null).map(({ id }) => id);
  const entries =
    by === undefined
      ? runs.map(({ number, job, colour, dash }) => ({ name: `${number} ${job.name}`, colour, dash }))
      : texts.map((value, place) => ({ name: by.format(value), colour: runColour(place), dash: runDash(place) }));
  return { by, colourOf, without, extent, entries };
}

const MOST = 8; // texts with a place in the legend

interface Props {
  fields: readonly Field[];
  colours: Colours;
  runs: readonly Run[];
}

/** The choice of the field, with the legend of its colours. */
export function ColourBy({ fields, colours: { by, extent, entries }, runs }: Props) {
  return (
    <>
      {by && extent && (
        <span class={styles["ramp"]}>
          {by.format(extent[0])} <span class={styles["bar"]} style={{ background: RAMP }} /> {by.format(extent[1])}
        </span>
      )}
      {by &&
        entries.slice(0, MOST).map(({ name, colour, dash }) => (
          <span key={name} class={styles["ramp"]}>
            <Swatch colour={colour} dash={dash} /> {name}
          </span>
        ))}
      {by && entries.length > MOST && <span class="muted">and {entries.length - MOST} more</span>}
      <FieldChoice
        label="Colour by"
        value={by?.key ?? ""}
        fields={fields}
        none={runs.some(({ group }) => group !== null) ? "group" : "run"}
        onChange={byParam.set}
      />
    </>
  );
}
