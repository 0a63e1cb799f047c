"""Checks what a logits processor claims: argmax invariance, state, rows, values, devices and its hook."""
