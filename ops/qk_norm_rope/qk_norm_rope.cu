// qk_norm_rope on the GPU and in the emulator: policy and launch.
#include "ops/qk_norm_rope/qk_norm_rope.h"

#include "kit/l2_keep.h"
#include "ops/qk_norm_rope/kernel_steps.cuh"
#include "ops/qk_norm_rope/kernel_token.cuh"
#include "ops/qk_norm_rope/kernel_warps.cuh"
#include "weft/op.h"

namespace weft::inline WEFT_TARGET {
namespace {

// Two units a thread, in blocks of which several fit on a multiprocessor.
constexpr kit::UnitLimits kLimits{.threads = 320, .units = 640};
constexpr std::int64_t kMaxHalf = 4096;  // pairs whose angles fit in 32 KiB

std::int64_t heads_of(const QkNormRope& op) {
    return op.q.dim(-2) + (op.k ? op.k.dim(-2) : 0) + (op.v ? op.v.dim(-2) : 0);
}

struct HeadPlan {
    int block_tokens = 1;
    unsigned threads = 0, blocks = 0, lanes = 1, rounds = 1;
};

HeadPlan plan(const QkNormRope& op, const DeviceInfo& device) {
    kit::Rotation r;
    r.half = r.count = static_cast<int>(op.rotated() / 2);
    r.head_dim = static_cast<int>(op.head_dim());
    const int units = std::max(1, kit::head_units(r));
    HeadPlan plan;
    while (plan.lanes < 32 && static_cast<int>(plan.lanes) < units) plan.lanes *= 2;
    plan.rounds = static_cast<unsigned>(kit::divide_up(units, plan.lanes));
    const std::int64_t lanes = heads_of(op) * plan.lanes;
    const std::int64_t angles = op.head_cos ? 0 : std::min<std::int64_t>(r.half, kLimits.threads);
    plan.block_tokens = op.norm == QkNormRope::Norm::row
                            ? 1
                            : kit::tokens_a_block(op.tokens(), lanes, angles, kLimits, device);
    // Where every token has a multiprocessor, a thread has one unit rather than two, one after the other.
    const kit::UnitLimits few{.threads = kHeadThreads, .units = kLimits.units};
    plan.threads = kit::unit_threads(lanes * plan.block_tokens, 0, op.tokens() <= device.sms ? few : kLimits);
    plan.blocks = static_cast<unsigned>(kit::divide_up(op.tokens(), plan.block_tokens));
    return plan;
}

HeadsAt heads_at(const Tensor& t) {
    if (!t) return {};
    return {t.data, *leading_stride(t, 3), t.stride[t.rank - 3], t.stride[t.rank - 2]};
}
CacheAt cache_at(const Tensor& cache, const Tensor& scale) {
    if (!cache) return {};
    return {cache.data,
            cache.dtype,
            cache.stride[0],
            cache.stride[1],
            cache.stride[2],
            scale ? scale.as<const float>() : nullptr,
            scale && scale.dim(0) > 1 ? 1 : 0};
}
WeightAt weight_at(const Tensor& weight, std::int64_t head_dim) {
    if (!weight) return {};
    return {weight.data, weight.dtype, weight.dim(0) == head_dim ? 0 : head_dim,
            kit::rows_aligned(weight, kit::kTurnWidth)};
}
IndexAt index_of(const Tensor& t) {
    if (!t) return {};
    return {t.data, t.dtype == DType::int64, *leading_stride(t, 1), t.stride[t.rank - 1]};
}

// Rows of the norms of Q or K, and their elements.
struct NormRows {
    std::int64_t rows = 0, dim = 1;
};
NormRows norm_rows(const QkNormRope& op, const Tensor& heads) {
    if (!heads) return {};
    const bool row = op.norm == QkNormRope::Norm::row;
    return {op.tokens() * (row ? 1 : heads.dim(-2)), op.head_dim() * (row ? heads.dim(-2) : 1)};
}
// 1/dim as PyTorch computes it: outputs over inputs, both rounded.
float mean_factor(const QkNormRope& op, const Tensor& heads) {
    const NormRows n = norm_rows(op, heads);
    return static_cast<float>(n.rows) / static_cast<float>(n.rows * n.dim);
}
// The order of a sum of squares is part of PyTorch's bits, and depends on the sizes: here is that of 32 threads a row.
const char* decline_steps(const QkNormRope& op) {
    if (op.rounding == Rounding::fused || op.norm == QkNormRope::Norm::none) return nullptr;
    for (const Tensor* heads : {&op.q, &op.k}) {
        const NormRows n = norm_rows(op, *heads);
        if (!*heads || n.rows * n.dim == 0) continue;
        if (n.rows < 16 || n.dim < 128 || n.dim > 8160 || op.head_dim() % 4 != 0)
            return "PyTorch's order of summation is reproduced for norms of at least 16 rows of 128 to 8160 "
                   "elements in heads of a multiple of 4";
        if (n.rows * n.dim > std::int64_t{1} << 29)
            return "PyTorch cuts a sum of more than 2^29 elements in pieces";
    }
    return nullptr;
}

// Whether a unit's cosines lie behind one another, as numbers of T: of aligned tables those are held as they are.
bool tables_held(const QkNormRope& op) {
    return op.head_cos && op.head_cos.dtype == op.q.dtype && op.pairs != QkNormRope::Pairs::interleaved;
}

QkNormRopeParams parameters(const QkNormRope& op, const kit::Rotation& r, const HeadPlan& plan,
                            const DeviceInfo& device) {
    const std::int64_t q_heads = op.q.dim(-2), kv_heads = op.k ? op.k.dim(-2) : 0, head_dim = op.head_dim();
    const bool row = op.norm == QkNormRope::Norm::row;
    QkNormRopeParams p{
        .in = {heads_at(op.q), heads_at(op.k), heads_at(op.v)},
        .out = {heads_at(op.q_out), heads_at(op.k_out), heads_at(op.v_out)},
        .cache = {cache_at(op.k_cache, op.k_scale), cache_at(op.v_cache, op.v_scale)},
        .weight = {weight_at(op.q_weight, head_dim), weight_at(op.k_weight, head_dim)},
        .position = {index_of(op.positions), index_of(op.positions2), index_of(op.positions3)},
        .slots = index_of(op.slots),
        .table = {heads_at(op.head_cos), heads_at(op.head_sin)},
        .table_dtype = op.head_cos.dtype,
        .tables_aligned = op.head_cos && kit::rows_aligned(op.head_cos, kit::kTurnWidth) &&
                          kit::rows_aligned(op.head_sin, kit::kTurnWidth),
        .tables_held = false,
        .page_size = 1,
        .cache_rows = 0,
        .frequencies = op.frequencies ? op.frequencies.as<const float>() : nullptr,
        .tokens = static_cast<unsigned>(op.tokens()),
        .heads_before_k = static_cast<unsigned>(q_heads),
        .heads_before_v = static_cast<unsigned>(q_heads + kv_heads),
        .sequence = kit::Divisor::of(op.sequence()),
        .heads = kit::Divisor::of(heads_of(op)),
        .pairs = kit::Divisor::of(r.half),
        .head_units = kit::Divisor::of(kit::head_units(r)),
        .page = {},
        .lanes_log2 = 0,
        .rounds = plan.rounds,
        .block_tokens = static_cast<unsigned>(plan.block_tokens),
        .turn_stride = kit::turn_units(r) * kit::kTurnWidth,
        .norm = op.norm,
        .eps = op.eps,
        .weight_offset = op.weight_offset,
        .counts = {static_cast<float>(row ? q_heads * head_dim : head_dim),
                   static_cast<float>(row ? kv_heads * head_dim : head_dim)},
        .prefix = op.prefix,
        .start = op.start,
        .section2 = static_cast<int>(op.section2),
        .section3 = static_cast<int>(op.section3),
        .alternate = op.sections == QkNormRope::Sections::alternate,
        .rounding = op.rounding,
        .wide_tables = (op.cos ? op.cos : op.head_cos).dtype == DType::fp32,
        .addcmul = op.addcmul,
        .factors = {mean_factor(op, op.q), mean_factor(op, op.k)},
        .keep = l2_keeps_input(
            bytes(op.q.dtype, op.q.numel() + (op.k ? op.k.numel() : 0) + (op.v ? op.v.numel() : 0)), device),
        .few = plan.blocks <= 4 * static_cast<unsigned>(device.sms),
        .warps = {},
        .more = {}};
    p.tables_held = p.tables_aligned && tables_held(op);
    while (1u << p.lanes_log2 < plan.lanes) ++p.lanes_log2;
    if (const Tensor& cache = op.k_cache ? op.k_cache : op.v_cache) {
        p.page_size = std::max<std::int64_t>(1, cache.dim(1));
        p.cache_rows = cache.dim(0) * cache.dim(1);
        if (p.cache_rows >> 31 == 0) p.page = kit::Divisor::of(p.page_size);
    }
    return p;
}

// Whether all units of every operand are whole, aligned vectors.
bool all_whole(const QkNormRope& op) {
    if (!kit::heads_whole(op.head_dim(), op.rotated())) return false;
    for (const Tensor* t : {&op.q, &op.k, &op.v, &op.q_out, &op.k_out, &op.v_out, &op.k_cache, &op.v_cache}) {
        if (*t && !kit::rows_aligned(*t, kit::kTurnWidth)) return false;
    }
    return true;
}

// What each kernel is launched with.
struct HeadCall {
    kit::Rotation r;
    QkNormRopeParams p;
    kit::LaunchShape shape;
};
HeadCall head_call(const QkNormRope& op, const HeadPlan& planned, Context& context) {
    kit::Rotation r = kit::rotation_of(op, op.head_dim(), op.start, 0);
    const bool computed = !op.cos && !op.head_cos && !op.frequencies;
    if (computed) kit::set_frequencies(r, op.base, context);
    r.count = r.half;  // one launch turns all
    QkNormRopeParams p = parameters(op, r, planned, context.info());
    for (int pair = kit::kTurnPairs; computed && pair < std::min(r.half, kit::kTurnPairs + kMorePairs);
         ++pair)
        p.more[pair - kit::kTurnPairs] = kit::rotary_frequency(op.base, op.rotated(), pair);
    const std::size_t turns_bytes = static_cast<std::size_t>(planned.block_tokens) * 2 *
                                    static_cast<std::size_t>(p.turn_stride) * sizeof(float);
    return {r,
            p,
            {.grid = dim3(planned.blocks),
             .block = dim3(planned.threads),
             .dynamic_shared = op.head_cos ? 0 : turns_bytes,
             .dependent = true}};
}

template <class T>
void launch_as(const QkNormRope& op, Context& context) {
    const HeadPlan planned = plan(op, context.info());
    if (planned.blocks == 0 || op.head_dim() == 0) return;
    const HeadCall call = head_call(op, planned, context);
    const bool steps = op.rounding != Rounding::fused;
    const auto kernel = steps           ? qk_norm_rope<T, false, true>
                        : all_whole(op) ? qk_norm_rope<T, true, false>
                                        : qk_norm_rope<T, false, false>;
    kit::launch("qk_norm_rope", kernel, call.shape, context.stream(), call.r, call.p);
}
void launch(const QkNormRope& op, Context& context) {
    kit::with_wide_type(op.q.dtype,
                        [&](auto* type) { launch_as<std::remove_pointer_t<decltype(type)>>(op, context); });
}

// A thread of the kernel of tokens has one unit of Q and the same of K.
constexpr int kTokenStatic = 2048;  // bytes of shared memory beside the launch's, at most
std::int64_t head_units(const QkNormRope& op) { return kit::divide_up(op.head_dim(), 2 * kit::kTurnWidth); }
std::int64_t token_units(const QkNormRope& op) {
    return std::max(op.q.dim(-2), op.k ? op.k.dim(-2) : 0) * head_units(op);
}
// As many blocks as run at once, each with every so many-th token.
struct TokenPlan {
    unsigned threads = 0, blocks = 0;
    std::size_t shared = 0;
};
TokenPlan token_plan(const QkNormRope& op, const DeviceInfo& device) {
    TokenPlan plan;
    plan.threads = static_cast<unsigned>(kit::divide_up(token_units(op), 32) * 32);
    // Of two tokens cosines and sines, of whole units.
    const std::int64_t angles =
        op.head_cos ? 0 : 4 * kit::divide_up(op.rotated() / 2, kit::kTurnWidth) * kit::kTurnWidth;
    std::int64_t resident = 0;
    kit::with_wide_type(op.q.dtype, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        plan.shared = TokenRing<T>::bytes(plan.threads, tables_held(op)) +
                      static_cast<std::size_t>(angles) * sizeof(float);
        resident = kTokenBlocks<T> * kTokenThreads / std::max(plan.threads, 1u);
    });
    const auto block = static_cast<std::int64_t>(plan.shared) + kTokenStatic;
    resident =
        std::max<std::int64_t>(1, std::min({resident, std::int64_t{32}, device.shared_per_sm / block}));
    plan.blocks = static_cast<unsigned>(std::min(op.tokens(), resident * device.sms));
    return plan;
}
const char* decline_token(const QkNormRope& op, const DeviceInfo& device) {
    if (op.norm == QkNormRope::Norm::none) return "there is no norm";
    if (op.rounding != Rounding::fused) return "PyTorch's bits";
    if (op.v || op.k_cache) return "values, or a cache";
    if (!all_whole(op)) return "heads are not whole, aligned vectors";
    for (const Tensor* t : {&op.q_weight, &op.k_weight, &op.head_cos, &op.head_sin}) {
        if (*t && !kit::rows_aligned(*t, kit::kTurnWidth)) return "weights or tables are not aligned vectors";
    }
    if (op.norm == QkNormRope::Norm::head) {
        const std::int64_t units = head_units(op);
        if (units > 32 || (units & (units - 1)) != 0) return "a head's units are not the lanes of a warp";
        if (token_units(op) < 64) return "several tokens share a block";
    }
    if (token_units(op) > kTokenThreads) return "more than 8192 elements of Q or K";
    if (op.tokens() >> 30 != 0) return "2^30 tokens or more";
    if (token_plan(op, device).shared + kTokenStatic > static_cast<std::size_t>(device.shared_per_block))
        return "two tokens do not fit in shared memory";
    return nullptr;
}
template <class T>
void launch_token_as(const QkNormRope& op, Context& context) {
    if (token_units(op) * op.tokens() == 0) return;
    const TokenPlan plan = token_plan(op, context.info());
    HeadCall call = head_call(op, {.blocks = static_cast<unsigned>(op.tokens())}, context);
    call.shape.grid = dim3(plan.blocks);
    call.shape.block = dim3(plan.threads);
    call.shape.dynamic_shared = plan.shared;
    kit::launch("qk_norm_rope", qk_norm_rope_token<T>, call.shape, context.stream(), call.r, call.p);
}
void launch_token(const QkNormRope& op, Context& context) {
    kit::with_wide_type(
        op.q.dtype, [&](auto* type) { launch_token_as<std::remove_pointer_t<decltype(type)>>(op, context); });
}

// A lane of the kernel of warps has one unit of each of its heads.
struct WarpPlan {
    unsigned lanes_log2 = 0, units = 1;  // lanes of a head, units of a lane
    std::int64_t warps[3] = {};          // of a token's Q, K and V
    unsigned block_warps = 1;
    std::int64_t blocks = 0;

