"""Where a server's CPU time goes, by `perf`: what there is to say of a target that is missed."""
import collections
import re

from measurements import Profile
from perf import NoProfile, beside, made_of

# Of each core. An odd number, so that nothing that comes at a regular pace is seen too often.
SAMPLES_A_SECOND = 1999
# Who took less is not told of by name.
LEAST_SHARE = 0.01
FUNCTIONS = 12

# A line of `perf report`: share, binary and function, of which only that may contain the mark between them.
LINE = re.compile(r"\s*([\d.]+)%\s*\|([^|]*)\|\s*\[(.)\]\s*(.*)")


def recorded(file, cores, samples_a_second=SAMPLES_A_SECOND):
    """Takes samples of all cores meanwhile, from those of the client, if it has its own. Not of some processes alone: as soon as
    a thread of theirs ends, perf 6.1 asks for its end over and over, and takes two thirds of the core that it is on."""
    return beside(file, ["record", "--quiet", "--freq", str(samples_a_second), "--clockid", "realtime", "--all-cpus",
                         "--output", str(file)], cores)


def read(file, pids, server, figures, window=None):
    """What these processes of a server did while these figures were measured: all, or what lies between two times, in seconds
    since 1970."""
    between = ["--time", ",".join(f"{moment:.6f}" for moment in window)] if window else []
    return made_of(file, ["report", "--stdio", "--no-children", "--sort", "dso,symbol", "--field-separator", "|",
                          "--pid", ",".join(map(str, pids)), "--percentage", "relative", *between],
                   lambda told: profile_of(told, server, figures))


def profile_of(told, server, figures):
    """What `perf report` told."""
    shares = collections.Counter()
    functions = []
    for line in told.splitlines():
        found = LINE.match(line)
        if found and not line.startswith("#"):
            share, binary, kind, name = round(float(found[1]) / 100, 4), found[2].strip(), found[3], found[4]
            # Behind the name may come columns that are empty.
            name = name.split("|")[0].strip()
            where = place(binary, kind, name)
            shares[where] += share
            functions.append((name, where, share))
    if not functions:
        raise NoProfile("perf took no samples")
    # As exact as perf tells them.
    places = [(where, round(share, 4)) for where, share in shares.most_common() if share >= LEAST_SHARE]
    others = round(sum(shares.values()) - sum(share for _, share in places), 4)
    if others >= LEAST_SHARE / 10:
        places.append(("others", others))
    functions.sort(key=lambda function: -function[2])
    spent = figures["server_cpu"]
    return Profile(server, spent["micros_per_operation"], spent["cores"], places, functions[:FUNCTIONS])


def place(binary, kind, name):
    """Whose function it is: the kernel's, a library's, or, of Rust, a crate's."""
    if kind == "k":
        return "the kernel"
    if binary.startswith("["):
        return binary.strip("[]")
    if ".so" in binary:
        return binary.split(".so")[0]
    if name.startswith(("mi_", "_mi_")):
        return "mimalloc"
    crate = re.match(r"[<&*\s]*(?:mut |dyn |impl )?(\w+)::", name)
    return crate[1] if crate else binary
