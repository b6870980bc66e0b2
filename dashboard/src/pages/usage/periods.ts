// The days or months of an answer about usage, and what was used in each. Pure.

import type { UsageReport } from "../../api/types.ts";

const MONTH = 7; // letters of 2026-10

/** A day or month as it is written: 2026-10-31, 2026-10. */
export function nameOf(period: string, { period_length }: Pick<UsageReport, "period_length">): string {
  return period_length === "month" ? period.slice(0, MONTH) : period;
}

/** The GPU-hours of each day or month of the answer, also of those without usage. */
export function hoursByPeriod(report: UsageReport): Map<string, number> {
  const hours = new Map<string, number>();
  const { first_day, last_day, period_length } = report;
  const day = new Date(first_day); // in UTC
  if (period_length === "month") day.setUTCDate(1);
  while (day <= new Date(last_day)) {
    hours.set(nameOf(day.toISOString().slice(0, 10), report), 0);
    if (period_length === "month") day.setUTCMonth(day.getUTCMonth() + 1);
    else day.setUTCDate(day.getUTCDate() + 1);
  }
  for (const { period, gpu_hours } of report.items) {
    const name = nameOf(period, report);
    hours.set(name, (hours.get(name) ?? 0) + gpu_hours);
  }
  return hours;
}
