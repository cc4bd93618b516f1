"""`python -m mcpd_client`: the same as the command `mcpd`."""

import sys

from mcpd_client.fast import main

sys.exit(main())
