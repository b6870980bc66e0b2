// The condition that a person wants to change: the menu of filters opens for it.

import { signal } from "@preact/signals";
import type { View } from "./view.ts";
import { conditionOf, conditionsOf } from "./where.ts";

export const asked = signal<{ readonly count: number; readonly place: number | null }>({ count: 0, place: null });

/** Open the menu for the condition at this place. */
export function askFor(place: number): void {
  asked.value = { count: asked.peek().count + 1, place };
}

/** The change of the view that adds a condition on a field. The menu opens for it, as a person has to complete it. */
export function filteredBy(view: View, field: string): Partial<View> {
  askFor(conditionsOf(view).length);
  return { where: [...view.where, conditionOf([{ field, operator: "", value: "" }]) ?? field] };
}
