"""What one credential file holds, and when it is believed.

Nothing of this module shows a secret in its `repr` or in an error.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from urllib.parse import urlsplit, urlunsplit

import msgspec
from msgspec import Struct

VERSION = 1
ENDING = ".json"
# A token may be a signed document; nothing honest is near this.
MAX_FILE_BYTES = 1 << 20
_IN_HEADER = re.compile(r"[\x21-\x7e]+").fullmatch
_DEFAULT_PORTS = {"http": 80, "https": 443}


class Client(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whom the authorization server takes us for.

    Attributes:
        client_secret: as it was given at a dynamic registration; one of the configuration is not kept here.
        client_secret_expires_at: seconds of the epoch; 0 is never (RFC 7591).
        registration: `static`, `cimd` or `dynamic`.
        redirect_uri: the one that a dynamic client was registered with: it is good for no other port.
    """

    client_id: str
    client_secret: str | None = None
    client_secret_expires_at: float | None = None
    token_endpoint_auth_method: str | None = None
    registration: str
    redirect_uri: str | None = None

    def __repr__(self) -> str:
        return f"Client({self.registration})"


class Endpoints(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where to ask the authorization server."""

    token: str
    revocation: str | None = None
    authorization: str | None = None


class Tokens(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was granted; `expires_at` is in seconds of the epoch, and None where nobody said."""

    access_token: str
    token_type: str
    refresh_token: str | None = None
    scope: str | None = None
    expires_at: float | None = None

    def __repr__(self) -> str:
        return f"Tokens({self.token_type}, expires_at={self.expires_at})"


class Credential(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The content of one file.

    Attributes:
        version: of this form: VERSION.
        resource: the URL of the server, as `resource_of` spells it.
        issuer: the authorization server, as it names itself.
        tokens: None before the first grant.
        requested_scope: what was asked for, where that may be more than what was granted.
        resource_indicator: what is sent as `resource` (RFC 8707) if that is not `resource`; empty to send none.
        saved_at: seconds of the epoch; set when it is written.
    """

    version: int
    resource: str
    issuer: str
    client: Client
    endpoints: Endpoints
    tokens: Tokens | None = None
    requested_scope: str | None = None
    resource_indicator: str | None = None
    saved_at: float

    def __repr__(self) -> str:
        return f"Credential({name_of(self.issuer, self.resource)}, {self.issuer!r})"

    @property
    def secrets(self) -> frozenset[str]:
        """What of it must not be seen anywhere."""
        tokens = self.tokens
        held = (self.client.client_secret, *((tokens.access_token, tokens.refresh_token) if tokens else ()))
        return frozenset(filter(None, held))


class Refused(Exception):
    """A file, or the folder, that must not be used as it is.

    Attributes:
        path: of it.
        why: in a few words.
        hint: what to type.
    """

    def __init__(self, path: str, why: str, hint: str) -> None:
        super().__init__(f"{path} is not used: {why}")
        self.path, self.why, self.hint = path, why, hint


_decode = msgspec.json.Decoder(Credential).decode


def resource_of(url: str) -> str:
    """Return the URL by which a server is known: no fragment, no slash at the end, scheme and host in lower case."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if ":" in host:
        host = f"[{host}]"
    if parts.port is not None and parts.port != _DEFAULT_PORTS.get(parts.scheme):
        host += f":{parts.port}"
    return urlunsplit((parts.scheme, host, parts.path.rstrip("/"), parts.query, ""))


def name_of(issuer: str, resource: str) -> str:
    """Return the name of a credential's file, without its ending."""
    return hashlib.sha256(f"{issuer}\n{resource_of(resource)}".encode()).hexdigest()[:40]


def is_sendable(token: str) -> bool:
    """Whether a token may stand in the header of a request."""
    return _IN_HEADER(token) is not None


def check_file(found: os.stat_result, path: str) -> None:
    """Raise Refused unless it is a file of ours that nobody else can read or reach."""
    if not stat.S_ISREG(found.st_mode):
        raise Refused(path, "it is no regular file", f"rm {path}")
    if found.st_uid != os.geteuid():
        raise Refused(path, "it belongs to another user", f"rm {path}")
    if found.st_mode & 0o077:
        raise Refused(path, f"others may read it (mode {found.st_mode & 0o7777:04o})", f"chmod 600 {path}")
    if found.st_nlink > 1:  # none: it has been replaced since it was opened
        raise Refused(path, f"it has {found.st_nlink} names", f"rm {path}")


def decoded(data: bytes, name: str, path: str) -> Credential:
    """Return the content of a file.

    Raises:
        Refused: It is not what its name promises; what it holds instead is not shown.
    """
    hint = f"rm {path}"
    if len(data) > MAX_FILE_BYTES:
        raise Refused(path, f"it is over {MAX_FILE_BYTES} bytes", hint)
    try:
        credential = _decode(data)
    except msgspec.MsgspecError:
        raise Refused(path, "it holds no credential", hint) from None
    if credential.version != VERSION:
        raise Refused(path, f"it has version {credential.version}, expected {VERSION}", hint)
    try:
        named = name_of(credential.issuer, credential.resource)
    except ValueError:
        named = ""
    if named + ENDING != name:
        raise Refused(path, "it is another credential's file", hint)
    if credential.tokens is not None and not is_sendable(credential.tokens.access_token):
        raise Refused(path, "it holds a token that cannot be sent", hint)
    return credential
