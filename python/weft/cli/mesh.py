"""`weft mesh`: what a mesh file holds, and its conversion."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from weft.mesh_io import Extrusion, RawMesh

PLACE = click.Path(path_type=Path)


class WithFile(click.Group):
    """A group whose first argument may be a file: `weft mesh FILE` is `weft mesh show FILE`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self.commands and not args[0].startswith("-"):
            args = ["show", *args]
        return super().resolve_command(ctx, args)


@click.group(cls=WithFile, subcommand_metavar="FILE | COMMAND [OPTIONS]")
def mesh() -> None:
    """Show what a mesh file holds, or convert it.

    FILE is a mesh of Nek5000 or nekRS (.re2, .rea), Neko (.nmsh) or Gmsh (.msh), 2-D or 3-D. 'weft mesh FILE' shows its
    elements, boundaries, extents, volume, periodic faces and worst elements; 'weft mesh show --help' lists its options.
    Write ./NAME for a file that has the name of a command.
    """


def extrusion_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of an extrusion, which the command receives as `layers`, `length` and `ends`."""
    for option in (
        click.option(
            "--ends",
            type=click.Choice(["periodic", "symmetry", "named"]),
            help="The two ends: joined, symmetry planes (SYM), or boundaries named z- and z+. [default: periodic]",
        ),
        click.option(
            "--length",
            type=float,
            metavar="X",
            help="Total length along z. [default: layers as thick as the elements are wide]",
        ),
        click.option(
            "--layers", type=int, metavar="N", help="Number of layers of elements along z, for a 2-D mesh. [default: 1]"
        ),
    ):
        command = option(command)
    return command


def region_option(command: Callable[..., None]) -> Callable[..., None]:
    """The option for one region."""
    return click.option("--region", metavar="NAME", help="Keep only the elements of this region, by name or number.")(
        command
    )


@mesh.command()
@click.argument("file", type=PLACE)
@click.option("--picture", type=PLACE, metavar="FILE", help="Also draw the mesh, as .png, .pdf or .svg.")
@region_option
@extrusion_options
def show(file: Path, picture: Path | None, region: str | None, **how: Any) -> None:
    """Show what a mesh file holds.

    Exits with 1 if an element is folded, because no workload can use the mesh then.
    """
    from weft.mesh_io.user_code import moved_by
    from weft.report.mesh import described, draw, look

    if picture and picture.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise click.UsageError(f"--picture: found '{picture}', allowed: a name that ends in .png, .pdf or .svg")
    seen = look(_read(file, region), _extrusion(how))
    click.echo(described(seen))
    moved = moved_by(file, len(seen.raw.vertices))
    if moved:
        click.echo(
            f"\nThis file does not hold the geometry of its example: {moved}. In a case, mesh.map does the same."
        )
    if picture:
        draw(seen, picture)
    if seen.folded:
        raise SystemExit(1)


@mesh.command()
@click.argument("file", type=PLACE)
@click.argument("to", type=PLACE)
@region_option
def convert(file: Path, to: Path, region: str | None) -> None:
    """Write a mesh as .re2 (Nek5000, nekRS, Neko) or .vtu (ParaView).

    Boundary names in a .re2 have at most three letters; longer names become MSH and a number, and are listed. A 2-D
    mesh stays 2-D in a .re2, and becomes one layer of elements in a .vtu.
    """
    _write(to, _read(file, region))


@mesh.command()
@click.argument("file", type=PLACE)
@click.argument("to", type=PLACE)
@region_option
@extrusion_options
def extrude(file: Path, to: Path, region: str | None, **how: Any) -> None:
    """Extrude a 2-D mesh along z, and write it as .re2 or .vtu."""
    from weft.mesh_io import Extrusion
    from weft.mesh_io.extrude import extrude as extruded

    _write(to, _named(file, lambda: extruded(_read(file, region), _extrusion(how) or Extrusion())))


def _extrusion(how: dict[str, Any]) -> Extrusion | None:
    """The extrusion that the given options describe; None if none is given."""
    from weft.mesh_io import Extrusion, FormatError

    given = {key: value for key, value in how.items() if value is not None}
    try:
        return Extrusion(**given) if given else None
    except FormatError as error:
        raise click.UsageError(str(error)) from None


def _named(file: Path, make: Callable[[], RawMesh]) -> RawMesh:
    from weft.mesh_io import FormatError

    try:
        return make()
    except FormatError as error:
        raise ValueError(f"{file}: {error}") from None


def _read(file: Path, region: str | None) -> RawMesh:
    from weft.mesh_io import read_raw

    return _named(file, lambda: read_raw(file) if region is None else read_raw(file).part(region))


def _write(to: Path, raw: RawMesh) -> None:
    from weft.mesh_io.re2 import conditions_of, lost_curvature, write_re2

    suffix = to.suffix.lower()
    if suffix not in (".re2", ".vtu"):
        raise click.UsageError(f"{to}: weft writes .re2 and .vtu")
    if suffix == ".re2":
        write_re2(to, raw)
        for name, (code, number) in conditions_of(raw).items():
            if code == "MSH" and name != f"MSH {number}":
                click.echo(f"boundary {name!r} is MSH {number}")
        lost = lost_curvature(raw)
        if lost > 1e-9 * abs(raw.nodes).max():
            click.echo(f"note: a .re2 has no nodes in the middle of faces; those of this mesh move by up to {lost:.3g}")
    else:
        _write_vtu(to, raw)
    click.echo(f"{to}: {len(raw.vertices)} elements, {'2-D' if raw.flat and suffix == '.re2' else '3-D'}")


def _write_vtu(to: Path, raw: RawMesh) -> None:
    import numpy as np

    from weft.mesh_io.fields import write_fields
    from weft.report.mesh import look

    seen = look(raw)
    order = max(1, seen.mesh.geometry_order)
    ids = seen.mesh.element_ids
    points = np.ones((1, (order + 1) ** 3))
    columns = {"element": ids, "scaled_jacobian": seen.quality.scaled_jacobian[ids], "region": seen.mesh.element_tags}
    fields = {name: np.asarray(values)[:, None] * points for name, values in columns.items()}
    fields["boundary"] = np.asarray(seen.mesh.points_on_boundary(order)).astype(float)
    write_fields(to, seen.mesh, order, fields)
