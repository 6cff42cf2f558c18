"""Worker processes: request path and ports of clients, fed by the one process that has control plane and registry."""
