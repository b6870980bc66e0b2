// The groups by colour and name: the legend of all charts of the page while runs are in groups. A group can be hidden,
// and opened to list its runs and to show their curves.

import { useComputed } from "@preact/signals";
import { countText } from "../../format.ts";
import { listOf } from "../../query.ts";
import { ColourButton } from "./colour_button.tsx";
import { focused, focusing } from "./focus.ts";
import { BANDS, lookNow } from "./group_tools.tsx";
import type { Group } from "./groups.ts";
import styles from "./run_list.module.css";
import { RunList } from "./run_list.tsx";
import { toggled } from "./runs.ts";
import { openParam } from "./view.ts";

interface Props extends Omit<Parameters<typeof RunList>[0], "runs"> {
  groups: readonly Group[];
}

export function GroupList({ groups, ...list }: Props) {
  const { middle, band } = lookNow();
  return (
    <>
      <p class={styles["explanation"]}>
        A line is the {middle} of a group. The area shows the {BANDS[band]}.
      </p>
      <ul class={styles["list"]}>
        {groups.map((group) => (
          <Entry key={group.key} group={group} {...list} />
        ))}
      </ul>
    </>
  );
}

function Entry({ group, ...list }: Omit<Props, "groups"> & { group: Group }) {
  const { key, name, runs, isHidden } = group;
  const state = isHidden ? "off" : "on";
  const isOpen = listOf(openParam.value).includes(key);
  const isFocused = useComputed(() => (focused.value === key ? "true" : undefined));
  return (
    <li>
      <div class={styles["entry"]} data-focused={isFocused} data-back={isHidden || undefined} {...focusing(key)}>
        <span class={styles["lead"]}>
          <button
            type="button"
            class={styles["show"]}
            aria-pressed={!isHidden}
            aria-label={`Show group ${name}: ${state}`}
            title={isHidden ? "Show these runs" : "Hide these runs"}
            onClick={() => list.onHide(key)}
          >
            <span class={styles["number"]}>{state}</span>
          </button>
          <ColourButton of={key} name={`group ${name}`} colour={group.colour} dash={group.dash} />
        </span>
        <button
          type="button"
          class={styles["open"]}
          aria-expanded={isOpen}
          title={`${isOpen ? "Close" : "Open"} this group`}
          onClick={() => openParam.set(toggled(listOf(openParam.value), key).join())}
        >
          <span aria-hidden="true">{isOpen ? "▾" : "▸"}</span> <span class={styles["name"]}>{name}</span>
        </button>
        <span class={`muted ${styles["value"]}`}>{countText(runs.length, "run")}</span>
      </div>
      {isOpen && <RunList runs={runs} isInner {...list} />}
    </li>
  );
}
