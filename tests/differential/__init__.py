"""Generated statement sequences give the same rows and the same error codes on two servers.

`values` draws types and values, `tables` draws schemas, `statements` draws statements for them,
`generator` makes a sequence of a seed, `runner` runs it on both servers and compares, `shrink`
takes out of a failing sequence what it does not need. A sequence is a list of steps (see
`generator`), which JSON can hold: `cases/` keeps the ones that once failed.
"""
