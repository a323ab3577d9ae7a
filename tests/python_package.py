"""The Python package of the tree together with its extension module, which the build makes elsewhere: as the wheel has
both."""
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[1]


def stage(place, extension):
    """A directory for PYTHONPATH, with links to both; without an extension the tree's own."""
    if extension is None:
        return ROOT / "python"
    staged = pathlib.Path(place)
    (staged / "titantrace").mkdir(parents=True)
    for file in [*(ROOT / "python" / "titantrace").glob("*.py"), pathlib.Path(extension).resolve()]:
        (staged / "titantrace" / file.name).symlink_to(file)
    return staged
