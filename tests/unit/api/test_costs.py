"""Every route below /v1 says what it costs: it takes a turn, or it is known to be quick."""

from fastapi.routing import iter_route_contexts

from api import costs
from api.main import app_for
from jobs.runtime.settings import Settings

TURNS = {
    costs.TAKES_A_TURN.dependency, costs.REPORT_TAKES_A_TURN.dependency, costs.DRY_RUN_TAKES_A_TURN.dependency,
    costs.LONG_PAGE_TAKES_A_TURN.dependency, costs.HISTORY_TAKES_A_TURN.dependency,
    costs.PROCESS_TAKES_A_TURN.dependency, costs.IMPORT_TAKES_A_TURN.dependency,
}  # fmt: skip

# They read or write a few rows, or one page of small rows. Those of the store wait for it in threads of their own.
_QUICK = """
    add_note add_project_member cancel_job change_article change_job change_project change_user change_view
    change_webhook create_article create_login_link create_project create_token create_view create_webhook
    delete_article delete_job delete_view delete_webhook download_artifact download_artifacts download_checkpoint
    download_code drain_host follow_jobs forget_host get_article get_dataset get_dataset_sample get_dataset_version
    get_host get_job get_me get_token get_upload get_view get_webhook list_article_versions list_articles
    list_artifacts list_attempts list_audit_entries list_checkpoints list_dataset_samples list_datasets list_deliveries
    list_media list_models list_projects list_tokens list_uploads list_users list_views list_webhooks look_at_artifact
    look_at_checkpoint pause_job put_upload_content redeliver_delivery register_dataset remove_artifacts
    remove_dataset_version remove_project_member remove_upload resume_job revoke_token start_upload test_webhook
    undrain_host
"""


def test_every_route_takes_a_turn_or_is_known_to_be_quick() -> None:
    quick = set(_QUICK.split())
    app = app_for(Settings(broker_url="memory://"))
    routes = [route for route in iter_route_contexts(app.routes) if (route.path or "").startswith("/v1/")]
    in_turn = {
        route.name for route in routes
        if TURNS & {dependency.call for dependency in route.dependant.dependencies}
    }  # fmt: skip
    names = {route.name for route in routes}

    undeclared = names - in_turn - quick
    assert not undeclared, f"say what these cost: TAKES_A_TURN of api.costs, or _QUICK here: {sorted(undeclared)}"
    assert not in_turn & quick
    assert quick <= names
    assert {"submit_study", "get_report", "get_metrics_of_many", "get_analysis", "list_all_jobs"} <= in_turn
