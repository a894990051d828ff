"""How transcripts are compared: without what differs from run to run."""

import json
import re

# As long as the addresses that it stands for.
ADDRESS = "address-of-node"
UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
NUMBER = r"(?<![\w.])(?:-?\d+(?:\.\d+)?(?:E-?\d+)?(?: ?(?:bytes|[KMGT]iB|B)\b)?|NaN|n/a|N/A|\?)(?!\w|\.\d)"
# Where a table's files are.
FOLDER = r"/\S+/(\w+)/(\w+)-[0-9a-f]{32}"


def masked(text: str, layout: str, addresses: list[str]) -> list[str]:
    """Lines with addresses, identities and numbers masked; of lines that are alike then, the first."""
    for address in addresses:
        text = text.replace(address, ADDRESS)
    # How Java shows an address that it has resolved a name of.
    text = text.replace(f"{ADDRESS}/{ADDRESS}", f"/{ADDRESS}")
    text = re.sub(FOLDER, r"FOLDERS/\1/\2-ID", text)
    text = re.sub(UUID, lambda found: "U" * len(found[0]), text)
    if layout == "json":
        text = json.dumps(json.loads(text), indent=1, sort_keys=True).replace(",\n", "\n")
    lines = []
    for line in text.splitlines():
        # Blanks at the end are of columns as wide as what is in them.
        line = mask_numbers(line, layout).rstrip()
        if not lines or line != lines[-1] or not line:
            lines.append(line)
    return sorted(set(lines)) if layout == "unordered" else lines


def mask_numbers(line: str, layout: str) -> str:
    """Numbers become `N`, in columns as wide as they were."""
    if layout == "right":
        return re.sub(f" *{NUMBER}", lambda found: "N".rjust(len(found[0])), line)
    if layout == "left":
        return re.sub(f"{NUMBER} *", lambda found: "N".ljust(len(found[0])), line)
    line = re.sub(NUMBER, "N", line)
    return line if layout == "plain" else re.sub(r"(?<=\S) {2,}", "  ", line)


def complaint(text: str) -> str:
    """An error as one line, without who says it: Cassandra's nodetool adds a hint and stack traces of the server."""
    text = text.split("-- StackTrace --")[0]
    text = text.replace("See 'nodetool help' or 'nodetool help <command>'.", "")
    lines = [re.sub(r"^(nodetool: |error: |Error: )+", "", line) for line in text.splitlines()]
    return "\n".join(line for line in lines if line.strip())


def entry(question, code: int, out: str, err: str, addresses: list[str]) -> list[str]:
    """What is kept of an answer: the question, its exit code if it is an error, what was printed."""
    words = " ".join(["$ nodetool", question.words])
    if code:
        said = complaint(f"{out}\n{err}")
        return [words, f"exit {code}", *masked(said, "free", addresses)]
    return [words, *masked(out + err, question.layout, addresses)]


def read(text: str) -> list[tuple[str, list[str]]]:
    """The entries of a transcript: questions with their answers, in order."""
    entries: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ nodetool "):
            entries.append((line.removeprefix("$ nodetool "), []))
        else:
            entries[-1][1].append(line)
    return entries
