"""Where things are kept between runs."""

from __future__ import annotations

import os


def state_folder() -> str:
    """Return the folder for what is kept between runs."""
    from platformdirs import user_state_path

    try:
        return str(user_state_path("mcpd", appauthor=False))
    except RuntimeError:  # there is no home, and nothing to keep
        from mcpd.config.load import home_of

        return f"{home_of(os.environ)}/.local/state/mcpd"


def credentials_folder() -> str:
    """Return the folder of the credentials that sign-ins have brought."""
    return os.path.join(state_folder(), "credentials")


def data_folder() -> str:
    """Return the folder for what is nobody else's to lose: secrets that were given to us."""
    from platformdirs import user_data_path

    try:
        return str(user_data_path("mcpd", appauthor=False))
    except RuntimeError:
        from mcpd.config.load import home_of

        return f"{home_of(os.environ)}/.local/share/mcpd"
