"""The page in the browser: the built dashboard's files, and what a browser may do with them. Part of `api.main`.

Its files come from the folder `dashboard` beside this module, which `hatch_build.py` builds. Routes of the API come
first; what none of them has is looked for there, and a browser that goes to any other address gets the page itself,
which reads the address: so `/jobs/3k9v0t2m7x1q` can be opened, reloaded and sent to somebody.
"""

from collections.abc import Collection
from pathlib import Path

from fastapi import APIRouter, Depends, HTTPException, Request, Response
from fastapi.responses import PlainTextResponse

FOLDER = Path(__file__).parent / "dashboard"
ASSETS = "/assets"  # files whose names change with what is in them

# Scripts and styles from here alone, and none inside the document: a text that is taken for markup runs nothing.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)

_NOT_BUILT = "The page is not built here: run `make setup` in the checkout, and start again. /docs describes the API.\n"


def routes_for(folder: Path, taken: Collection[str]) -> APIRouter:
    """The routes of the page whose files are in `folder`; `taken` are paths of the API.

    Nothing below the first part of such a path is a page: a misspelt address of the API stays a problem in JSON.
    """
    routes = APIRouter(include_in_schema=False)
    if not (folder / "index.html").is_file():
        routes.add_api_route("/", _say_that_it_is_not_built)
        return routes
    reserved = {_first_part(path) for path in taken} - {""}

    async def as_page(request: Request, response: Response) -> None:
        if _first_part(request.scope["path"]) in reserved:
            raise HTTPException(404)
        response.headers.update({"Cache-Control": "no-cache", "Content-Security-Policy": CONTENT_SECURITY_POLICY})

    assets, pages = APIRouter(dependencies=[Depends(_as_asset)]), APIRouter(dependencies=[Depends(as_page)])
    assets.frontend(ASSETS, directory=folder / "assets", fallback=None)
    pages.frontend("/", directory=folder, fallback="index.html")
    routes.include_router(assets)
    routes.include_router(pages)
    return routes


async def _as_asset(response: Response) -> None:
    response.headers["Cache-Control"] = "public, max-age=31536000, immutable"


async def _say_that_it_is_not_built() -> Response:
    return PlainTextResponse(_NOT_BUILT, 404)


def _first_part(path: str) -> str:
    return path.lstrip("/").partition("/")[0]
