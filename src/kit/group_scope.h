// How far threads that work together reach.
#pragma once

namespace weft {

// Some lanes of a warp, all of a block, the blocks of a cluster; `any` is decided where the kernel runs.
enum class GroupScope : int { warp, block, cluster, any };

}  // namespace weft
