"""The sidecar of a real ModelMesh: mmesh.ModelRuntime over one Triton."""
