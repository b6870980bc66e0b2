// The settings of a comparison in the address. Every part of the page reads and writes them here.

import { computed, type ReadonlySignal, signal } from "@preact/signals";
import type { Brush } from "../../charts/axis_scale.ts";
import { listOf } from "../../query.ts";
import { param } from "../../url.ts";
import { type Brushes, brushesText, parseBrushes, withBrush } from "./brushes.ts";

export const jobsParam = param("jobs");
export const studyParam = param("study");
/** Ids of runs that are not shown. */
export const hideParam = param("hide");
/** The id of the run that the others are compared with. */
export const baselineParam = param("baseline");
/** "5:val_accuracy": only the best so many. */
export const bestParam = param("best");
/** Colours by hand, as places in the palette, by the id of a run or the key of a group: "ID:3". */
export const coloursParam = param("colours");
/** What runs are grouped by: a field, or the cell of a study. */
export const groupParam = param("group");
/** The line of a group: its mean or its median. */
export const middleParam = param("middle", "mean");
/** The area around the line of a group. */
export const bandParam = param("band", "range");
/** Keys of groups whose single runs are shown. */
export const openParam = param("open");
/** The utilization is open. */
export const utilizationParam = param("use");
export const metricsParam = param("m");
export const axisParam = param("x");
export const smoothParam = param("smooth", "0");
export const logParam = param("log");
export const logXParam = param("logx");
/** The order of the table. `sort` is that of the list of jobs, which decides which jobs come first. */
export const orderParam = param("order");
/** Axes of the parallel coordinates, from left to right. */
export const axesParam = param("axes");
/** Axes that are upside down. */
export const flipParam = param("flip");
/** Axes whose scale a person has changed: "batch_size:log". */
export const scalesParam = param("scales");
/** The field that sets the colour of lines and points; by default each run has its own colour. */
export const byParam = param("by");
/** The result of the bars. */
export const barParam = param("bar");
/** The field of the box plots. */
export const boxParam = param("box");
/** The fields on the axes of the scatter. */
export const acrossParam = param("sx");
export const upParam = param("sy");
const brushParam = param("brush");

// The brushes while a range is drawn. The address is written when the pointer is lifted: browsers limit how often.
const drawing = signal<Brushes | null>(null);

const addressBrushes = computed(() => brushParam.value);

export const brushes: ReadonlySignal<Brushes> = computed(() => drawing.value ?? parseBrushes(addressBrushes.value));

let frame = 0;

/** Set or remove a brush. While it is drawn, the page updates once a frame. */
export function setBrush(key: string, brush: Brush | null, isDone: boolean): void {
  const next = withBrush(parseBrushes(addressBrushes.peek()), key, brush);
  cancelAnimationFrame(frame);
  if (!isDone) {
    frame = requestAnimationFrame(() => {
      drawing.value = next;
    });
    return;
  }
  drawing.value = null;
  brushParam.set(brushesText(next));
}

export function clearBrushes(): void {
  brushParam.set("");
}

/** A list in the address that a person emptied. */
const NONE = "none";

/** The items of a list with a default. */
export function chosenOf(text: string, defaultItems: readonly string[]): readonly string[] {
  return text === "" ? defaultItems : text === NONE ? [] : listOf(text);
}

export function chosenText(items: readonly string[], defaultItems: readonly string[]): string {
  if (items.length === 0) return NONE;
  return items.join() === defaultItems.join() ? "" : items.join();
}
