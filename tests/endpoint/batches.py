"""The batch API (/v1/files, /v1/batches): files kept in memory, batches answered when they are let."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from tests.endpoint.server import Request

Line = Callable[[dict[str, Any], str], tuple[int, Any]]
_NEXT = {"validating": "in_progress", "in_progress": "finalizing"}
ENDED = ("completed", "failed", "expired", "cancelled")


class Batches:
    """`hold`: batches stay as they are until it is False; else each look at one takes it a state further.

    `outcome`: completed, failed (as it is validated), expired or cancelled. Of a batch that expired or was cancelled the
    first half of the lines is answered, as OpenAI does with what was ready in time. `error`: code and message of one
    that failed. `word`: what all are said to be instead of what they are.
    """

    def __init__(self) -> None:
        self.hold = False
        self.word: str | None = None
        self.outcome = "completed"
        self.error = ("invalid_json_line", "not JSON")
        self.files: dict[str, bytes] = {}
        self.names: dict[str, str] = {}
        self.made: dict[str, dict[str, Any]] = {}
        self._numbers = 0

    def handle(self, request: Request, line: Line) -> tuple[int, bytes]:
        """(status, body) of a request to /files or /batches."""
        url = urlsplit(request.path)
        parts = [part for part in url.path.split("/") if part]
        parts = parts[parts.index(request.kind) + 1 :]
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        if request.kind == "files":
            return self._files(request, parts, query)
        if request.method == "POST" and not parts:
            if request.body["input_file_id"] not in self.files:
                return _error(400, "No such file")
            return 200, json.dumps(self._create(request.body)).encode()
        if request.method == "GET" and not parts:
            return 200, _page(list(self.made.values())[::-1], query)
        batch = self.made.get(parts[0])
        if batch is None:
            return _error(404, f"No such object: {parts[0]}")
        if parts[1:] == ["cancel"]:
            if batch["status"] in ENDED:
                return _error(400, f"Cannot cancel a batch with status '{batch['status']}'.")
            batch["status"] = "cancelling"
        elif not self.hold and batch["status"] not in ENDED:
            self._step(batch, line)
        return 200, json.dumps(batch | ({"status": self.word} if self.word else {})).encode()

    def _files(self, request: Request, parts: list[str], query: dict[str, str]) -> tuple[int, bytes]:
        if request.method == "POST":
            content, name = _uploaded(request)
            return 200, json.dumps(self._file(self._keep(content, name))).encode()
        if not parts:
            return 200, _page([self._file(name) for name in self.files], query)
        if parts[0] not in self.files:
            return _error(404, f"No such object: {parts[0]}")
        if request.method == "DELETE":
            del self.files[parts[0]]
            return 200, json.dumps({"id": parts[0], "object": "file", "deleted": True}).encode()
        if parts[1:] == ["content"]:
            return 200, self.files[parts[0]]
        return 200, json.dumps(self._file(parts[0])).encode()

    def _file(self, name: str) -> dict[str, Any]:
        file = {"id": name, "object": "file", "bytes": len(self.files[name]), "created_at": int(time.time())}
        return {**file, "filename": self.names[name], "purpose": "batch"}

    def _create(self, body: dict[str, Any]) -> dict[str, Any]:
        self._numbers += 1
        name = f"batch_{self._numbers}"
        lines = self.files[body["input_file_id"]].decode().splitlines()
        self.made[name] = {
            "id": name,
            "object": "batch",
            "endpoint": body["endpoint"],
            "input_file_id": body["input_file_id"],
            "completion_window": body["completion_window"],
            "metadata": body.get("metadata"),
            "status": "validating",
            "created_at": int(time.time()),
            "output_file_id": None,
            "error_file_id": None,
            "errors": None,
            "request_counts": {"total": len(lines), "completed": 0, "failed": 0},
        }
        return self.made[name]

    def _step(self, batch: dict[str, Any], line: Line) -> None:
        if batch["status"] == "cancelling":
            self._finish(batch, line, "cancelled")
        elif batch["status"] == "finalizing" or self.outcome == "failed":
            self._finish(batch, line, self.outcome)
        else:
            batch["status"] = _NEXT[batch["status"]]

    def _finish(self, batch: dict[str, Any], line: Line, outcome: str) -> None:
        batch["status"] = outcome
        if outcome == "failed":
            code, message = self.error
            batch["errors"] = {"object": "list", "data": [{"code": code, "message": message, "line": 1}]}
            return
        good, bad = [], []
        lines = [json.loads(text) for text in self.files[batch["input_file_id"]].decode().splitlines()]
        ready = len(lines) if outcome == "completed" else len(lines) // 2
        for number, request in enumerate(lines):
            result = {"id": f"batch_req_{number}", "custom_id": request["custom_id"], "response": None, "error": None}
            if number >= ready:
                code = f"batch_{outcome}"
                bad.append({**result, "error": {"code": code, "message": "This request could not be executed."}})
                continue
            status, body = line(request["body"], request["custom_id"])
            result["response"] = {"status_code": status, "request_id": f"req_{number}", "body": body}
            (good if status == 200 else bad).append(result)
        # Batches come back in no order that may be relied on.
        good.reverse()
        batch["output_file_id"] = self._keep(_lines(good), "output.jsonl") if good else None
        batch["error_file_id"] = self._keep(_lines(bad), "error.jsonl") if bad else None
        batch["request_counts"] = {"total": len(lines), "completed": len(good), "failed": len(bad)}

    def _keep(self, content: bytes, filename: str) -> str:
        self._numbers += 1
        name = f"file-{self._numbers}"
        self.files[name] = content
        self.names[name] = filename
        return name


def _lines(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def _page(items: list[dict[str, Any]], query: dict[str, str]) -> bytes:
    """A page of a list, as `limit` and `after` (the id of the last one seen) have it."""
    ids = [item["id"] for item in items]
    start = ids.index(query["after"]) + 1 if query.get("after") in ids else 0
    end = start + int(query.get("limit", 20))
    return json.dumps({"object": "list", "data": items[start:end], "has_more": end < len(items)}).encode()


def _error(status: int, message: str) -> tuple[int, bytes]:
    return status, json.dumps({"error": {"message": message, "type": "invalid_request_error", "code": None}}).encode()


def _uploaded(request: Request) -> tuple[bytes, str]:
    """Content and name of the part called ``file`` of a multipart form."""
    boundary = re.search(r'boundary="?([^";]+)', request.headers["content-type"])
    assert boundary is not None, "an upload without boundary"
    for part in request.data.split(b"--" + boundary[1].encode()):
        head, _, content = part.partition(b"\r\n\r\n")
        if b'name="file"' in head:
            name = re.search(rb'filename="([^"]*)"', head)
            return content.removesuffix(b"\r\n"), name[1].decode() if name else "file"
    raise ValueError("an upload without file")
