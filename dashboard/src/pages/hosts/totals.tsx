// The numbers of hosts and slots by state.

import type { Host } from "../../api/types.ts";
import { number } from "../../format.ts";
import { ALL_SLOT_STATES, countsOf, HOST_STATES, type HostState, SLOT_STATES, statesOf } from "./hosts.ts";
import slotStyles from "./slots.module.css";
import styles from "./totals.module.css";

export function Totals({ hosts }: { hosts: readonly Host[] }) {
  const counts = countsOf(hosts);
  const states = statesOf(hosts);
  const shownStates = ALL_SLOT_STATES.filter(
    (slotState) => slotState === "leased" || slotState === "free" || counts[slotState] > 0,
  );
  const total = shownStates.reduce((sum, slotState) => sum + counts[slotState], 0);
  return (
    <section class={styles["totals"]} aria-label="Totals">
      <div class={styles["hosts"]}>
        <b>{number(hosts.length)}</b> {hosts.length === 1 ? "host" : "hosts"}
        {(["alive", "drained", "no_space", "lost"] as HostState[])
          .filter((state) => states[state] > 0)
          .map((state) => (
            <span key={state} class="muted">
              {HOST_STATES[state][0]} {number(states[state])} {HOST_STATES[state][1]}
            </span>
          ))}
      </div>
      <div class={styles["slots"]}>
        <ul class={slotStyles["legend"]} aria-label={`${number(total)} slots`}>
          {shownStates.map((slotState) => (
            <li key={slotState} class={slotStyles[slotState]} title={SLOT_STATES[slotState].means}>
              <i aria-hidden="true">{SLOT_STATES[slotState].sign}</i> <b>{number(counts[slotState])}</b>{" "}
              {SLOT_STATES[slotState].word}
            </li>
          ))}
          <li class="muted">of {number(total)} slots</li>
        </ul>
        <div class={slotStyles["bar"]} aria-hidden="true">
          {shownStates
            .filter((slotState) => counts[slotState] > 0)
            .map((slotState) => (
              <span key={slotState} class={slotStyles[slotState]} style={{ flex: `${counts[slotState]} 1 0` }} />
            ))}
        </div>
      </div>
    </section>
  );
}
