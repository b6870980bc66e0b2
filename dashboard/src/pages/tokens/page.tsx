// Tokens and sessions: one's own, or for an admin those of `?user=`. A new one is shown once.

import { useState } from "preact/hooks";
import { post, remove } from "../../api/client.ts";
import type { CreatedToken, Me, Token } from "../../api/types.ts";
import { moment } from "../../format.ts";
import { pathWith } from "../../query.ts";
import { param } from "../../url.ts";
import styles from "../settings/kit.module.css";
import { Action, Choice, Field, Form, List, Page, useMe, When } from "../settings/kit.tsx";
import { narrowerScopes, numberOf, textOf } from "../settings/matching.ts";
import { Secret } from "../settings/secret.tsx";

const DAY_S = 86_400;
const userParam = param("user");

export function TokensPage() {
  const me = useMe();
  const [created, setCreated] = useState<CreatedToken>();
  const user = userParam.value;
  const isOther = user !== "" && user !== me?.user;
  return (
    <Page title={isOther ? `Tokens of ${user}` : "Tokens"}>
      {created !== undefined && (
        <Secret title={`The token ${created.name}`} text={created.token} onClose={() => setCreated(undefined)} />
      )}
      {me !== undefined && <NewToken me={me} user={user} onCreated={setCreated} />}
      <List<Token>
        key={created?.id}
        noun="tokens"
        path={pathWith("/v1/tokens", { user, limit: 100 })}
        heads={["Name", "Scope", "Created", "Last used", "Expires", "State", ""]}
        texts={({ name, id, scope, kind }) => [name, id, scope, kind]}
      >
        {(token, refresh) => <Row key={token.id} token={token} me={me} refresh={refresh} />}
      </List>
    </Page>
  );
}

function Row({ token, me, refresh }: { token: Token; me: Me | undefined; refresh: () => void }) {
  const { id, name, kind, scope, expires_at, revoked_at } = token;
  const isOver = expires_at !== null && Date.parse(expires_at) <= Date.now();
  const state = revoked_at !== null ? "revoked" : isOver ? "expired" : "valid";
  return (
    <tr>
      <th scope="row">
        <bdi>{name}</bdi> <span class="muted mono">{id}</span>
      </th>
      <td>{scope}</td>
      <td>
        <When at={token.created_at} />
      </td>
      <td>
        <When at={token.last_used_at} />
      </td>
      <td>{expires_at === null ? "never" : <When at={expires_at} />}</td>
      <td>
        {kind === "session" ? `session, ${state}` : state}
        {id === me?.token_id && " (this page)"}
      </td>
      <td>
        <div class={styles["actions"]}>
          {state === "valid" && (
            <Action
              text="Revoke…"
              of={name}
              request={() => remove(`/v1/tokens/${id}`)}
              onDone={refresh}
              question={{
                title: `Revoke ${name}?`,
                about:
                  id === me?.token_id
                    ? "You are signed in with it: this page will ask for a token."
                    : "Programs that use it, and sessions that came of it, are refused within three seconds.",
              }}
            />
          )}
        </div>
      </td>
    </tr>
  );
}

function NewToken({ me, user, onCreated }: { me: Me; user: string; onCreated: (token: CreatedToken) => void }) {
  const isAdmin = me.scope === "admin";
  const scopes = narrowerScopes(me.scope);
  return (
    <Form
      title="New token"
      button="Create the token"
      send={async (fields) => {
        const days = numberOf(fields, "days");
        const body = {
          name: textOf(fields, "name"),
          scope: textOf(fields, "scope"),
          user: textOf(fields, "user"),
          expires_in_s: typeof days === "number" ? Math.round(days * DAY_S) : days,
        };
        onCreated(await post<CreatedToken>("/v1/tokens", body));
      }}
    >
      <Field label="Name" name="name" required placeholder="nightly training" />
      {isAdmin && <Field label="User" name="user" value={user} about="A new name makes a new user. Empty: you." />}
      <Choice
        label="Scope"
        name="scope"
        value={scopes.includes("submit") ? "submit" : "read"}
        options={scopes.map((scope) => [scope, scope] as const)}
        about="read sees everything; submit also submits jobs; code also runs programs; admin may do all."
      />
      <Field label="Days until it expires" name="days" type="number" />
      {me.expires_at !== null && (
        <p class="muted">
          It cannot outlive your session, which ends at {moment(me.expires_at)}. For a longer one run{" "}
          <code>hora token create</code>.
        </p>
      )}
    </Form>
  );
}
