// A slot: its state, its job, and the figures of its GPU.

import type { Host, Slot } from "../../api/types.ts";
import { bytes, moment, number, percent } from "../../format.ts";
import { Meter } from "../../parts/meter.tsx";
import { reasonOf, SLOT_STATES, slotStateOf } from "./hosts.ts";
import { JobLink } from "./job_link.tsx";
import { type Reading, readingOf } from "./reading.ts";
import styles from "./slots.module.css";

interface Props {
  host: Host;
  slot: Slot;
  names: ReadonlyMap<string, string>;
}

export function SlotTile({ host, slot, names }: Props) {
  const slotState = slotStateOf(host, slot);
  const { sign, word, means } = SLOT_STATES[slotState];
  const reading = readingOf(slot);
  const reason = reasonOf(slot);
  return (
    <li class={`${styles["tile"]} ${styles[slotState]}`}>
      <div class={styles["head"]}>
        <b title={slot.uuid ?? undefined}>
          <span class="spoken">Slot </span>
          {slot.index}
        </b>
        <span class={styles["state"]} title={means}>
          <span aria-hidden="true">{sign}</span> {word}
        </span>
        <span class={styles["kind"]}>{slot.name}</span>
      </div>
      {slot.job_id !== null && (
        <p class={styles["holder"]}>
          <JobLink id={slot.job_id} names={names} /> <span class="muted">rank {slot.rank}</span>
        </p>
      )}
      {reason !== null && <p class={styles["lost"]}>{reason}</p>}
      {reading !== null && <Figures slot={slot} reading={reading} />}
    </li>
  );
}

function Figures({ slot, reading }: { slot: Slot; reading: Reading }) {
  if (reading.isLost) return <p class={styles["lost"]}>lost: the GPU does not answer</p>;
  const { power_w, temperature_c, slowed } = reading;
  const facts = [
    power_w === null ? "" : `${number(Math.round(power_w))} W`,
    temperature_c === null ? "" : `${Math.round(temperature_c)} °C`,
    slowed.length === 0 ? "" : `slowed: ${slowed.join(", ")}`,
  ];
  const used = reading.percent === null ? null : reading.percent / 100;
  const full = reading.memory_bytes === null || !slot.memory_bytes ? null : reading.memory_bytes / slot.memory_bytes;
  return (
    <div class={styles["figures"]} title={reading.at === null ? undefined : `At ${moment(reading.at)}`}>
      <Row name="GPU" share={used} text={percent(used)} title="Share of the time in which a kernel ran" />
      <Row name="Memory" share={full} text={bytes(reading.memory_bytes)} title={`Of ${bytes(slot.memory_bytes)}`} />
      <p class="muted">{facts.filter((text) => text !== "").join(" · ")}</p>
    </div>
  );
}

interface RowProps {
  name: string;
  share: number | null;
  text: string;
  title: string;
}

function Row({ name, share, text, title }: RowProps) {
  return (
    <>
      <span title={title}>{name}</span>
      <Meter share={share} label={name} text={text} />
      <span class={styles["figure"]}>{text}</span>
    </>
  );
}
