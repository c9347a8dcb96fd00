// Where things lie: the rungs' own functions, run in the emulator with numbers in place of data. A picture of a layout
// that somebody draws by hand may be wrong; these rows are what the kernels do. `weft ladder --layout NAME` prints them.
#include <fmt/format.h>

#include <cstring>

#include "core/ladder_layouts.h"
#include "ladder/half_tile.cuh"
#include "ladder/hgemm/fragments.cuh"
#include "ladder/stages.cuh"
#include "weft/memory.h"

namespace weft::inline WEFT_TARGET {
namespace {

// What one block writes, `count` of them.
template <class T, class... Parameters, class... Arguments>
std::vector<T> written(int threads, std::size_t count, void (*kernel)(T*, Parameters...),
                       Arguments... arguments) {
    const Buffer memory(kEmulator, count * sizeof(T));
    fill_bytes(memory.data(), kEmulator, 0, memory.size());
    T* const begin = static_cast<T*>(memory.data());
    kit::launch("layout", kernel, {.block = dim3(static_cast<unsigned>(threads))}, Stream{}, begin,
                arguments...);
    return {begin, begin + count};
}

// Of a tile of 8 rows of 64 halves, where each chunk of 16 bytes begins.
template <Banks kBanks>
std::string chunks(const char* name) {
    HalfTile<8, 64, kBanks> tile;
    std::string rows;
    for (int row = 0; row < 8; ++row) {
        for (int c = 0; c < 8; ++c) {
            const auto byte = 2 * (tile.chunk(row, c) - tile.at);
            rows += fmt::format("{},{},{},{},{}\n", name, row, c, byte, byte / 4 % 32);
        }
    }
    return rows;
}
std::string banks() {
    return "tile,row,chunk,byte,bank\n" + chunks<Banks::plain>("plain") + chunks<Banks::padded>("padded") +
           chunks<Banks::swizzled>("swizzled");
}

// A tile whose element [r][c] is its own number; what is then in a lane's registers says which elements those are.
template <class Tile>
__device__ void number(Tile& tile) {
    constexpr int kWidth = 8 * Tile::kChunks;
    for (int i = threadIdx.x; i < Tile::kRows * kWidth; i += 32) {
        tile.chunk(i / kWidth, i % kWidth / 8)[i % 8] = __ushort_as_half(static_cast<unsigned short>(i));
    }
    __syncthreads();
}
__global__ void read_a(std::uint32_t* out) {
    auto& tile = kit::block_shared<HalfTile<16, 16, Banks::plain>>();
    number(tile);
    std::uint32_t fragment[4];
    fragment_a(fragment, tile, 0, 0);
    memcpy(out + 4 * threadIdx.x, fragment, sizeof(fragment));
}
__global__ void read_b(std::uint32_t* out) {
    auto& tile = kit::block_shared<HalfTile<8, 16, Banks::plain>>();
    number(tile);
    std::uint32_t fragment[2];
    fragment_b(fragment, tile, 0, 0);
    memcpy(out + 2 * threadIdx.x, fragment, sizeof(fragment));
}
// Each lane stores its own numbers as sums: where they arrive says whose outputs those are.
__global__ void store_c(__half* out) {
    float sums[4];
    for (int i = 0; i < 4; ++i) sums[i] = static_cast<float>(4 * threadIdx.x + i);
    store_sums(sums, out, Sizes{16, 8, 0, 1, true}, 0, 0);
}

std::string fragments() {
    std::string rows = "matrix,row,column,lane,value\n";
    const auto a = written(32, 128, read_a), b = written(32, 64, read_b);
    for (int i = 0; i < 256; ++i) {
        const int element = static_cast<int>(a[i / 2] >> 16 * (i % 2) & 0xffff);
        rows += fmt::format("A,{},{},{},{}\n", element / 16, element % 16, i / 8, i % 8);
    }
    for (int i = 0; i < 128; ++i) {
        const int element = static_cast<int>(b[i / 2] >> 16 * (i % 2) & 0xffff);
        rows += fmt::format("B,{},{},{},{}\n", element % 16, element / 16, i / 4, i % 4);
    }
    const auto c = written(32, 128, store_c);
    for (int i = 0; i < 128; ++i) {
        const int value = static_cast<int>(__half2float(c[i]));
        rows += fmt::format("C,{},{},{},{}\n", i / 8, i % 8, value / 4, value % 4);
    }
    return rows;
}

// One thread goes through a ring of four stages; a stage remembers which step it was filled for.
struct Step {
    std::int64_t number;
};
struct Event {
    int uses, stage;  // whether it computes, or brings
    std::int64_t step;
};
__global__ void go_round(Event* events, std::int64_t steps) {
    struct Steps {
        Step at[4];
    };
    Step* const stages = kit::block_shared<Steps>().at;
    for_stages<4>(
        stages, steps,
        [&](Step& to, std::int64_t step) {
            to.number = step;
            *events++ = {0, static_cast<int>(&to - stages), step};
        },
        [&](Step& now) { *events++ = {1, static_cast<int>(&now - stages), now.number}; });
}
std::string ring() {
    constexpr int kSteps = 10;
    std::string rows = "event,what,step,stage\n";
    int number = 0;
    for (const Event& event : written(1, 2 * kSteps, go_round, std::int64_t{kSteps}))
        rows += fmt::format("{},{},{},{}\n", number++, event.uses != 0 ? "use" : "bring", event.step,
                            event.stage);
    return rows;
}

const weft::ladder::RegisterLayouts kLayouts{
    {"banks", "where the chunks of a tile lie in shared memory: plain, padded, swizzled", banks},
    {"fragments", "which lane has which element of mma.sync m16n8k16", fragments},
    {"ring", "what a ring of four stages brings and uses, in order", ring}};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
