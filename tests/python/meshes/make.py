"""Makes the .msh files beside it with Gmsh (pip install gmsh): a quarter of a pipe, periodic along its axis.

Radii 1 and 2, length 3, 2 x 3 x 2 elements; boundaries inner, outer, ends; the surfaces z = 0 and 3 are periodic.
"""

from pathlib import Path

import gmsh

HERE = Path(__file__).parent


def model() -> None:
    gmsh.model.add("quarter")
    geo = gmsh.model.geo
    centre = geo.addPoint(0, 0, 0)
    p = [geo.addPoint(*x, 0) for x in ((1, 0), (2, 0), (0, 2), (0, 1))]
    lines = [
        geo.addLine(p[0], p[1]),
        geo.addCircleArc(p[1], centre, p[2]),
        geo.addLine(p[2], p[3]),
        geo.addCircleArc(p[3], centre, p[0]),
    ]
    surface = geo.addPlaneSurface([geo.addCurveLoop(lines)])
    for line, points in zip(lines, (3, 4, 3, 4), strict=True):
        geo.mesh.setTransfiniteCurve(line, points)
    geo.mesh.setTransfiniteSurface(surface)
    geo.mesh.setRecombine(2, surface)
    solid = geo.extrude([(2, surface)], 0, 0, 3, numElements=[2], recombine=True)
    geo.synchronize()
    top, volume = solid[0][1], solid[1][1]
    gmsh.model.addPhysicalGroup(3, [volume], 1, "fluid")
    gmsh.model.addPhysicalGroup(2, [solid[3][1]], 2, "outer")
    gmsh.model.addPhysicalGroup(2, [solid[5][1]], 3, "inner")
    gmsh.model.addPhysicalGroup(2, [solid[2][1], solid[4][1]], 4, "ends")
    gmsh.model.addPhysicalGroup(2, [surface, top], 5, "periodic")
    gmsh.model.mesh.setPeriodic(2, [top], [surface], [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 0, 0, 0, 1])


def write(name: str, version: float, binary: bool, order: int, incomplete: bool = False, partitions: int = 0) -> None:
    gmsh.initialize()
    gmsh.option.setNumber("General.Terminal", 0)
    gmsh.option.setNumber("Mesh.MshFileVersion", version)
    gmsh.option.setNumber("Mesh.Binary", binary)
    gmsh.option.setNumber("Mesh.SecondOrderIncomplete", incomplete)
    model()
    gmsh.model.mesh.generate(3)
    gmsh.model.mesh.setOrder(order)
    if partitions:
        gmsh.option.setNumber("Mesh.PartitionCreateGhostCells", 1)
        gmsh.model.mesh.partition(partitions)
    gmsh.write(str(HERE / name))
    gmsh.finalize()


if __name__ == "__main__":
    write("quarter_22_ascii.msh", 2.2, False, 2)
    write("quarter_22_binary.msh", 2.2, True, 2)
    write("quarter_40_ascii.msh", 4.0, False, 2)  # Gmsh writes no binary 4.0 any more
    write("quarter_41_ascii.msh", 4.1, False, 2)
    write("quarter_41_binary.msh", 4.1, True, 2)
    write("quarter_41_order1.msh", 4.1, True, 1)
    write("quarter_22_serendipity.msh", 2.2, False, 2, True)
    write("quarter_40_partitioned.msh", 4.0, False, 2, partitions=3)
    write("quarter_41_partitioned.msh", 4.1, True, 2, partitions=3)
