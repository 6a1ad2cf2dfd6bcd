"""The commands of `vrldata`, one module a group; `cli` registers them without importing them."""
