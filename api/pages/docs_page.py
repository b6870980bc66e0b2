"""The API in a browser, at `/docs`: Swagger UI, from files that need no token. Part of `api.main`.

The files are those of the dashboard's build, in its folder `docs`. So the browser loads nothing from elsewhere.
"""

from pathlib import Path

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse, RedirectResponse
from fastapi.staticfiles import StaticFiles

PATH = "/docs"

_NOT_BUILT = "This page is not built here: run `make setup` in the checkout, and start again. /openapi.json is there.\n"


def routes_for(folder: Path) -> APIRouter:
    """The routes of the page whose files are in `folder`."""
    routes = APIRouter(include_in_schema=False)
    is_built = (folder / "index.html").is_file()
    files = StaticFiles(directory=folder, check_dir=False)

    @routes.get(PATH)
    @routes.get(f"{PATH}/{{name}}")
    async def api_docs(request: Request, name: str = "index.html") -> Response:
        if not is_built and name == "index.html":
            return PlainTextResponse(_NOT_BUILT, 404)
        answer = await files.get_response(name, request.scope)
        answer.headers["Cache-Control"] = "no-cache"
        return answer

    @routes.get("/redoc")
    async def redoc() -> Response:
        return RedirectResponse(PATH)

    return routes
