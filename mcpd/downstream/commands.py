"""`mcpd/cli` stub"""
class Commands:
    def __init__(self, broker, lists): pass
