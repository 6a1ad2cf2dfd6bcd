"""The commands of `vrltrain`, one module each: they parse, call one function of the package, and print."""
