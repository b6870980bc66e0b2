// Webhooks: one's own; an admin sees everybody's. A new one shows its secret once.

import { useState } from "preact/hooks";
import { call, post, remove } from "../../api/client.ts";
import type { Me, NewWebhook, Webhook } from "../../api/types.ts";
import styles from "../settings/kit.module.css";
import { Action, Choice, Field, Form, List, Page, useMe, When } from "../settings/kit.tsx";
import { textOf } from "../settings/matching.ts";
import { Secret } from "../settings/secret.tsx";

const EVENTS = [
  ["job.ended", "a job ends"],
  ["job.idle", "nobody uses the slots of a job"],
  ["job.alert", "a job has an alert"],
  ["study.ended", "a study ends"],
] as const;

/** Mail needs no choice: it is for mailto: addresses, and these take nothing else. */
const FORMATS = [
  ["", "by the address"],
  ["hora", "signed JSON, for programs"],
  ["slack", "Slack, Mattermost"],
  ["teams", "Microsoft Teams"],
] as const;

export function WebhooksPage() {
  const me = useMe();
  const [created, setCreated] = useState<NewWebhook>();
  const maySubmit = me !== undefined && me.scope !== "read";
  return (
    <Page title="Webhooks">
      {created !== undefined && (
        <Secret
          title="The secret that signs its messages"
          text={created.secret}
          onClose={() => setCreated(undefined)}
        />
      )}
      {maySubmit && <Add me={me} onCreated={setCreated} />}
      <List<Webhook>
        key={created?.id}
        noun="webhooks"
        path="/v1/webhooks?limit=500"
        heads={["Address", "Events", "Format", "Of", "Owner", "Created", ""]}
        texts={({ id, url, owner, project, events }) => [id, url, owner, project, ...events]}
      >
        {(webhook, refresh) => (
          <tr key={webhook.id}>
            <th scope="row">
              <a href={`/webhooks/${webhook.id}`}>
                <bdi>{webhook.url}</bdi>
              </a>
              {webhook.disabled_at !== null && <span class="muted"> disabled</span>}
            </th>
            <td>{webhook.events.join(", ")}</td>
            <td>{webhook.format}</td>
            <td>{webhook.project ?? "own jobs"}</td>
            <td>{webhook.owner}</td>
            <td>
              <When at={webhook.created_at} />
            </td>
            <td>
              <div class={styles["actions"]}>{maySubmit && <Actions webhook={webhook} refresh={refresh} />}</div>
            </td>
          </tr>
        )}
      </List>
    </Page>
  );
}

export function Actions({ webhook, refresh }: { webhook: Webhook; refresh: () => void }) {
  const { id, url, disabled_at } = webhook;
  const path = `/v1/webhooks/${id}`;
  const isDisabled = disabled_at !== null;
  return (
    <>
      {!isDisabled && <Action text="Ping" of={url} request={() => post(`${path}/test`)} onDone={refresh} />}
      <Action
        text={isDisabled ? "Enable" : "Disable"}
        of={url}
        request={() => call("PATCH", path, { body: { disabled: !isDisabled } })}
        onDone={refresh}
      />
      <Action
        text="Delete…"
        of={url}
        request={() => remove(path)}
        onDone={refresh}
        question={{ title: "Delete the webhook?", about: `Nothing more is sent to ${url}. Its secret is deleted too.` }}
      />
    </>
  );
}

function Add({ me, onCreated }: { me: Me; onCreated: (webhook: NewWebhook) => void }) {
  const isAdmin = me.scope === "admin";
  return (
    <Form
      title="New webhook"
      button="Create the webhook"
      send={async (fields) => {
        const body = {
          url: textOf(fields, "url"),
          events: EVENTS.map(([event]) => event).filter((event) => fields.get(event) !== null),
          project: textOf(fields, "project") ?? null,
          format: textOf(fields, "format") ?? null,
        };
        onCreated(await post<NewWebhook>("/v1/webhooks", body));
      }}
    >
      <Field label="Address" name="url" required placeholder="https://ci.example.com/hooks/hora" />
      {EVENTS.map(([event, text]) => (
        <label key={event} class={styles["check"]}>
          <input type="checkbox" name={event} defaultChecked />
          When {text}
        </label>
      ))}
      <Choice label="Format" name="format" options={FORMATS} />
      {isAdmin ? (
        <Field label="Project" name="project" about="Empty: your own jobs and studies." />
      ) : (
        <Choice
          label="Jobs and studies"
          name="project"
          options={[["", "my own"], ...me.projects.map((name) => [name, `of ${name}`] as const)]}
        />
      )}
    </Form>
  );
}
