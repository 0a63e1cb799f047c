"""Statistical tests with stated false-alarm rate and stated power; knows nothing of samplers."""
