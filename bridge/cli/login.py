"""What a command shows to the admin API of who runs it."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from bridge.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class Login:
    """Files, each empty for none: one with a token, and PEM files for HTTPS with roots other than the system's, and
    with a client certificate and its key."""

    token_file: str = ""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""

    def headers(self) -> dict[str, bytes]:
        """Raises InvalidArgument."""
        if not self.token_file:
            return {}
        try:
            token = Path(self.token_file).read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidArgument(f"--admin_token_file={self.token_file} cannot be read: {error}") from error
        if not token or not token.isascii() or len(token.split()) != 1:
            raise InvalidArgument(f"--admin_token_file={self.token_file} does not hold one token")
        return {"Authorization": f"Bearer {token}".encode()}

    def context(self) -> ssl.SSLContext:
        """For HTTPS. Raises InvalidArgument."""
        if bool(self.cert_file) != bool(self.key_file):
            raise InvalidArgument("--admin_cert_file and --admin_key_file are only of use together")
        try:
            context = ssl.create_default_context(cafile=self.ca_file or None)
        except OSError as error:
            raise InvalidArgument(f"--admin_ca_file={self.ca_file} cannot be used: {error}") from error
        if self.cert_file:
            try:
                context.load_cert_chain(self.cert_file, self.key_file)
            except OSError as error:
                raise InvalidArgument(f"--admin_cert_file={self.cert_file} cannot be used: {error}") from error
        return context
