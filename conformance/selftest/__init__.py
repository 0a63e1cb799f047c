"""The self-test: the suites on every known faulty sampler and on every equivalent one."""
