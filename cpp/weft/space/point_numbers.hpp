// The points of a rank's elements with 32-bit numbers, and which of them other ranks also hold. Both are found from the
// vertices, edges and faces of the mesh, which are far fewer than the points.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "weft/exchange/id_numbers.hpp"
#include "weft/exchange/pattern.hpp"
#include "weft/mesh/boundary_set.hpp"
#include "weft/mesh/mesh.hpp"

namespace weft::space {

// Numbers are negative for points left out; otherwise they are in [0, count()) and equal exactly if the ids are.
// Numbers of points that other ranks may hold ascend like the ids.
class PointNumbers {
 public:
  // From the ids of mesh::point_ids. `without`: boundaries whose points are left out, whichever rank holds the face.
  // The mesh must outlive this object. (collective)
  PointNumbers(const mesh::Mesh& mesh, int order, const mesh::BoundarySet& without);
  // From given ids, [E][k][j][i], 0 for points left out. (collective)
  PointNumbers(const mesh::Mesh& mesh, int order, std::span<const std::int64_t> ids);

  std::int64_t count() const { return count_; }
  // Which numbers other ranks also hold, and their ids.
  const exchange::Sharing& sharing() const { return sharing_; }
  const std::vector<std::int64_t>& shared_ids() const { return shared_ids_; }
  // The numbers of an element's points, [k][j][i].
  void of_element(std::int64_t e, std::int32_t* numbers) const;

 private:
  // The vertices, edges or faces of the rank's elements, if they have points in their interior.
  struct Entities {
    exchange::IdNumbers numbers;
    std::int64_t points = 0;             // inside each
    std::int64_t first_number = 0;       // of all their points
    std::int64_t first_id = 0;           // of all points inside entities of this kind, in mesh::point_ids
    std::int64_t first_key = 0;          // key = first_key + id: another one for every entity of the mesh
    std::vector<std::uint8_t> left_out;  // [numbers.size()], or empty

    // The number of the first interior point; a large negative number if the points are left out.
    std::int32_t first_point(std::int64_t id) const;
  };
  enum Kind { vertices, edges, faces };
  // The kind and the id of the entity with a given key.
  std::pair<Kind, std::int64_t> of_key(std::int64_t key) const;
  // Calls use(kind, id) for the entities with points on a side of an element.
  template <class Use>
  void each_on_side(std::int64_t e, int side, Use&& use) const;

  void count_entities();
  std::vector<std::int64_t> surface_keys() const;
  void leave_out(std::span<const std::uint8_t> chosen);
  void leave_out_everywhere(std::span<const std::int64_t> shared_keys);
  void share_points(std::span<const std::int64_t> keys, const exchange::Sharing& of_keys);

  const mesh::Mesh& mesh_;
  int order_;
  std::vector<std::int32_t> given_;  // [E][k][j][i], if made from ids; else from these:
  std::array<Entities, 3> entities_;
  std::int64_t first_inside_ = 0;  // the number of the first point inside an element
  std::int64_t count_ = 0;
  exchange::Sharing sharing_{.positions = {}, .begin = {0}, .holders = {}};
  std::vector<std::int64_t> shared_ids_;
};

}  // namespace weft::space
