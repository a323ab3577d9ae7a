"""A hook of MkDocs (mkdocs.yml): links from docs/ to other files of the repository work on the site, too.

Each file that a page links outside docs/ becomes a page, or a copy, below repository/, and so does what these link in
turn. Links that are wrong stay as they are: MkDocs then reports them.
"""
import os
import pathlib
import re

from mkdocs.structure.files import File

LINK = re.compile(r"(\]\()([^)\s#:]+)((?:#[^)\s]*)?\))")
BELOW = "repository/"


def repository_path(source):
    """The path in the repository of a file of the site."""
    return source[len(BELOW):] if source.startswith(BELOW) else f"docs/{source}"


def site_path(path):
    return path[len("docs/"):] if path.startswith("docs/") else f"{BELOW}{path}"


def root_of(config):
    return pathlib.Path(config.config_file_path).parent


def targets(root, source, text):
    """{link: path in the repository} of the links that lead to a file."""
    here = os.path.dirname(repository_path(source))
    paths = {link: os.path.normpath(os.path.join(here, link)) for _, link, _ in LINK.findall(text)}
    return {link: path for link, path in paths.items() if not path.startswith("..") and (root / path).is_file()}


def on_files(files, config):
    root = root_of(config)
    pending = [file for file in files if file.src_uri.endswith(".md")]
    while pending:
        file = pending.pop()
        text = pathlib.Path(file.abs_src_path).read_text(encoding="utf-8")
        for path in targets(root, file.src_uri, text).values():
            if files.get_file_from_path(site_path(path)) is None:
                added = File.generated(config, site_path(path), abs_src_path=str(root / path))
                files.append(added)
                if path.endswith(".md"):
                    pending.append(added)
    return files


def on_page_markdown(markdown, page, config, files):
    source = page.file.src_uri
    known = targets(root_of(config), source, markdown)

    def to_site(match):
        if match[2] not in known:
            return match[0]
        return match[1] + os.path.relpath(site_path(known[match[2]]), os.path.dirname(source) or ".") + match[3]

    return LINK.sub(to_site, markdown)
