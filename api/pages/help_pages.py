"""The documentation at `/help`, for browsers: files that need no token. Part of `api.main`.

The files come from the folder `help` beside this module, which `hatch_build.py` makes from `docs/`. Their addresses end
as their names do: `/help/docs/spec.html` is `docs/spec.md`.
"""

from pathlib import Path

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, PlainTextResponse, RedirectResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

FOLDER = Path(__file__).parents[1] / "help"
ASSETS = "/help/_static"
_START = "/help/docs/index.html"

_NOT_BUILT = "The documentation is not built here: run `make setup` in the checkout, and start again.\n"
_MISSING = f"""\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>No such page - Hora</title>
<h1>No such page</h1>
<p>The documentation has no page at this address.</p>
<p><a href="{_START}">All pages</a></p>
</html>
"""


def routes_for(folder: Path) -> APIRouter:
    """The routes of the documentation whose files are in `folder`."""
    routes = APIRouter(include_in_schema=False)
    is_built = (folder / "docs" / "index.html").is_file()
    files = StaticFiles(directory=folder, check_dir=False)

    @routes.get("/help")
    @routes.get("/help/")
    async def help_start() -> Response:
        return RedirectResponse(_START) if is_built else PlainTextResponse(_NOT_BUILT, 404)

    @routes.get("/help/{path:path}")
    async def help_page(path: str, request: Request) -> Response:
        try:
            answer = await files.get_response(path, request.scope)
        except HTTPException:
            answer = HTMLResponse(_MISSING, 404)
        answer.headers["Cache-Control"] = "no-cache"
        return answer

    return routes
