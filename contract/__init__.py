"""What a sampler must do, as data: clauses, request parameters, batches, output and freedoms."""
