"""Takes out of a failing sequence what its failure does not need."""


def shrink(steps: list, fails, budget: int) -> list:
    """The shortest failing sequence found by removing ever smaller runs of steps (ddmin).

    `fails(steps)` runs a candidate; at most `budget` candidates are run.
    """
    spent = 0
    size = max(len(steps) // 2, 1)
    while True:
        i, progress = 0, False
        while i < len(steps):
            if spent >= budget:
                return steps
            candidate = steps[:i] + steps[i + size :]
            spent += 1
            if candidate and fails(candidate):
                steps, progress = candidate, True
            else:
                i += size
        if size == 1 and not progress:
            return steps
        size = max(size // 2, 1)
