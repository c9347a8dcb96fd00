// gemm's launchers and the order in which implementations are asked.
#include <algorithm>
#include <iterator>
#include <utility>

#include "kit/launch.h"
#include "ops/gemm/aligned.h"
#include "ops/gemm/aligned_launch.h"
#include "ops/gemm/apart.h"
#include "ops/gemm/apart_launch.h"
#include "ops/gemm/arguments.cuh"
#include "ops/gemm/cublaslt.h"
#include "ops/gemm/fma.cuh"
#include "ops/gemm/kernel.cuh"
#include "ops/gemm/policy.h"
#include "ops/gemm/skinny.h"
#include "ops/gemm/skinny_launch.h"
#include "ops/gemm/unpacked.h"
#include "ops/gemm/unpacked_launch.h"
#include "ops/gemm/wgmma.h"
#include "ops/gemm/wgmma_launch.h"
#include "weft/memory.h"
#include "weft/op.h"

namespace weft::inline WEFT_TARGET {
namespace {

static_assert(gemm::shared_bytes(gemm::MmaConfig::Tile::large) == Large::kSharedBytes &&
              gemm::shared_bytes(gemm::MmaConfig::Tile::small) == Small::kSharedBytes &&
              gemm::shared_bytes(gemm::MmaConfig::Tile::flat) == Flat::kSharedBytes);

template <class T, class Shape, Weights kWeights>
void launch_shape(const MmaArguments& args, Context& context) {
    kit::launch("gemm_mma", mma_gemm<T, Shape, kWeights>,
                {.grid = static_cast<unsigned>(args.row_tiles * args.column_tiles * args.splits),
                 .block = Shape::kThreads,
                 .cluster = static_cast<unsigned>(args.splits),
                 .dynamic_shared = Shape::kSharedBytes},
                context.stream(), args);
}

template <class T, Weights kWeights>
void launch_tile(gemm::MmaConfig::Tile tile, const MmaArguments& args, Context& context) {
    switch (tile) {
        case gemm::MmaConfig::Tile::large: return launch_shape<T, Large, kWeights>(args, context);
        case gemm::MmaConfig::Tile::small: return launch_shape<T, Small, kWeights>(args, context);
        case gemm::MmaConfig::Tile::flat: return launch_shape<T, Flat, kWeights>(args, context);
    }
}

void launch_scaled(gemm::MmaConfig::Tile tile, const MmaArguments& args, Context& context) {
    constexpr Weights kScaled = Weights::scaled;
    tile == gemm::MmaConfig::Tile::flat ? launch_shape<kit::e4m3, Flat, kScaled>(args, context)
                                        : launch_shape<kit::e4m3, Small, kScaled>(args, context);
}

// Of operands that are multiplied as numbers of 16 bits.
template <class T>
void launch_wide(const Gemm& op, const gemm::MmaConfig& config, const MmaArguments& args, Context& context) {
    if (op.packed()) return launch_tile<T, Weights::packed>(config.tile, args, context);
    config.transposed ? launch_tile<T, Weights::columns>(config.tile, args, context)
                      : launch_tile<T, Weights::rows>(config.tile, args, context);
}

void launch_mma(const Gemm& op, Context& context) {
    const gemm::Problem p = gemm::problem(op);
    const gemm::MmaConfig config = gemm::mma_config(op, context.info());
    MmaArguments args{};
    args.a = operand(op.a, p.m, p.k, p.a_stride, 1);
    const auto weights = [&](const Tensor& t, const gemm::WeightStrides& s) {
        return config.transposed ? operand(t, p.k, p.n, s.step, 1) : operand(t, p.n, p.k, s.row, s.step);
    };
    args.b = weights(op.b, p.b);
    if (op.up) args.up = weights(op.up, p.up);
    args.packed_a = packed_operand(op.a, p.m, p.k, p.a_stride, gemm::scales_of_a(op));
    args.packed_b = packed_operand(op.b, p.n, p.k, p.b.row, gemm::scales_of_b(op));
    args.packed_up = packed_operand(op.up, p.n, p.k, p.up.row, gemm::scales_of_up(op));
    args.plain = args.packed_b.plain && (!op.up || args.packed_up.plain) &&
                 (args.packed_a.data == nullptr || args.packed_a.plain);
    args.scales = scales_within(op);
    args.epilogue = epilogue_of(op, p);
    args.m = p.m;
    args.n = p.n;
    args.row_tiles = static_cast<int>(gemm::ceil_div(p.m, gemm::tile_rows(config.tile)));
    args.column_tiles = static_cast<int>(gemm::ceil_div(p.n, gemm::out_columns(op, config.tile)));
    args.steps = gemm::mma_steps(op);
    args.splits = config.splits;
    if (op.scaled_within()) {
        launch_scaled(config.tile, args, context);
    } else if (op.a.dtype == DType::fp8_e4m3) {
        launch_tile<kit::e4m3, Weights::rows>(config.tile, args, context);
    } else if (op.a.dtype == DType::int8) {
        launch_tile<std::int8_t, Weights::rows>(config.tile, args, context);
    } else if (gemm::multiplied_as(op) == DType::bf16) {
        launch_wide<kit::bf16>(op, config, args, context);
    } else {
        launch_wide<kit::half>(op, config, args, context);
    }
}

void launch_fma(const Gemm& op, Context& context) {
    const gemm::Problem p = gemm::problem(op);
    FmaArguments args{};
    args.a = {op.a.data, op.a.dtype, p.m, p.a_stride, 1, gemm::scales_of_a(op)};
    args.b = {op.b.data, op.b.dtype, p.n, p.b.row, p.b.step, gemm::scales_of_b(op)};
    args.up = {op.up.data, op.up.dtype, p.n, p.up.row, p.up.step, gemm::scales_of_up(op)};
    args.epilogue = epilogue_of(op, p);
    args.m = p.m;
    args.n = p.n;
    args.k = p.k;
    args.row_tiles = gemm::ceil_div(p.m, kFmaTile);
    kit::launch(
        "gemm_fma", fma_gemm,
        {.grid = static_cast<unsigned>(args.row_tiles * gemm::ceil_div(p.n, kFmaTile)), .block = kFmaThreads},
        context.stream(), args);
}

std::string describe_mma(const Gemm& op, const DeviceInfo& device) {
    return gemm::to_string(gemm::mma_config(op, device));
}
std::string describe_skinny(const Gemm& op, const DeviceInfo& device) {
    return gemm::to_string(gemm::skinny_config(op, device));
}
std::string describe_wgmma(const Gemm& op, const DeviceInfo& device) {
    return gemm::to_string(gemm::wgmma_config(op, device));
}
const char* never_decline(const Gemm&, const DeviceInfo&) { return nullptr; }
std::string describe_fma(const Gemm&, const DeviceInfo&) { return "64x64 fp32 multiply-adds"; }

// Who multiplies operands that were made anew (kOfRemade), in the order of asking: the last takes them all. And whose sums are
// finished in a pass of their own (kOfSums); in the emulator, which has no library, kernels that take every call.
constexpr Implementation<Gemm> kWgmma{"wgmma", gemm::wgmma_decline, describe_wgmma, launch_gemm_wgmma},
    kMma{"mma_sync", gemm::mma_decline, describe_mma, launch_mma};
#if defined(WEFT_EMULATOR)
constexpr Implementation<Gemm> kOfRemade[] = {kWgmma, kMma},
                               kOfSums{"fma", never_decline, describe_fma, launch_fma};
#else
constexpr Implementation<Gemm> kCublaslt{"cublaslt", gemm::cublaslt_decline, gemm::cublaslt_config,
                                         gemm::cublaslt_launch, gemm::cublaslt_prepare};
constexpr Implementation<Gemm> kOfRemade[] = {kCublaslt, kWgmma, kMma}, kOfSums = kCublaslt;
#endif

// The first that does not decline.
const Implementation<Gemm>& of_remade(const Gemm& product, const DeviceInfo& device) {
    const auto takes = [&](const auto& i) { return i.decline(product, device) == nullptr; };
    return *std::find_if(std::begin(kOfRemade), std::end(kOfRemade) - 1, takes);
}
// The same in a context, where its library may decline as well. A context that leaves the library out wants none of its
// roundings; one that leaves out weft's own kernels names one to compare, and that may be this.
std::pair<const Implementation<Gemm>&, Readiness> of_remade(const Gemm& product, Context& context) {
    Readiness said;
    const auto takes = [&](const auto& i) {
        said = {};
        if (i.decline(product, context.info()) != nullptr) return false;
        if (i.prepare == nullptr) return true;
        said = context.avoids(i.name) ? Readiness{"left out"} : i.prepare(product, context);
        return said.reason == nullptr;
    };
    const auto& found = *std::find_if(std::begin(kOfRemade), std::end(kOfRemade) - 1, takes);
    return {found, said.reason == nullptr ? said : Readiness{}};
}

// An implementation that makes operands anew in scratch memory, whose product another of kOfRemade computes: `make` says what
// is left then, `launch` makes it, `decline` is told whether a fast one takes it.
struct Remaker {
    gemm::Remade (*make)(const Gemm& op, std::uintptr_t scratch);
    const char* (*decline)(const Gemm& op, bool wide, const DeviceInfo& device);
    void (*launch)(const Gemm& op, const Gemm& product, Context& context);
};
const char* decline_aligned(const Gemm& op, bool wide, const DeviceInfo& device) {
    return gemm::aligned_decline(op, wide, gemm::InPlace::mma_sync, device);
}
constexpr Remaker kUnpacked{gemm::unpacked, gemm::unpacked_decline, launch_gemm_unpack},
    kAligned{gemm::aligned, decline_aligned, launch_gemm_align};
constexpr std::uintptr_t kNowhere = 256;  // as scratch, where nothing is launched

template <const Remaker& kBy>
struct Remaking {
    // In the context's scratch memory, behind what the library asks of it for itself.
    static gemm::Remade in(const Gemm& op, Context& context) {
        const gemm::Remade asked = kBy.make(op, kNowhere);
        const std::size_t before =
            gemm::cublaslt_decline(asked.product, context.info()) == nullptr ? gemm::kWorkspace : 0;
        const void* scratch = context.scratch(before + asked.bytes);
        return kBy.make(op, reinterpret_cast<std::uintptr_t>(scratch) + before);
    }
    // Whether a fast one takes what is left of a call that would be taken then.
    static bool wide(const Gemm& op, const DeviceInfo& device) {
        return of_remade(kBy.make(op, kNowhere).product, device).launch != kMma.launch;
    }
    static const char* decline(const Gemm& op, const DeviceInfo& device) {
        if (const char* why = kBy.decline(op, true, device)) return why;
        return wide(op, device) ? nullptr : kBy.decline(op, false, device);
    }
    static std::string describe(const Gemm& op, const DeviceInfo& device) {
        const gemm::Remade made = kBy.make(op, kNowhere);
        const Implementation<Gemm>& by = of_remade(made.product, device);
        return std::string(name(made.product.b.dtype)) + " in " + std::to_string((made.bytes + 1023) / 1024) +
               " KiB of scratch, then " + by.name + ": " + by.config(made.product, device);
    }
    // A library that times reads and writes memory; what only asks is content with an address.
    static Readiness prepare(const Gemm& op, Context& context) {
        const bool times = context.tuning() && !is_capturing(context.device(), context.stream());
        const Gemm product = times ? in(op, context).product : kBy.make(op, kNowhere).product;
        const auto& [by, said] = of_remade(product, context);
        if (by.launch == of_remade(product, context.info()).launch) return said;
        return {nullptr, by.launch == kMma.launch ? "here by mma_sync" : "here by wgmma"};
    }
    static void launch(const Gemm& op, Context& context) {
        const Gemm product = in(op, context).product;
        kBy.launch(op, product, context);
        while (true) {
            try {
                return of_remade(product, context).first.launch(product, context);
            } catch (const Refused&) {  // nothing was queued, and the library declines from now on
            }
        }
    }
    static constexpr Implementation<Gemm> as(const char* name) {
        return {name, decline, describe, launch, prepare};
    }
};

#if !defined(WEFT_EMULATOR)
// The library as one of the list: of what it takes, it leaves to `aligned` what that is faster for.
const char* decline_cublaslt(const Gemm& op, const DeviceInfo& device) {
    const char* why = gemm::cublaslt_decline(op, device);
    if (why != nullptr || gemm::left_to_aligned(op, true, device) == nullptr) return why;
    return gemm::left_to_aligned(op, Remaking<kAligned>::wide(op, device), device);
}
constexpr Implementation<Gemm> kListedCublaslt{"cublaslt", decline_cublaslt, gemm::cublaslt_config,
                                               gemm::cublaslt_launch, gemm::cublaslt_prepare};
#endif

// In the context's scratch memory, behind what the library asks of it for itself.
gemm::Apart apart_in(const Gemm& op, Context& context) {
    const std::size_t before = kOfSums.prepare != nullptr ? gemm::kWorkspace : 0;
    const void* scratch = context.scratch(before + gemm::apart(op).bytes);
    return gemm::apart(op, reinterpret_cast<std::uintptr_t>(scratch) + before);
}

const char* decline_apart(const Gemm& op, const DeviceInfo& device) {
    if (const char* why = gemm::apart_decline(op, device)) return why;
    const gemm::Apart parts = gemm::apart(op);
    const char* why = kOfSums.decline(parts.product, device);
    return why == nullptr && op.up ? kOfSums.decline(parts.up, device) : why;
}
std::string describe_apart(const Gemm& op, const DeviceInfo& device) {
    const gemm::Apart parts = gemm::apart(op);
    return std::string(op.up ? "two products" : "a product") + " in " +
           std::to_string((parts.bytes + 1023) / 1024) + " KiB of scratch by " + kOfSums.name + ": " +
           kOfSums.config(parts.product, device);
}
// As Remaking::prepare. A context that leaves the library out, for its roundings, gets its sums all the same: those are of
// fp32. ("apart" is what it leaves out where no sum of the library's is wanted.)
Readiness prepare_apart(const Gemm& op, Context& context) {
    if (kOfSums.prepare == nullptr) return {};
    const bool times = context.tuning() && !is_capturing(context.device(), context.stream());
    const gemm::Apart parts = times ? apart_in(op, context) : gemm::apart(op);
    const Readiness said = kOfSums.prepare(parts.product, context);
    return said.reason == nullptr && op.up ? kOfSums.prepare(parts.up, context) : said;
}
void launch_apart(const Gemm& op, Context& context) {
    const gemm::Apart parts = apart_in(op, context);
    kOfSums.launch(parts.product, context);
    if (op.up) kOfSums.launch(parts.up, context);
    launch_gemm_finish(op, parts, context);
}

const RegisterImplementations<Gemm> kKernels{
    kit::kTarget,
    {{"skinny", gemm::skinny_decline, describe_skinny, launch_gemm_skinny},
#if !defined(WEFT_EMULATOR)
     kListedCublaslt,
#endif
     kWgmma,
     Remaking<kUnpacked>::as("unpacked"),
     Remaking<kAligned>::as("aligned"),
     {"apart", decline_apart, describe_apart, launch_apart, prepare_apart},
     kMma,
     {"fma", never_decline, describe_fma, launch_fma}}};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
