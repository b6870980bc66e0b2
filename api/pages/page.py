"""Serves the page: the built dashboard's files. Called by `api.main`.

`hatch_build.py` builds the files into the folder `dashboard` beside this module. Routes of the API come first. Any
other path is a file of the page. If there is no such file, a browser gets the page itself, which reads the address. So
`/jobs/3k9v0t2m7x1q` can be opened, reloaded and sent to somebody.
"""

from collections.abc import Collection
from pathlib import Path

from fastapi import APIRouter, Depends, HTTPException, Request, Response
from fastapi.responses import PlainTextResponse

FOLDER = Path(__file__).parents[1] / "dashboard"
ASSETS = "/assets"  # files whose names change with what is in them

_NOT_BUILT = "The page is not built here: run `make setup` in the checkout, and start again. /openapi.json is there.\n"


def routes_for(folder: Path, api_paths: Collection[str]) -> APIRouter:
    """The routes of the page whose files are in `folder`; `api_paths` are those of the API.

    There is no page below the first part of such a path: a misspelt address of the API is answered with a problem.
    """
    routes = APIRouter(include_in_schema=False)
    if not (folder / "index.html").is_file():
        routes.add_api_route("/", _not_built)
        return routes
    reserved = {_first_part(path) for path in api_paths} - {""}

    async def as_page(request: Request, response: Response) -> None:
        if _first_part(request.scope["path"]) in reserved:
            raise HTTPException(404)
        response.headers["Cache-Control"] = "no-cache"

    assets, pages = APIRouter(dependencies=[Depends(_as_asset)]), APIRouter(dependencies=[Depends(as_page)])
    assets.frontend(ASSETS, directory=folder / "assets", fallback=None)
    pages.frontend("/", directory=folder, fallback="index.html")
    routes.include_router(assets)
    routes.include_router(pages)
    return routes


async def _as_asset(response: Response) -> None:
    response.headers["Cache-Control"] = "public, max-age=31536000, immutable"


async def _not_built() -> Response:
    return PlainTextResponse(_NOT_BUILT, 404)


def _first_part(path: str) -> str:
    return path.lstrip("/").partition("/")[0]
