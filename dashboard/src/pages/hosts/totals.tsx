// How many hosts and slots there are, and what they are up to.

import type { Host } from "../../api/types.ts";
import { number } from "../../format.ts";
import { countsOf, EVERY_SERVICE, HOST_STATES, type HostState, SERVICES, statesOf } from "./hosts.ts";
import slotStyles from "./slots.module.css";
import styles from "./totals.module.css";

export function Totals({ hosts }: { hosts: readonly Host[] }) {
  const counts = countsOf(hosts);
  const states = statesOf(hosts);
  const shownStates = EVERY_SERVICE.filter(
    (service) => service === "leased" || service === "free" || counts[service] > 0,
  );
  const total = shownStates.reduce((sum, service) => sum + counts[service], 0);
  return (
    <section class={styles["totals"]} aria-label="Totals">
      <div class={styles["hosts"]}>
        <b>{number(hosts.length)}</b> {hosts.length === 1 ? "host" : "hosts"}
        {(["alive", "drained", "lost"] as HostState[])
          .filter((state) => states[state] > 0)
          .map((state) => (
            <span key={state} class="muted">
              {HOST_STATES[state][0]} {number(states[state])} {HOST_STATES[state][1]}
            </span>
          ))}
      </div>
      <div class={styles["slots"]}>
        <ul class={slotStyles["legend"]} aria-label={`${number(total)} slots`}>
          {shownStates.map((service) => (
            <li key={service} class={slotStyles[service]} title={SERVICES[service].means}>
              <i aria-hidden="true">{SERVICES[service].sign}</i> <b>{number(counts[service])}</b>{" "}
              {SERVICES[service].word}
            </li>
          ))}
          <li class="muted">of {number(total)} slots</li>
        </ul>
        <div class={slotStyles["bar"]} aria-hidden="true">
          {shownStates
            .filter((service) => counts[service] > 0)
            .map((service) => (
              <span key={service} class={slotStyles[service]} style={{ flex: `${counts[service]} 1 0` }} />
            ))}
        </div>
      </div>
    </section>
  );
}
