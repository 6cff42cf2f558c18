"""gRPC servers: they carry the RPCs of `bridge.tfserving.rpc` and know nothing of what these do."""