    std::int64_t token_warps() const { return warps[0] + warps[1] + warps[2]; }
};
WarpPlan warp_plan(const QkNormRope& op, const DeviceInfo& device) {
    WarpPlan plan;
    while (1 << plan.lanes_log2 < head_units(op)) ++plan.lanes_log2;
    // As many units as leave every multiprocessor the warps that it has registers for: they share the work on the angles.
    for (plan.units = kWarpUnits;; plan.units /= 2) {
        const std::int64_t heads = plan.units * (32 >> plan.lanes_log2);
        for (int part = 0; part < 3; ++part) {
            const Tensor& t = *std::array{&op.q, &op.k, &op.v}[static_cast<std::size_t>(part)];
            plan.warps[part] = t ? kit::divide_up(t.dim(-2), heads) : 0;
        }
        const bool half = std::max(op.q.dim(-2), op.k ? op.k.dim(-2) : 0) <= heads / 2;
        if (plan.units == 1 || (!half && plan.token_warps() * op.tokens() >= kWarpsResident * device.sms))
            break;
    }
    const std::int64_t warps = plan.token_warps() * op.tokens();
    plan.block_warps =
        static_cast<unsigned>(std::clamp<std::int64_t>(warps / device.sms, 1, kWarpThreads / 32));
    plan.blocks = kit::divide_up(warps, plan.block_warps);
    return plan;
}
const char* decline_warps(const QkNormRope& op, const DeviceInfo& device) {
    if (op.norm == QkNormRope::Norm::row) return "a norm of all heads";
    if (op.rounding != Rounding::fused) return "PyTorch's bits";
    if (op.head_cos) return "tables of heads";
    if (!all_whole(op)) return "heads are not whole, aligned vectors";
    if (head_units(op) > 32) return "heads of more than 512 elements";
    for (const Tensor* t : {&op.q_weight, &op.k_weight}) {
        if (*t &&
            (t->dtype != op.q.dtype || t->dim(0) != op.head_dim() || !kit::rows_aligned(*t, kit::kTurnWidth)))
            return "weights are not one head's, of q's dtype and aligned";
    }
    if (warp_plan(op, device).token_warps() * op.tokens() >> 31 != 0) return "2^31 warps or more";
    for (const Tensor* cache : {&op.k_cache, &op.v_cache}) {
        if (*cache && cache->dim(0) * cache->dim(1) >> 31 != 0) return "2^31 rows of a cache or more";
    }
    return nullptr;
}
template <class T>
void launch_warps_as(const QkNormRope& op, Context& context) {
    const WarpPlan plan = warp_plan(op, context.info());
    if (plan.blocks == 0) return;  // no tokens; caches keep what they have
    HeadCall call = head_call(op, {}, context);
    call.p.lanes_log2 = plan.lanes_log2;
    call.p.warps = {kit::Divisor::of(plan.token_warps()), static_cast<unsigned>(plan.warps[0]),
                    static_cast<unsigned>(plan.warps[0] + plan.warps[1]), plan.units};
    call.shape.grid = dim3(static_cast<unsigned>(plan.blocks));
    call.shape.block = dim3(plan.block_warps * 32);
    call.shape.dynamic_shared *= plan.block_warps;
    kit::launch("qk_norm_rope", qk_norm_rope_warps<T>, call.shape, context.stream(), call.r, call.p);
}
void launch_warps(const QkNormRope& op, Context& context) {
    kit::with_wide_type(
        op.q.dtype, [&](auto* type) { launch_warps_as<std::remove_pointer_t<decltype(type)>>(op, context); });
}

const RegisterImplementations<QkNormRope> kKernels{
    kit::kTarget,
    {{"tokens", decline_token,
      +[](const QkNormRope& op, const DeviceInfo& device) {
          const TokenPlan p = token_plan(op, device);
          return "threads=" + std::to_string(p.threads) + " blocks=" + std::to_string(p.blocks);
      },
      launch_token},
     {"warps", decline_warps,
      +[](const QkNormRope& op, const DeviceInfo& device) {
          const WarpPlan p = warp_plan(op, device);
          return "units=" + std::to_string(p.units) + " warps=" + std::to_string(p.block_warps) +
                 " blocks=" + std::to_string(p.blocks) + " lanes=" + std::to_string(1 << p.lanes_log2);
      },
      launch_warps},
     {"vectors",
      +[](const QkNormRope& op, const DeviceInfo&) -> const char* {
          if (op.tokens() >> 30 != 0) return "2^30 tokens or more";
          if (op.rotated() / 2 > kMaxHalf && !op.head_cos) return "more than 8192 elements of a head turn";
          if (op.head_dim() * std::max<std::int64_t>(1, heads_of(op)) >= 1 << 26)
              return "a token has 2^26 elements or more";
          return decline_steps(op);
      },
      +[](const QkNormRope& op, const DeviceInfo& device) {
          const HeadPlan p = plan(op, device);
          return "tokens=" + std::to_string(p.block_tokens) + " threads=" + std::to_string(p.threads) +
                 " blocks=" + std::to_string(p.blocks) + " lanes=" + std::to_string(p.lanes) +
                 " rounds=" + std::to_string(p.rounds);
      },
      launch}}};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
