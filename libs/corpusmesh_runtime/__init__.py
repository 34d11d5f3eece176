"""What every process of the mesh needs: configuration, logs, metrics, traces, gRPC servers and channels, workers."""
