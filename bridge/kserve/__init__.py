"""The KServe V2 protocol over everything that the bridge serves: inference.GRPCInferenceService and its REST form."""
