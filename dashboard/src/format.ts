// Figures as people read them. An unknown figure is a dash, never 0.

export const UNKNOWN = "–";

type Maybe = number | null | undefined;

// Made once: making one takes longer than formatting a hundred figures.
const wholeNumbers = new Intl.NumberFormat("en");
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const significant = Array.from(
  { length: 21 },
  (_, i) => new Intl.NumberFormat("en", { maximumSignificantDigits: i + 1 }),
);
const timeOfDay = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });
const dayAndTime = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" });

function isKnown(value: Maybe): value is number {
  return value !== null && value !== undefined && Number.isFinite(value);
}

/** A figure with four significant digits: 0.9312, 1.2e-7, 12,345. */
export function number(value: Maybe, digits = 4): string {
  if (!isKnown(value)) return UNKNOWN;
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e9))
    return value.toExponential(Math.max(digits - 2, 0)).replace(/\.?0+e/, "e");
  if (Number.isInteger(value)) return wholeNumbers.format(value);
  const shown = size >= 10 ** digits ? Math.ceil(Math.log10(size)) : digits; // all digits before the point
  return (significant[shown - 1] ?? wholeNumbers).format(value);
}

/** A count in short: 1,234 is 1,234, 12,345 is 12.3k. */
export function short(value: Maybe): string {
  if (!isKnown(value)) return UNKNOWN;
  return Math.abs(value) < 10_000 ? number(value) : compact.format(value);
}

/** A count with its noun: 1 job, 12 jobs. */
export function countText(count: number, noun: string): string {
  return `${wholeNumbers.format(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** A share of 0..1 in percent. */
export function percent(share: Maybe, digits = 0): string {
  return isKnown(share) ? `${(share * 100).toFixed(digits)} %` : UNKNOWN;
}

/** A duration in its two greatest units: 0.42 s, 12 s, 3 min 20 s, 2 h 5 min, 3 d 4 h. */
export function duration(seconds: Maybe): string {
  if (!isKnown(seconds)) return UNKNOWN;
  if (seconds < 0) return `-${duration(-seconds)}`;
  if (seconds < 10) return `${Number(seconds.toPrecision(2))} s`;
  const wholeSeconds = Math.round(seconds);
  if (wholeSeconds < 60) return `${wholeSeconds} s`;
  const units: [number, string, number, string][] = [
    [86_400, "d", 3600, "h"],
    [3600, "h", 60, "min"],
    [60, "min", 1, "s"],
  ];
  for (const [size, unit, part, partUnit] of units) {
    if (wholeSeconds < size) continue;
    const rest = Math.floor((wholeSeconds % size) / part);
    return rest === 0
      ? `${Math.floor(wholeSeconds / size)} ${unit}`
      : `${Math.floor(wholeSeconds / size)} ${unit} ${rest} ${partUnit}`;
  }
  return UNKNOWN;
}

/** Slots times hours, in the unit that suits it: 18.4 s, 4.9 min, 12.3 h. The same rule as `jobs/model/gpu_time.py`. */
export function gpuTime(hours: Maybe): string {
  if (!isKnown(hours)) return UNKNOWN;
  const [size, unit] = hours >= 1 ? [1, "h"] : hours * 60 >= 1 ? [60, "min"] : [3600, "s"];
  const value = hours * size;
  return `${value >= 100 ? wholeNumbers.format(Math.round(value)) : number(value, 3)} ${unit}`;
}

/** Bytes in binary units: 1.5 GiB. */
export function bytes(value: Maybe): string {
  if (!isKnown(value)) return UNKNOWN;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const step = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log2(Math.max(1, Math.abs(value))) / 10)));
  return `${number(value / 1024 ** step, 3)} ${units[step]}`;
}

/** A time on this machine's clock; without the date if it is today. */
export function moment(at: string | null | undefined, now = new Date()): string {
  if (!at) return UNKNOWN;
  const date = new Date(at);
  const isToday = date.toDateString() === now.toDateString();
  return (isToday ? timeOfDay : dayAndTime).format(date);
}

/** How long ago: 12 s ago, 3 d ago. */
export function ago(at: string | null | undefined, now = Date.now()): string {
  if (!at) return UNKNOWN;
  const seconds = (now - Date.parse(at)) / 1000;
  return seconds < 1 ? "now" : `${duration(Math.floor(seconds)).split(" ").slice(0, 2).join(" ")} ago`;
}

/** Seconds between two times; up to `now` without a second one. */
export function secondsBetween(
  from: string | null | undefined,
  to: string | null | undefined,
  now = Date.now(),
): number | null {
  return from ? ((to ? Date.parse(to) : now) - Date.parse(from)) / 1000 : null;
}

/** A name of the api in words: rank_failed is "rank failed". */
export function words(name: string): string {
  return name.replaceAll("_", " ");
}

/** A command as one line of a shell, quoted as Python's `shlex.quote` does it: braces, for one, would be expanded. */
export function commandText(command: readonly string[]): string {
  return command
    .map((argument) => (/^[\w@%+=:,./-]+$/.test(argument) ? argument : `'${argument.replaceAll("'", `'"'"'`)}'`))
    .join(" ");
}

/** The start of a file name, from a name that a person chose: letters, digits, dots and hyphens, at most 60. */
export function fileStem(name: string): string {
  const safe = name.replace(/[^\p{L}\p{M}\p{N}._-]+/gu, "-");
  return (
    [...safe]
      .slice(0, 60)
      .join("")
      .replace(/^[.-]+|[.-]+$/g, "") || "unnamed"
  );
}
