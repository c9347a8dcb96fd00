// How far threads that work together reach.
#pragma once

namespace weft {

// Some lanes of a warp, all of a block, either of the two, the blocks of a cluster; `local` and `any` are decided where
// the kernel runs.
enum class GroupScope : int { warp, block, local, cluster, any };

}  // namespace weft
