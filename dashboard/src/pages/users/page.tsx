// The users, for admins: what tokens they have, and whether they are let in.

import { call } from "../../api/client.ts";
import type { User } from "../../api/types.ts";
import { number } from "../../format.ts";
import { pathWith } from "../../query.ts";
import styles from "../settings/kit.module.css";
import { Action, List, Page, When } from "../settings/kit.tsx";

export function UsersPage() {
  return (
    <Page title="Users">
      <p class="muted">
        Make a user's first token to add a user. <a href="/tokens">Tokens</a>
      </p>
      <List<User>
        noun="users"
        path="/v1/users?limit=500"
        heads={["Name", "Scope", "Valid tokens", "Last used", "Since", ""]}
        texts={({ name, scope }) => [name, scope]}
      >
        {(user, refresh) => <Row key={user.name} user={user} refresh={refresh} />}
      </List>
    </Page>
  );
}

function Row({ user, refresh }: { user: User; refresh: () => void }) {
  const { name, scope, tokens, disabled_at } = user;
  const set = (disabled: boolean) => () =>
    call("PATCH", `/v1/users/${encodeURIComponent(name)}`, { body: { disabled } });
  return (
    <tr>
      <th scope="row">
        <a href={pathWith("/", { owner: name })}>
          <bdi>{name}</bdi>
        </a>
        {disabled_at !== null && <span class="muted"> disabled</span>}
      </th>
      <td>{scope ?? "none"}</td>
      <td>
        <a href={pathWith("/tokens", { user: name })}>{number(tokens)}</a>
      </td>
      <td>
        <When at={user.last_used_at} />
      </td>
      <td>
        <When at={user.created_at} />
      </td>
      <td>
        <div class={styles["actions"]}>
          {disabled_at !== null ? (
            <Action text="Enable" of={name} request={set(false)} onDone={refresh} />
          ) : (
            <Action
              text="Disable…"
              of={name}
              request={set(true)}
              onDone={refresh}
              question={{
                title: `Disable ${name}?`,
                about:
                  "All tokens of the user are refused within three seconds. Running jobs go on. Queued jobs wait until " +
                  "the user is enabled again.",
              }}
            />
          )}
        </div>
      </td>
    </tr>
  );
}
