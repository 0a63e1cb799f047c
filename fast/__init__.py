"""The production sampler: the same contract in torch, FlashInfer kernels on CUDA."""
