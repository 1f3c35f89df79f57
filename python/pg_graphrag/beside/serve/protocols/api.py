"""The HTTP API, under ``/api``. Its description is at ``/api/openapi.json``."""

import json
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Annotated, Any

import anyio
from fastapi import APIRouter, File, Path, Query, Request, UploadFile
from fastapi.encoders import jsonable_encoder
from fastapi.responses import Response, StreamingResponse
from pydantic_core import to_json

from pg_graphrag import __version__
from pg_graphrag.beside.client import Answer, Document, GraphRAG, results
from pg_graphrag.beside.serve import answers, first_screen, graph_parts, reading, uploads
from pg_graphrag.beside.serve.caller_database import Connection
from pg_graphrag.beside.serve.guard import SESSION
from pg_graphrag.beside.serve.http_errors import Refusal, refusal
from pg_graphrag.beside.serve.protocols import replies, requests
from pg_graphrag.beside.serve.service import Service, Who, begun, while_connected
from pg_graphrag.ground.bounds import MAX_QUESTION
from pg_graphrag.ground.mode_names import MODES

Corpus = Annotated[str | None, Query(max_length=200, description="Corpus; the server's own when left out.")]
Number = Annotated[int, Path(ge=1, lt=2**63)]
# What a picture may do where it is opened by itself: nothing. It is not read on behalf of other pages.
_PICTURE_HEADERS = {"content-security-policy": "default-src 'none'; sandbox", "content-disposition": "inline"}
_PICTURE_REPLY: dict[int | str, dict[str, Any]] = {
    200: {"content": {f"image/{kind}": {} for kind in reading.PICTURE_KINDS}}
}
# Seconds between two looks at the progress.
_PAUSE = 1.0


def event(name: str, data: Any) -> bytes:
    """Return a server-sent event."""
    return f"event: {name}\ndata: {json.dumps(jsonable_encoder(data), ensure_ascii=False)}\n\n".encode()


def events(body: AsyncIterator[bytes]) -> StreamingResponse:
    """Return a stream of events. A proxy must not gather them."""
    return StreamingResponse(body, media_type="text/event-stream", headers={"x-accel-buffering": "no"})


def _json(value: Any) -> Response:
    """Return a large reply. FastAPI's own way checks every value first, which takes longer than the search by bm25."""
    return Response(to_json(value), media_type="application/json")


class _Events(StreamingResponse):
    media_type = "text/event-stream"


def _of(model: Any) -> dict[str, Any]:
    """Return what describes the reply of a route, and checks nothing on the way."""
    return {"response_model": None, "responses": {200: {"model": model}}}


