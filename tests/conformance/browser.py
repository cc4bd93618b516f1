"""Be the browser of somebody who agrees to everything: open an address, and follow it to where it ends."""

from __future__ import annotations

import sys
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener


def main() -> None:
    opener = build_opener(ProxyHandler({}))
    try:
        with opener.open(sys.argv[-1], timeout=20) as page:
            print(page.url.partition("?")[0], page.status)
    except HTTPError as refused:
        # A browser shows the page of an error like any other.
        print(refused.url, refused.code, refused.read().decode(errors="replace"))


if __name__ == "__main__":
    main()
