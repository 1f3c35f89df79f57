"""How a browser gets its session: by token, by password, or at the organisation's OpenID Connect provider."""

import logging
import secrets
from typing import Any

import anyio
from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Route

from pg_graphrag.beside.serve.callers import SESSION_SECONDS, Caller, Provider
from pg_graphrag.beside.serve.guard import PASSWORD_PATH, bearer_token, cookie_name, cookie_of, printable
from pg_graphrag.beside.serve.http_errors import Refusal
from pg_graphrag.beside.serve.protocols import replies
from pg_graphrag.beside.serve.service import Service, address_of, caller_of

log = logging.getLogger("pg_graphrag.beside.serve")

# Seconds that a person has at the provider.
_SIGN_IN_SECONDS = 600
_MAX_PLACE = 2000


class PasswordRequest(BaseModel):
    """Name and password of a person."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=200)
    password: str = Field(min_length=1, max_length=1000)


def router(service: Service) -> APIRouter:
    """Return the routes of sessions. The guard lets those under ``/api/sign-in`` through without a caller."""
    routes = APIRouter(prefix="/api", tags=["session"])
    callers = service.callers
    # A password takes 64 MB and a processor for a while: one at a time.
    one_at_a_time = anyio.CapacityLimiter(1)

    @routes.get("/sign-in", response_model=replies.SignIn)
    def ways() -> dict[str, Any]:
        """Say how one may sign in: by `password`, and at a provider of this name; by token always."""
        return {
            "password": bool(callers.by_password),
            "provider": callers.provider.name if callers.provider is not None else None,
        }

    @routes.post("/session", response_model=replies.Begun)
    async def begin_session(request: Request, response: Response) -> dict[str, str]:
        """Give a browser that shows a token a cookie in its place. A session of the same caller goes on."""
        if bearer_token(request.headers) is None:
            # Who a proxy vouches for, it vouches for with every request.
            raise Refusal(400, "28000", "a session begins with a token", "Send the header Authorization: Bearer TOKEN.")
        caller = await caller_of(request)
        session = callers.session(cookie_of(request.headers, service.settings) or "")
        if session is not None and session.caller == caller:
            return {"csrf": session.csrf}
        return {"csrf": _begin(service, caller, response)}

    @routes.delete("/session")
    def end_session(request: Request, response: Response) -> dict[str, str]:
        """End a browser's session."""
        name = cookie_name(service.settings)
        callers.end_session(cookie_of(request.headers, service.settings) or "")
        response.delete_cookie(name, path="/")
        return {"status": "ended"}

    @routes.post(PASSWORD_PATH.removeprefix("/api"), response_model=replies.Begun)
    async def by_password(credentials: PasswordRequest, response: Response) -> dict[str, str]:
        """Begin a session by name and password."""
        caller = await anyio.to_thread.run_sync(
            callers.by_name, credentials.name, credentials.password, limiter=one_at_a_time
        )
        if caller is None:
            raise Refusal(401, "28P01", "name or password is wrong", "The server's operator can set a new one.")
        return {"csrf": _begin(service, caller, response)}

    return routes


def with_provider(service: Service, provider: Provider) -> Starlette:
    """Return the application that sends people to the provider, and takes them back: OpenID Connect's code flow with PKCE."""
    from authlib.integrations.starlette_client import OAuth, OAuthError
    from httpx2 import HTTPError
    from joserfc.errors import JoseError
    from starlette.middleware.sessions import SessionMiddleware

    # The last three: what answers at the issuer's address is no provider.
    failures = (OAuthError, JoseError, HTTPError, ValueError, RuntimeError, KeyError)
    oauth = OAuth()
    oauth.register(
        "provider",
        client_id=provider.client_id,
        client_secret=provider.client_secret,
        server_metadata_url=f"{provider.issuer}/.well-known/openid-configuration",
        client_kwargs={"scope": "openid profile email", "code_challenge_method": "S256"},
    )
    settings = service.settings
    is_secure = _is_secure(service)

    def refused(reason: str, error: object) -> Response:
        # The page says it in words; what the provider said is for the operator.
        log.warning("sign-in at %s: %s: %s", provider.issuer, type(error).__name__, printable(str(error)))
        return RedirectResponse(f"/#refused={reason}", 303)

    async def begin(request: Request) -> Response:
        # Where in the page one was: it is only ever put behind "/#", and never a token.
        place = request.query_params.get("place", "")[:_MAX_PLACE]
        request.session["place"] = place if place.startswith("/") else ""
        origin = address_of(request, settings)
        try:
            reply: Response = await oauth.provider.authorize_redirect(request, f"{origin}/api/sign-in/provider/back")
        except failures as error:
            return refused("failed", error)
        return reply

    async def back(request: Request) -> Response:
        place = request.session.get("place", "")
        try:
            token = await oauth.provider.authorize_access_token(request)
        except failures as error:
            return refused("failed", error)
        finally:
            request.session.clear()
        claims = token["userinfo"]
        identity = claims.get(provider.claim)
        is_verified = provider.claim != "email" or claims.get("email_verified") is True
        caller = service.callers.by_identity.get(str(identity)) if identity and is_verified else None
        if caller is None:
            return refused("unknown", f"{provider.claim} of no caller" if is_verified else "email is not verified")
        reply = RedirectResponse(f"/#{place}", 303)
        _begin(service, caller, reply)
        return reply

    return Starlette(
        routes=[Route("/begin", begin), Route("/back", back)],
        middleware=[
            Middleware(
                SessionMiddleware,
                secret_key=secrets.token_urlsafe(32),
                session_cookie=f"{cookie_name(settings)}_provider",
                max_age=_SIGN_IN_SECONDS,
                path="/api/sign-in/provider",
                # The provider leads back here by a link of its own.
                same_site="lax",
                https_only=is_secure,
            )
        ],
    )


def _begin(service: Service, caller: Caller, response: Response) -> str:
    """Begin a session, give its cookie to the browser; return its CSRF token."""
    cookie, session = service.callers.begin_session(caller)
    response.set_cookie(
        cookie_name(service.settings),
        cookie,
        max_age=SESSION_SECONDS,
        httponly=True,
        samesite="strict",
        secure=_is_secure(service),
        path="/",
    )
    return session.csrf


def _is_secure(service: Service) -> bool:
    return any(origin.startswith("https:") for origin in service.settings.origins)
