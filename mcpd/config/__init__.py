"""Configuration: a file becomes frozen values; nothing here starts, opens or logs anything."""
