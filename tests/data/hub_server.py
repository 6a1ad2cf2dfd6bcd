"""A server on this machine that speaks the part of the Hugging Face Hub's HTTP API that push and pull use.

Repositories are dataset repositories with commits, branches and tags; files lie in memory. A test can break
it on purpose: refuse after a number of uploads, list paths that leave the repository, damage a file.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

REGULAR_SUFFIXES = (".md", ".json", ".txt")
PAGE = 1000


@dataclass(frozen=True)
class StoredFile:
    """One file of a commit."""

    data: bytes
    lfs: bool

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    @property
    def git_oid(self) -> str:
        return hashlib.sha1(b"blob %d\0" % len(self.data) + self.data).hexdigest()

    def entry(self, path: str) -> dict[str, Any]:
        found: dict[str, Any] = {"type": "file", "path": path, "size": len(self.data), "oid": self.git_oid}
        if self.lfs:
            found["lfs"] = {"oid": self.sha256, "size": len(self.data), "pointerSize": 130}
        return found


@dataclass
class Repository:
    """Commits by id, each with its files; branches and tags name commits."""

    private: bool
    commits: dict[str, dict[str, StoredFile]] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)
    branches: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)

    def commit(self, branch: str, files: dict[str, StoredFile], message: str) -> str:
        self.messages.append(message)
        seed = f"{len(self.commits)} {message} {sorted((p, f.git_oid) for p, f in files.items())}"
        oid = hashlib.sha1(seed.encode()).hexdigest()
        self.commits[oid] = files
        self.branches[branch] = oid
        return oid

    def resolve(self, revision: str) -> str | None:
        for names in (self.branches, self.tags):
            if revision in names:
                return names[revision]
        return revision if revision in self.commits else None


class HubServer:
    """The server and what tests may look at and change.

    Attributes:
        token: the only token with rights.
        uploads: paths of PUT requests that were served, as sha256.
        requests: (method, path) of all requests.
        fail_after_uploads: from this many uploads on, the server answers 500; None never.
        fail_commits_after: from this many commits on, the server answers 500; None never.
        damaged: paths whose content is served with its first byte changed.
        busy: so many further requests are answered 503.
    """

    def __init__(self, token: str = "hf_rightTokenForTests") -> None:
        self.token = token
        self.repositories: dict[str, Repository] = {}
        self.blobs: dict[str, bytes] = {}
        self.uploads: list[str] = []
        self.requests: list[tuple[str, str]] = []
        self.downloads: list[str] = []
        self.fail_after_uploads: int | None = None
        self.fail_commits_after: int | None = None
        self.damaged: set[str] = set()
        self.busy = 0
        self.lock = threading.RLock()
        handler = type("Handler", (_Handler,), {"hub": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> HubServer:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def files(self, repo_id: str, revision: str = "main") -> dict[str, StoredFile]:
        """Files of a repository at a revision."""
        repository = self.repositories[repo_id]
        oid = repository.resolve(revision)
        assert oid is not None
        return repository.commits[oid]

    def add_file(self, repo_id: str, path: str, data: bytes) -> None:
        """Commit one file past every check, as a hostile repository would hold it."""
        repository = self.repositories[repo_id]
        files = {**self.files(repo_id), path: StoredFile(data, lfs=True)}
        repository.commit("main", files, f"add {path!r}")


class _RefusedError(Exception):
    def __init__(self, status: int, message: str, code: str = "") -> None:
        super().__init__(message)
        self.status, self.code = status, code


class _Handler(BaseHTTPRequestHandler):
    hub: HubServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._serve("GET")

    def do_HEAD(self) -> None:
        self._serve("HEAD")

    def do_POST(self) -> None:
        self._serve("POST")

    def do_PUT(self) -> None:
        self._serve("PUT")

    def do_DELETE(self) -> None:
        self._serve("DELETE")

    def _serve(self, method: str) -> None:
        url = urlsplit(self.path)
        path = unquote(url.path)
        length = int(self.headers.get("Content-Length") or 0)
        chunked = "chunked" in (self.headers.get("Transfer-Encoding") or "")
        body = self._chunks() if chunked else self.rfile.read(length)
        with self.hub.lock:
            self.hub.requests.append((method, path))
            try:
                if self.hub.busy:
                    self.hub.busy -= 1
                    raise _RefusedError(503, "busy for the test")
                for known_method, pattern, function in ROUTES:
                    found = re.fullmatch(pattern, path)
                    if known_method == ("GET" if method == "HEAD" else method) and found:
                        function(self, body, parse_qs(url.query), *found.groups())
                        return
                raise _RefusedError(404, f"no route {method} {path}")
            except _RefusedError as refused:
                headers = {"X-Error-Code": refused.code} if refused.code else {}
                headers["X-Error-Message"] = str(refused)
                self._json({"error": str(refused)}, status=refused.status, headers=headers)

    def _chunks(self) -> bytes:
        pieces = []
        while size := int(self.rfile.readline().strip() or b"0", 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(pieces)

    def _answer(self, data: bytes, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if "Content-Length" not in headers:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _json(self, value: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self._answer(
            json.dumps(value).encode(), status, {"Content-Type": "application/json", **(headers or {})}
        )

    def _authorised(self) -> bool:
        given = self.headers.get("Authorization", "")
        if given and given != f"Bearer {self.hub.token}":
            raise _RefusedError(401, "Invalid credentials in Authorization header")
        return bool(given)

    def _require_token(self) -> None:
        if not self._authorised():
            raise _RefusedError(401, "Invalid username or password.")

    def _repository(self, repo_id: str) -> Repository:
        allowed = self._authorised()
        found = self.hub.repositories.get(repo_id)
        if found is None or (found.private and not allowed):
            raise _RefusedError(404 if allowed else 401, "Repository not found", "RepoNotFound")
        return found

    def _commit_of(self, repo_id: str, revision: str) -> tuple[str, dict[str, StoredFile]]:
        repository = self._repository(repo_id)
        oid = repository.resolve(revision)
        if oid is None:
            raise _RefusedError(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return oid, repository.commits[oid]

    def create(self, body: bytes, query: Any) -> None:
        self._require_token()
        asked = json.loads(body)
        repo_id = f"{asked.get('organization') or 'me'}/{asked['name']}"
        if repo_id in self.hub.repositories:
            message = "You already created this dataset repo"
            self._json({"error": message, "url": f"{self.hub.url}/datasets/{repo_id}"}, status=409)
            return
        private = asked.get("visibility") == "private" or bool(asked.get("private"))
        repository = self.hub.repositories[repo_id] = Repository(private=private)
        repository.commit(
            "main", {".gitattributes": StoredFile(b"*.lance lfs\n", lfs=False)}, "initial commit"
        )
        self._json({"url": f"{self.hub.url}/datasets/{repo_id}", "id": repo_id, "name": repo_id})

    def validate_yaml(self, body: bytes, query: Any) -> None:
        self._json({"errors": [], "warnings": []})

    def whoami(self, body: bytes, query: Any) -> None:
        self._require_token()
        self._json({"name": "me", "type": "user", "orgs": []})

    def info(self, body: bytes, query: Any, repo_id: str, revision: str | None = None) -> None:
        oid, files = self._commit_of(repo_id, revision or "main")
        self._json(
            {
                "id": repo_id,
                "sha": oid,
                "private": self.hub.repositories[repo_id].private,
                "siblings": [{"rfilename": path} for path in files],
                "tags": [],
                "downloads": 0,
                "likes": 0,
            }
        )

    def refs(self, body: bytes, query: Any, repo_id: str) -> None:
        repository = self._repository(repo_id)
        self._json(
            {
                "branches": _refs("heads", repository.branches),
                "tags": _refs("tags", repository.tags),
                "converts": [],
            }
        )

    def tree(self, body: bytes, query: Any, repo_id: str, revision: str, folder: str | None = None) -> None:
        _, files = self._commit_of(repo_id, revision)
        start = f"{folder}/" if folder else ""
        inside = {path: file for path, file in files.items() if path.startswith(start)}
        recursive = query.get("recursive", ["False"])[0].lower() in ("true", "1")
        if folder and not inside:
            raise _RefusedError(404, f"{folder} does not exist", "EntryNotFound")
        entries = []
        folders: set[str] = set()
        for path, file in sorted(inside.items()):
            parts = path[len(start) :].split("/")
            for depth in range(1, len(parts) if recursive else min(len(parts), 2)):
                name = start + "/".join(parts[:depth])
                if name not in folders:
                    folders.add(name)
                    entries.append({"type": "directory", "path": name, "size": 0, "oid": "0" * 40})
            if recursive or len(parts) == 1:
                entries.append(file.entry(path))
        first = int(query.get("cursor", ["0"])[0])
        headers = {}
        if first + PAGE < len(entries):
            again = f"{self.hub.url}{self.path.split('?')[0]}?recursive={recursive}&cursor={first + PAGE}"
            headers["Link"] = f'<{again}>; rel="next"'
        self._json(entries[first : first + PAGE], headers=headers)

    def paths_info(self, body: bytes, query: Any, repo_id: str, revision: str) -> None:
        _, files = self._commit_of(repo_id, revision)
        text = body.decode()
        asked = json.loads(text)["paths"] if text.startswith("{") else parse_qs(text).get("paths", [])
        entries: list[dict[str, Any]] = []
        for path in asked:
            if path in files:
                entries.append(files[path].entry(path))
            elif any(name.startswith(f"{path}/") for name in files):
                entries.append({"type": "directory", "path": path, "size": 0, "oid": "0" * 40})
        self._json(entries)

    def preupload(self, body: bytes, query: Any, repo_id: str, revision: str) -> None:
        self._require_token()
        _, files = self._commit_of(repo_id, revision)
        self._json(
            {
                "files": [
                    {
                        "path": file["path"],
                        "uploadMode": "regular" if file["path"].endswith(REGULAR_SUFFIXES) else "lfs",
                        "shouldIgnore": False,
                        "oid": files[file["path"]].git_oid if file["path"] in files else None,
                    }
                    for file in json.loads(body)["files"]
                ]
            }
        )

    def lfs_batch(self, body: bytes, query: Any, repo_id: str) -> None:
        self._require_token()
        self._repository(repo_id)
        objects = []
        for asked in json.loads(body)["objects"]:
            entry: dict[str, Any] = {"oid": asked["oid"], "size": asked["size"]}
            if asked["oid"] not in self.hub.blobs:
                href = f"{self.hub.url}/upload/{asked['oid']}"
                entry["actions"] = {"upload": {"href": href}, "verify": {"href": f"{self.hub.url}/verify"}}
            objects.append(entry)
        self._json({"transfer": "basic", "objects": objects})

    def upload(self, body: bytes, query: Any, oid: str) -> None:
        limit = self.hub.fail_after_uploads
        if limit is not None and len(self.hub.uploads) >= limit:
            raise _RefusedError(403, "the upload was cut off for the test")
        assert hashlib.sha256(body).hexdigest() == oid
        self.hub.blobs[oid] = body
        self.hub.uploads.append(oid)
        self._answer(b"", 200, {})

    def verify(self, body: bytes, query: Any) -> None:
        self._json({})

    def commit(self, body: bytes, query: Any, repo_id: str, revision: str) -> None:
        self._require_token()
        oid, files = self._commit_of(repo_id, revision)
        repository = self.hub.repositories[repo_id]
        limit = self.hub.fail_commits_after
        if limit is not None and len(repository.commits) - 1 >= limit:
            raise _RefusedError(403, "the commit was refused for the test")
        lines = [json.loads(line) for line in body.splitlines() if line.strip()]
        changed = dict(files)
        summary = ""
        for line in lines:
            value = line["value"]
            if line["key"] == "header":
                summary = value["summary"]
                if value.get("parentCommit") not in (None, oid):
                    raise _RefusedError(412, "A commit has happened since. Please refresh and try again.")
            elif line["key"] == "file":
                changed[value["path"]] = StoredFile(base64.b64decode(value["content"]), lfs=False)
            elif line["key"] == "lfsFile":
                changed[value["path"]] = StoredFile(self.hub.blobs[value["oid"]], lfs=True)
            elif line["key"] == "deletedFile":
                del changed[value["path"]]
        new = repository.commit(unquote(revision), changed, summary)
        self._json({"commitUrl": f"{self.hub.url}/datasets/{repo_id}/commit/{new}", "commitOid": new})

    def create_tag(self, body: bytes, query: Any, repo_id: str, revision: str) -> None:
        self._require_token()
        oid, _ = self._commit_of(repo_id, revision)
        asked = json.loads(body)
        tags = self.hub.repositories[repo_id].tags
        if asked["tag"] in tags:
            raise _RefusedError(409, f"Tag reference exists already: {asked['tag']}")
        tags[asked["tag"]] = oid
        self._json({"tag": asked["tag"]})

    def delete_tag(self, body: bytes, query: Any, repo_id: str, tag: str) -> None:
        self._require_token()
        if self._repository(repo_id).tags.pop(tag, None) is None:
            raise _RefusedError(404, f"no tag {tag}", "RevisionNotFound")
        self._json({})

    def resolve(self, body: bytes, query: Any, repo_id: str, revision: str, path: str) -> None:
        oid, files = self._commit_of(repo_id, revision)
        if path not in files:
            raise _RefusedError(404, f"Entry not found: {path}", "EntryNotFound")
        file = files[path]
        data = file.data
        if path in self.hub.damaged:
            data = bytes([data[0] ^ 1]) + data[1:]
        etag = file.sha256 if file.lfs else file.git_oid
        headers = {
            "ETag": f'"{etag}"',
            "X-Repo-Commit": oid,
            "Accept-Ranges": "bytes",
            "Last-Modified": formatdate(0, usegmt=True),
        }
        if file.lfs:
            headers |= {"X-Linked-Etag": f'"{etag}"', "X-Linked-Size": str(len(data))}
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        status = 200
        if asked and self.command != "HEAD":
            first, last = asked.groups()
            start = int(first) if first else max(0, len(data) - int(last))
            stop = min(int(last) + 1 if first and last else len(data), len(data))
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(data)}"
            data, status = data[start:stop], 206
        if self.command == "HEAD":
            headers["Content-Length"] = str(len(data))
        else:
            self.hub.downloads.append(path)
        self._answer(data, status, headers)


def _refs(kind: str, names: dict[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "ref": f"refs/{kind}/{name}", "targetCommit": oid} for name, oid in names.items()]


_REPO = r"([^/]+/[^/]+)"
ROUTES: list[tuple[str, str, Any]] = [
    ("POST", r"/api/repos/create", _Handler.create),
    ("POST", r"/api/validate-yaml", _Handler.validate_yaml),
    ("GET", r"/api/whoami-v2", _Handler.whoami),
    ("GET", rf"/api/datasets/{_REPO}/refs", _Handler.refs),
    ("GET", rf"/api/datasets/{_REPO}/revision/([^/]+)", _Handler.info),
    ("GET", rf"/api/datasets/{_REPO}/tree/([^/]+)(?:/(.+?))?/?", _Handler.tree),
    ("POST", rf"/api/datasets/{_REPO}/paths-info/([^/]+)", _Handler.paths_info),
    ("POST", rf"/api/datasets/{_REPO}/preupload/([^/]+)", _Handler.preupload),
    ("POST", rf"/api/datasets/{_REPO}/commit/([^/]+)", _Handler.commit),
    ("POST", rf"/api/datasets/{_REPO}/tag/([^/]+)", _Handler.create_tag),
    ("DELETE", rf"/api/datasets/{_REPO}/tag/([^/]+)", _Handler.delete_tag),
    ("GET", rf"/api/datasets/{_REPO}", _Handler.info),
    ("POST", rf"/datasets/{_REPO}\.git/info/lfs/objects/batch", _Handler.lfs_batch),
    ("PUT", r"/upload/([0-9a-f]{64})", _Handler.upload),
    ("POST", r"/verify", _Handler.verify),
    ("GET", rf"/datasets/{_REPO}/resolve/([^/]+)/(.+)", _Handler.resolve),
]
