"""`hora webhook`: messages to addresses about jobs and studies. Part of the command line of `hora.cli.app`."""

from itertools import islice
from typing import Annotated

import typer

from hora.cli.options import AsJson, Limit
from hora.cli.output import display, print_json, print_list, say, tell

app = typer.Typer()
group = typer.Typer(help="Webhooks: messages to an address about jobs and studies.", no_args_is_help=True)
app.add_typer(group, name="webhook")

WebhookId = Annotated[str, typer.Argument(metavar="ID", help="The webhook.")]


@group.command()
def add(
    url: Annotated[str, typer.Argument(metavar="URL", help="An https address on the internet, or mailto:ADDRESS.")],
    events: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES", help="job.alert, job.ended, job.idle, study.ended, with commas. Without it: all."
        ),
    ] = None,
    project: Annotated[
        str | None, typer.Option(help="For the jobs and studies of this project. Without it: for your own.")
    ] = None,
    format_: Annotated[
        str | None,
        typer.Option("--format", metavar="NAME", help="hora, slack or teams. Without it: as the URL asks for."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Add a webhook, and print the secret that signs its messages. It cannot be shown again."""
    from hora.connection import connect
    from hora.render.text import plain

    names = None if events is None else [name.strip() for name in events.split(",") if name.strip()]
    with connect() as client:
        webhook = client.create_webhook(url, events=names, project=project, format=format_)
    if as_json:
        print_json(webhook)
        return
    written = webhook.get("format", "hora")
    in_format = "" if written == "hora" else f", in the format {plain(written)}"
    say(f"{plain(webhook['id'])} sends {plain(', '.join(webhook['events']))} to {plain(webhook['url'])}{in_format}")
    if written == "hora":  # chats read no signature
        say("Its secret, which cannot be shown again:")
        tell(plain(webhook["secret"]))


@group.command("ls")
def list_(
    owner: Annotated[str | None, typer.Option(help="Only webhooks of this user. For admins.")] = None,
    as_json: AsJson = False,
) -> None:
    """List your webhooks. Admins see all webhooks."""
    from hora.connection import connect
    from hora.render.webhooks import webhooks_table

    with connect() as client:
        found = list(client.webhooks(owner=owner))
    print_list(found, webhooks_table, nothing="No webhooks. Add one: `hora webhook add URL`.", as_json=as_json)


@group.command()
def show(webhook_id: WebhookId, as_json: AsJson = False) -> None:
    """Show one webhook."""
    from hora.connection import connect
    from hora.render.webhooks import webhook_facts

    with connect() as client:
        webhook = client.webhook(webhook_id)
    print_json(webhook) if as_json else display(webhook_facts(webhook))


@group.command()
def rm(webhook_id: WebhookId, as_json: AsJson = False) -> None:
    """Delete a webhook."""
    from hora.connection import connect

    with connect() as client:
        client.remove_webhook(webhook_id)
    print_json({"removed": webhook_id}) if as_json else tell(f"{webhook_id} is deleted")


@group.command()
def disable(webhook_id: WebhookId, as_json: AsJson = False) -> None:
    """Disable a webhook. Deliveries that wait for it are given up."""
    _set_disabled(webhook_id, disabled=True, as_json=as_json)


@group.command()
def enable(webhook_id: WebhookId, as_json: AsJson = False) -> None:
    """Enable a webhook again."""
    _set_disabled(webhook_id, disabled=False, as_json=as_json)


def _set_disabled(webhook_id: str, *, disabled: bool, as_json: bool) -> None:
    from hora.connection import connect

    with connect() as client:
        webhook = client.set_webhook_disabled(webhook_id, disabled)
    print_json(webhook) if as_json else tell(f"{webhook_id} is {'disabled' if disabled else 'enabled'}")


@group.command("test")
def ping(webhook_id: WebhookId, as_json: AsJson = False) -> None:
    """Send a ping to a webhook."""
    from hora.connection import connect

    with connect() as client:
        delivery = client.test_webhook(webhook_id)
    sentence = f"a ping will be sent; `hora webhook deliveries {webhook_id}` shows the result"
    print_json(delivery) if as_json else tell(sentence)


@group.command()
def deliveries(webhook_id: WebhookId, limit: Limit = 20, as_json: AsJson = False) -> None:
    """List the deliveries of a webhook, newest first. Some may still wait to be sent."""
    from hora.connection import connect
    from hora.render.webhooks import deliveries_table

    with connect() as client:
        found = list(islice(client.deliveries(webhook_id, page_size=min(limit, 100)), limit))
    print_list(
        found, deliveries_table, nothing="No deliveries yet. `hora webhook test ID` sends a ping.", as_json=as_json
    )


@group.command()
def redeliver(
    webhook_id: WebhookId,
    delivery_id: Annotated[int, typer.Argument(metavar="DELIVERY", help="The delivery's number.")],
    as_json: AsJson = False,
) -> None:
    """Send a delivery again."""
    from hora.connection import connect

    with connect() as client:
        delivery = client.redeliver(webhook_id, delivery_id)
    print_json(delivery) if as_json else tell(f"delivery {delivery_id} will be sent again")
