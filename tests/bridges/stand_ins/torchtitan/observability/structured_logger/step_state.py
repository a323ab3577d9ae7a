_state = {"step": None, "relative_step": None, "tags": ()}


def set_step(step, *, relative_step=None):
    _state.update(step=step, relative_step=step if relative_step is None else relative_step, tags=())


def add_step_tag(tag):
    if tag not in _state["tags"]:
        _state["tags"] += (tag,)


def get_step():
    return _state["step"]


def get_relative_step():
    return _state["relative_step"]


def get_step_tags():
    return _state["tags"]
