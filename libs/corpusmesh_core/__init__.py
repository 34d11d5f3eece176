"""Pure algorithms and values of CorpusMesh: no I/O, no async, no configuration object."""
