// One webhook, with its deliveries: what was sent, and what the receiver answered.

import { post } from "../../api/client.ts";
import { usePolled } from "../../api/polled.ts";
import type { Delivery, Webhook } from "../../api/types.ts";
import { number } from "../../format.ts";
import { ProblemNotice, Waiting } from "../../parts/notice.tsx";
import styles from "../settings/kit.module.css";
import { Action, List, Page, useMe, When } from "../settings/kit.tsx";
import { Actions } from "./page.tsx";

export function WebhookPage({ id }: { id: string }) {
  const me = useMe();
  const { data: webhook, problem, refresh } = usePolled<Webhook>(`/v1/webhooks/${id}`, { every_s: 15 });
  const maySubmit = me !== undefined && me.scope !== "read";
  return (
    <Page title={webhook?.url ?? id} back={["/webhooks", "Webhooks"]}>
      {webhook === undefined ? (
        <Waiting problem={problem} subject="the webhook" />
      ) : (
        <>
          <ProblemNotice problem={problem} />
          {maySubmit && (
            <div class={styles["actions"]}>
              <Actions webhook={webhook} refresh={refresh} />
            </div>
          )}
          <List<Delivery>
            noun="deliveries"
            path={`/v1/webhooks/${id}/deliveries?limit=100`}
            heads={["Event", "State", "Tries", "Answer", "Created", ""]}
            texts={() => []}
            hasSearch={false}
            every_s={3}
          >
            {(delivery, again) => (
              <Row
                key={delivery.id}
                delivery={delivery}
                redeliver={maySubmit && webhook.disabled_at === null ? `/v1/webhooks/${id}/deliveries` : null}
                onDone={again}
              />
            )}
          </List>
        </>
      )}
    </Page>
  );
}

interface Props {
  delivery: Delivery;
  /** The path of the deliveries; null if they cannot be sent again. */
  redeliver: string | null;
  onDone: () => void;
}

function Row({ delivery, redeliver, onDone }: Props) {
  const { id, event, subject_id, status, status_code, error } = delivery;
  const page = event.startsWith("job.")
    ? `/jobs/${subject_id}`
    : event.startsWith("study.")
      ? `/studies/${subject_id}`
      : "";
  return (
    <tr>
      <th scope="row">
        {event} {page === "" ? null : <a href={page}>{subject_id}</a>}
      </th>
      <td>{status}</td>
      <td>{number(delivery.attempts)}</td>
      <td>{[status_code, error].filter((part) => part !== null).join(": ")}</td>
      <td>
        <When at={delivery.created_at} />
      </td>
      <td>
        <div class={styles["actions"]}>
          {redeliver !== null && status !== "pending" && (
            <Action
              text="Send again"
              of={`delivery ${id}`}
              request={() => post(`${redeliver}/${id}/redeliver`)}
              onDone={onDone}
            />
          )}
        </div>
      </td>
    </tr>
  );
}
