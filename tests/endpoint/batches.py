"""The batch API (/v1/files, /v1/batches): files kept in memory, batches answered when they are let."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.endpoint.server import Request

Line = Callable[[dict[str, Any], str], tuple[int, Any]]


class Batches:
    """`hold`: batches stay in progress until it is False. `outcome`: completed, failed, expired or cancelled.

    Of an expired batch the first half of the lines is answered, as OpenAI does with what was ready in time.
    """

    def __init__(self) -> None:
        self.hold = False
        self.outcome = "completed"
        self.files: dict[str, bytes] = {}
        self.made: dict[str, dict[str, Any]] = {}
        self._numbers = 0

    def handle(self, request: Request, line: Line) -> tuple[int, bytes]:
        """(status, body) of a request to /files or /batches."""
        parts = [part for part in request.path.partition("?")[0].split("/") if part]
        parts = parts[parts.index(request.kind) + 1 :]
        if request.kind == "files":
            return self._files(request, parts)
        if request.method == "POST" and not parts:
            return 200, json.dumps(self._create(request.body)).encode()
        if request.method == "GET" and not parts:
            return 200, json.dumps({"object": "list", "data": list(self.made.values()), "has_more": False}).encode()
        batch = self.made.get(parts[0])
        if batch is None:
            return _missing(parts[0])
        if parts[1:] == ["cancel"]:
            batch["status"] = "cancelled"
        elif batch["status"] == "in_progress" and not self.hold:
            self._finish(batch, line)
        return 200, json.dumps(batch).encode()

    def _files(self, request: Request, parts: list[str]) -> tuple[int, bytes]:
        if request.method == "POST":
            content = _uploaded(request)
            name = self._keep(content)
            made = {"id": name, "object": "file", "bytes": len(content), "created_at": int(time.time())}
            return 200, json.dumps({**made, "filename": "batch.jsonl", "purpose": "batch"}).encode()
        if not parts or parts[0] not in self.files:
            return _missing(parts[0] if parts else "")
        if request.method == "DELETE":
            del self.files[parts[0]]
            return 200, json.dumps({"id": parts[0], "object": "file", "deleted": True}).encode()
        if parts[1:] == ["content"]:
            return 200, self.files[parts[0]]
        return 200, json.dumps({"id": parts[0], "object": "file", "bytes": len(self.files[parts[0]])}).encode()

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
            "status": "in_progress",
            "created_at": int(time.time()),
            "output_file_id": None,
            "error_file_id": None,
            "errors": None,
            "request_counts": {"total": len(lines), "completed": 0, "failed": 0},
        }
        return self.made[name]

    def _finish(self, batch: dict[str, Any], line: Line) -> None:
        batch["status"] = self.outcome
        if self.outcome == "failed":
            batch["errors"] = {
                "object": "list",
                "data": [{"code": "invalid_json_line", "message": "not JSON", "line": 1}],
            }
        if self.outcome not in ("completed", "expired"):
            return
        good, bad = [], []
        lines = [json.loads(text) for text in self.files[batch["input_file_id"]].decode().splitlines()]
        ready = len(lines) if self.outcome == "completed" else len(lines) // 2
        for number, one in enumerate(lines):
            made = {"id": f"batch_req_{number}", "custom_id": one["custom_id"], "response": None, "error": None}
            if number >= ready:
                bad.append(
                    {**made, "error": {"code": "batch_expired", "message": "This request could not be executed."}}
                )
                continue
            status, body = line(one["body"], one["custom_id"])
            made["response"] = {"status_code": status, "request_id": f"req_{number}", "body": body}
            (good if status == 200 else bad).append(made)
        # Batches come back in no order that may be relied on.
        good.reverse()
        batch["output_file_id"] = self._keep(_lines(good)) if good else None
        batch["error_file_id"] = self._keep(_lines(bad)) if bad else None
        batch["request_counts"] = {"total": len(lines), "completed": len(good), "failed": len(bad)}

    def _keep(self, content: bytes) -> str:
        self._numbers += 1
        name = f"file-{self._numbers}"
        self.files[name] = content
        return name


def _lines(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def _missing(name: str) -> tuple[int, bytes]:
    return 404, json.dumps({"error": {"message": f"No such object: {name}", "code": "not_found"}}).encode()


def _uploaded(request: Request) -> bytes:
    """The part called ``file`` of a multipart form."""
    boundary = re.search(r'boundary="?([^";]+)', request.headers["content-type"])
    assert boundary is not None, "an upload without boundary"
    for part in request.data.split(b"--" + boundary[1].encode()):
        head, _, content = part.partition(b"\r\n\r\n")
        if b'name="file"' in head:
            return content.removesuffix(b"\r\n")
    raise ValueError("an upload without file")
