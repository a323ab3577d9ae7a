"""One measure for all tools: does it name the guilty ranks? Kinds and confidences differ between tools and do not
count."""

RESULTS = {"right": "right", "among": "names the guilty rank among others", "wrong": "names other ranks",
           "nobody": "names nobody",
           "failed": "fails"}


def verdict(truth, said: dict) -> str:
    """
    right: the ranks of the first complaint, or of all complaints together, are those of the cause (all of several
    causes
        must be named), or of a story that the same records fit as well; a healthy job, or one whose records hold
        nothing of the fault, and nobody is named.
    among: the guilty ranks are among those named, but neither first nor alone.
    Where a tool names nobody but says whose file is missing, that is its answer, unless the job is healthy.
    """
    if said["failed"]:
        return "failed"
    named = [set(ranks) for ranks in said["named"]]
    if not named and said["absent"] and truth.causes:
        named = [set(said["absent"])]
    if not named:
        return "right" if not truth.causes or truth.silent_is_right else "nobody"
    everyone = set().union(*named)
    guilty = set().union(*(cause.ranks for cause in truth.causes))
    for ranks in (named[0], everyone):
        if (any(ranks == some for some in (guilty, *(cause.ranks for cause in truth.causes)) if some)
            and guilty <= everyone
                or any(ranks == cause.ranks for cause in truth.weaker)
                or guilty and guilty <= ranks <= truth.among):
            return "right"
    return "among" if guilty and guilty <= everyone else "wrong"
