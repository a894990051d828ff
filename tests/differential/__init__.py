"""Generated statement sequences give the same rows and the same error codes on two servers.

`weights` says how often which construct is taken; `values` draws types and values, `json_values` the same as JSON,
`tables` draws schemas, `statements` draws statements for them and `expressions` what they select,
`generator` makes a sequence of a seed, `runner` runs it on both servers and compares, `shrink`
takes out of a failing sequence what it does not need, `record` keeps what the oracle said. A sequence is
a list of steps (see `generator`), which JSON can hold: `cases/` keeps the ones that once failed. What may differ is
in docs/differences.md.
"""