def router(service: Service) -> APIRouter:
    """Return the routes of the API."""
    api = APIRouter(prefix="/api")
    limits = service.settings.limits

    @api.get("/session", tags=["session"], **_of(replies.Session))
    def session(request: Request, caller: Who) -> dict[str, Any]:
        """Say who calls, what he may, and what the server is. Of a browser's session also its CSRF token."""
        own = request.scope.get(SESSION)
        return {
            "name": caller.name,
            "may": sorted(caller.rights),
            "corpus": service.settings.corpus,
            "modes": list(MODES),
            "csrf": own.csrf if own is not None else None,
            "version": __version__,
            "max_upload": limits.upload,
            "max_question": MAX_QUESTION,
        }

    @api.get("/corpora", tags=["corpora"], **_of(list[replies.CorpusName]))
    async def corpora(caller: Who) -> list[dict[str, Any]]:
        """List the corpora in which the caller sees a document; all of them for who may watch the database."""
        return [{"name": row["name"]} for row in await service.corpora(caller)]

    @api.get("/status", tags=["corpora"], **_of(replies.Status))
    async def status(caller: Who, corpus: Corpus = None) -> dict[str, Any]:
        """Say how far the indexing of a corpus is."""
        return await service.read(caller, corpus, reading.status)

    @api.get("/status/events", tags=["corpora"], response_class=_Events)
    async def status_events(caller: Who, corpus: Corpus = None) -> StreamingResponse:
        """Say it whenever it changes, as events `status`, until nothing is pending."""
        first = await service.read(caller, corpus, reading.status)

        async def body() -> AsyncIterator[bytes]:
            last, now = None, first
            try:
                with anyio.move_on_after(limits.ask_seconds):
                    while True:
                        if now != last:
                            last = now
                            yield event("status", now)
                        if not now["pending"]:
                            return
                        await anyio.sleep(_PAUSE)
                        now = await service.read(caller, corpus, reading.status)
            except Exception as error:
                yield event("error", refusal(error).problem)

        return events(body())

    @api.get("/documents", tags=["documents"], **_of(replies.Documents))
    async def documents(
        caller: Who,
        corpus: Corpus = None,
        text: Annotated[str | None, Query(max_length=200, description="Part of key or title.")] = None,
        after: Annotated[int, Query(ge=0, lt=2**63, description="`next` of the page before.")] = 0,
        limit: Annotated[int, Query(ge=1, le=reading.MAX_DOCUMENTS)] = 50,
        status: Annotated[str | None, Query(max_length=20, description="Only those of this status.")] = None,
        sort: Annotated[str, Query(description=f"One of {', '.join(reading.SORTS)}.")] = "number",
        descending: bool = False,
        offset: Annotated[int, Query(ge=0, le=10_000_000, description="How many come before, for other sorts.")] = 0,
    ) -> dict[str, Any]:
        """List documents, without their text."""
        if sort not in reading.SORTS:
            raise Refusal(400, "22023", f"there is no sort {sort!r}", f"There are {', '.join(reading.SORTS)}.")
        filters: dict[str, Any] = {"status": status, "sort": sort, "is_descending": descending, "offset": offset}
        return await service.read(
            caller, corpus, lambda rag, c: reading.documents(c, rag.corpus, text, after, limit, **filters)
        )

    @api.get("/documents/{document_id}", tags=["documents"], **_of(replies.DocumentText))
    async def document(
        caller: Who,
        document_id: Number,
        corpus: Corpus = None,
        offset: Annotated[int, Query(ge=0, lt=2**31 - 1)] = 0,
        limit: Annotated[int, Query(ge=1, le=reading.MAX_CHARACTERS)] = reading.MAX_CHARACTERS,
    ) -> dict[str, Any]:
        """Return a document with its text; `next_offset` is where the rest of a long one goes on."""
        return await service.read(
            caller, corpus, lambda rag, c: reading.document(c, rag.corpus, document_id, offset, limit)
        )

    @api.post("/documents/{document_id}/place", tags=["documents"], **_of(replies.Place))
    async def place(caller: Who, document_id: Number, request: requests.PlaceRequest) -> dict[str, int | None]:
        """Say where a text begins in a document, in characters; null where it is not there."""
        (offset,) = await service.read(
            caller, request.corpus, lambda rag, c: reading.places(c, rag.corpus, [(document_id, request.text)])
        )
        return {"offset": offset}

    @api.get("/pictures/{picture_id}", tags=["documents"], responses=_PICTURE_REPLY, response_class=Response)
    async def picture(caller: Who, picture_id: Number, corpus: Corpus = None) -> Response:
        """Return a picture of a document: a PNG, JPEG, GIF or WebP."""
        media_type, content = await service.read(
            caller, corpus, lambda rag, c: reading.picture(c, rag.corpus, picture_id)
        )
        return Response(content, media_type=media_type, headers=_PICTURE_HEADERS)

    @api.post("/documents", tags=["documents"], **_of(replies.Inserted))
    async def insert(caller: Who, request: requests.InsertRequest) -> dict[str, Any]:
        """Insert documents, or replace those of the same key."""
        service.require(caller, "insert")
        new = [Document(**document.model_dump()) for document in request.documents]
        return asdict(await service.call(caller, request.corpus, lambda rag: rag.insert(new)))

    @api.delete("/documents/{document_id}", tags=["documents"], **_of(replies.Deleted))
    async def delete(caller: Who, document_id: Number, corpus: Corpus = None) -> dict[str, int]:
        """Delete a document, and with it what it said."""
        service.require(caller, "insert")

        def work(rag: GraphRAG, connection: Connection) -> int:
            return rag.delete(reading.document(connection, rag.corpus, document_id, 0, 1)["source_key"])

        return {"deleted": await service.read(caller, corpus, work)}

    @api.post("/documents/delete", tags=["documents"], **_of(replies.Deleted))
    async def delete_many(caller: Who, request: requests.DeleteRequest) -> dict[str, int]:
        """Delete documents by number, and with them what they said."""
        service.require(caller, "insert")

        def work(rag: GraphRAG, connection: Connection) -> int:
            return rag.delete(reading.keys(connection, rag.corpus, request.documents))

        return {"deleted": await service.read(caller, request.corpus, work)}

    @api.post("/documents/retry", tags=["documents"], **_of(replies.Queued))
    async def retry(caller: Who, request: requests.CorpusRequest) -> dict[str, int]:
        """Queue again what failed; returns how many jobs."""
        service.require(caller, "insert")
        return {"queued": await service.call(caller, request.corpus, lambda rag: rag.retry_failed())}

    @api.post("/documents/reindex", tags=["documents"], **_of(replies.Queued))
    async def reindex(caller: Who, request: requests.CorpusRequest) -> dict[str, int]:
        """Have workers index all documents again; returns how many."""
        service.require(caller, "insert")
        return {"queued": await service.call(caller, request.corpus, lambda rag: int(rag.call("reindex")))}

    @api.post("/upload", tags=["documents"], **_of(list[replies.Uploaded]))
    async def upload(
        caller: Who,
        files: Annotated[list[UploadFile], File(max_length=uploads.MAX_FILES)],
        connection: Request,
        corpus: Corpus = None,
        pictures: Annotated[
            bool | None, Query(description="Keep their pictures; the server's own when left out.")
        ] = None,
    ) -> list[dict[str, Any]]:
        """Insert the documents that files hold; says of each what came of it. Who leaves ends it after the current file."""
        service.require(caller, "insert")
        contents = [uploads.Upload(file.filename or "", await file.read()) for file in files]
        seconds = limits.ask_seconds
        options = uploads.options_of(service.settings, pictures)
        call = service.call(caller, corpus, lambda rag: uploads.insert(rag, contents, seconds, options), seconds)
        return await while_connected(connection, call)

    @api.get("/start", tags=["retrieval"], **_of(replies.Start))
    async def start(caller: Who, corpus: Corpus = None) -> dict[str, Any]:
        """Name what one can ask about first: themes, entities, related pairs; and say whether `rerank` is there."""
        return await service.read(caller, corpus, lambda rag, c: first_screen.offers(c, rag.corpus))

    @api.post("/search", tags=["retrieval"], **_of(replies.SearchReply))
    async def search(caller: Who, request: requests.SearchRequest, connection: Request) -> Response:
        """Find chunks, best first."""
        arguments = request.arguments()
        call = service.search(caller, request.corpus, request.query, **arguments)
        return _json({"results": await while_connected(connection, call)})

    @api.post("/context", tags=["retrieval"], **_of(replies.Context))
    async def context(caller: Who, request: requests.ContextRequest, connection: Request) -> Response:
        """Return what a language model would be given."""
        arguments = request.arguments()
        call = service.call(caller, request.corpus, lambda rag: rag.context(request.query, **arguments))
        return _json(await while_connected(connection, call))

    @api.post("/ask", tags=["retrieval"], response_class=_Events)
    async def ask(caller: Who, request: requests.AskRequest, connection: Request) -> StreamingResponse:
        """Answer a question: events `piece` {text}, then `answer` with citations, usage and context.

        What fails before the first has a status of its own; what fails later is an event `error`.
        """
        asked = service.ask(caller, request.corpus, request.question, request.arguments())
        items = await begun(connection, asked)

        async def body() -> AsyncIterator[bytes]:
            try:
                async for item in items:
                    if isinstance(item, Answer):
                        yield event("answer", answers.as_json(item))
                    else:
                        yield event("piece", {"text": item})
            except Exception as error:
                yield event("error", refusal(error).problem)

        return events(body())

    @api.post("/feedback", tags=["retrieval"], **_of(replies.Verdict))
    async def feedback(caller: Who, request: requests.FeedbackRequest) -> dict[str, str]:
        """Note a verdict in the caller's name; a later one on the same question replaces it."""
        verdict_fields = request.model_dump(exclude={"corpus", "question", "verdict"})
        await service.call(
            caller,
            request.corpus,
            lambda rag: rag.feedback(request.question, request.verdict, author=caller.name[:200], **verdict_fields),
        )
        return {"verdict": request.verdict}

    @api.get("/feedback", tags=["retrieval"], **_of(list[replies.NotedVerdict]))
    async def verdicts(
        caller: Who,
        corpus: Corpus = None,
        before: Annotated[int | None, Query(ge=1, lt=2**63, description="Only those with lower numbers.")] = None,
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
    ) -> list[dict[str, Any]]:
        """List verdicts, the latest first. For who may read `graphrag.answer_feedback`."""
        return await service.read(caller, corpus, lambda rag, c: reading.verdicts(c, rag.corpus, before, limit))

    @api.get("/graph", tags=["graph"], **_of(replies.Overview))
    async def overview(
        caller: Who,
        corpus: Corpus = None,
        limit: Annotated[int, Query(ge=1, le=graph_parts.MAX_NODES)] = 500,
        community: Annotated[int | None, Query(ge=1, lt=2**63)] = None,
        type: Annotated[
            str | None, Query(max_length=1000, description="Only of this type and in no community.")
        ] = None,
    ) -> dict[str, Any]:
        """Return the most connected entities, of the corpus or of a community, and what is among them."""
        return await service.read(
            caller, corpus, lambda rag, c: graph_parts.overview(c, rag.corpus, limit, community, type)
        )

    @api.get("/graph/map", tags=["graph"], **_of(replies.GraphMap))
    async def graph_map(
        caller: Who, corpus: Corpus = None, parent: Annotated[int | None, Query(ge=1, lt=2**63)] = None
    ) -> dict[str, Any]:
        """Return the graph as groups: communities, and types of what is in none, with how much connects them."""
        return await service.read(caller, corpus, lambda rag, c: graph_parts.map_of(c, rag.corpus, parent))

    @api.get("/graph/names", tags=["graph"], **_of(list[replies.NamedEntity]))
    async def names(
        caller: Who,
        text: Annotated[str, Query(min_length=1, max_length=1000)],
        corpus: Corpus = None,
        limit: Annotated[int, Query(ge=1, le=requests.MAX_TOP_K)] = 8,
    ) -> list[dict[str, Any]]:
        """Complete a part of an entity's name, rough spelling included; without a model."""
        return await service.read(caller, corpus, lambda rag, c: graph_parts.names(c, rag.corpus, text, limit))

    @api.get("/graph/communities", tags=["graph"], **_of(list[replies.CommunityRow]))
    async def communities(
        caller: Who,
        corpus: Corpus = None,
        parent: Annotated[int | None, Query(ge=1, lt=2**63)] = None,
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
    ) -> list[dict[str, Any]]:
        """List communities, the largest first."""
        return await service.read(caller, corpus, lambda rag, c: graph_parts.communities(c, rag.corpus, parent, limit))

    @api.get("/graph/communities/{number}", tags=["graph"], **_of(replies.CommunityRow))
    async def community(caller: Who, number: Number, corpus: Corpus = None) -> dict[str, Any]:
        """Return a community."""
        return await service.read(caller, corpus, lambda rag, c: graph_parts.community(c, rag.corpus, number))

    @api.get("/graph/entities", tags=["graph"], **_of(list[results.EntityResult]))
    async def entities(
        caller: Who,
        query: Annotated[str, Query(min_length=1, max_length=1000)],
        corpus: Corpus = None,
        top_k: Annotated[int, Query(ge=1, le=requests.MAX_TOP_K)] = 10,
    ) -> list[dict[str, Any]]:
        """Find entities, best first."""
        hits = await service.call(
            caller, corpus, lambda rag: rag.search_entities(query, top_k=top_k, low_level_keywords=[query])
        )
        return [asdict(hit) for hit in hits]

    @api.get("/graph/entities/{entity_id}", tags=["graph"], **_of(replies.EntityGraph))
    async def entity(
        caller: Who,
        entity_id: Number,
        corpus: Corpus = None,
        limit: Annotated[int, Query(ge=1, le=graph_parts.MAX_DESCRIBED)] = 60,
        depth: Annotated[int, Query(ge=1, le=3, description="Relationships on the way, at most.")] = 1,
    ) -> dict[str, Any]:
        """Return an entity with its strongest relationships."""
        return await service.read(caller, corpus, lambda rag, c: graph_parts.entity(rag, c, entity_id, limit, depth))

    @api.get("/graph/path", tags=["graph"], **_of(replies.PathGraph))
    async def path(
        caller: Who,
        source: Annotated[str, Query(min_length=1, max_length=1000)],
        target: Annotated[str, Query(min_length=1, max_length=1000)],
        corpus: Corpus = None,
    ) -> dict[str, Any]:
        """Return a shortest path between two entities, of at most 6 relationships."""
        return await service.read(caller, corpus, lambda rag, c: graph_parts.path(rag, c, source, target))

    @api.get("/curations", tags=["curation"], **_of(list[results.Curation]))
    async def curations(
        caller: Who,
        corpus: Corpus = None,
        before: Annotated[int | None, Query(ge=1, lt=2**63)] = None,
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
    ) -> list[dict[str, Any]]:
        """List what people changed, the latest first."""
        return await service.read(caller, corpus, lambda rag, c: reading.curations(c, rag.corpus, before, limit))

    @api.get("/curations/suggestions", tags=["curation"], **_of(list[results.MergeSuggestion]))
    async def suggestions(
        caller: Who, corpus: Corpus = None, limit: Annotated[int, Query(ge=1, le=200)] = 50
    ) -> list[dict[str, Any]]:
        """List entities that may be one, the likeliest first."""
        service.require(caller, "curate")
        return await service.call(caller, corpus, lambda rag: list(rag.call("suggest_merges", max_suggestions=limit)))

    @api.post("/curations", tags=["curation"], **_of(replies.CurationNumber))
    async def curate(caller: Who, request: requests.CurationRequest) -> dict[str, int]:
        """Change the graph; returns the number by which it can be undone."""
        service.require(caller, "curate")
        number = await service.call(
            caller, request.corpus, lambda rag: reading.curate(rag, request.kind, request.arguments)
        )
        return {"id": number}

    @api.delete("/curations/{number}", tags=["curation"], **_of(replies.CurationNumber))
    async def undo(caller: Who, number: Number, corpus: Corpus = None) -> dict[str, int]:
        """Undo a curation."""
        service.require(caller, "curate")
        await service.read(caller, corpus, lambda rag, c: reading.undo(rag, c, number))
        return {"id": number}

    return api
