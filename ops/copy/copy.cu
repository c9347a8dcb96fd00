// copy on the GPU and in the emulator: policy and launches.
#include "ops/copy/copy.h"

#include "ops/copy/kernel.cuh"
#include "ops/copy/plan.h"
#include "weft/op.h"

namespace weft::inline WEFT_TARGET {
namespace {

using Way = CopyPlan::Way;

std::int64_t outer(const CopyPlan& plan) {
    std::int64_t n = 1;
    for (int i = 1; i < plan.axes; ++i) n *= plan.size[i];
    return n;
}

// The axes from the second on, but for one.
Walk walk(const CopyPlan& plan, int except = 0) {
    Walk w;
    for (int i = 1; i < plan.axes; ++i) {
        if (i == except) continue;
        w.x[w.axes.axes] = plan.x[i];
        w.out[w.axes.axes] = plan.out[i];
        w.axes.add(plan.size[i]);
    }
    return w;
}

kit::RowTiles tiles(const CopyPlan& plan, const DeviceInfo& device) {
    const bool vectors = plan.way == Way::vectors;
    return kit::tile_rows(outer(plan), plan.size[0], vectors ? 8 : 1, vectors ? 1 : batch_of(plan.word),
                          device);
}

// Sixteen bytes of the value that fills out.
uint4 pattern_of(const Copy& op) {
    uint4 pattern{};
    for (std::int64_t i = 0; i < 128 / bits(op.out.dtype); ++i)
        store_element(op.out.dtype, &pattern, i, static_cast<double>(op.value));
    return pattern;
}

Run run_of(const Copy& op, const CopyPlan& plan) {
    return {.x = op.x ? op.x.data : nullptr,
            .out = op.out.data,
            .x_step = plan.x[0],
            .out_step = plan.out[0],
            .pattern = op.x ? uint4{} : pattern_of(op),
            .rows = walk(plan)};
}

// Whether all is one run, whose words begin equally far from its beginning in both tensors.
bool is_straight(const CopyPlan& plan) {
    return plan.way == Way::words && plan.axes == 1 && plan.out[0] == 1 && plan.x[0] == 1 &&
           (plan.word == 16 || plan.head > 0);
}

Straight straight_of(const Copy& op, const CopyPlan& plan) {
    const std::int64_t size = bytes(op.out.dtype, op.out.numel()), head = bytes(op.out.dtype, plan.head);
    return {.x = op.x ? op.x.as<const char>() : nullptr,
            .out = op.out.as<char>(),
            .words = (size - head) / 16,
            .head = static_cast<int>(head),
            .tail = static_cast<int>((size - head) % 16),
            .pattern = op.x ? uint4{} : pattern_of(op)};
}

// Words that a thread copies: one, as long as the card has threads for all.
int straight_batch(const Straight& run, const DeviceInfo& device) {
    return run.words > std::int64_t{2048} * device.sms ? 4 : 1;
}
kit::LaunchShape straight_shape(const Straight& run, const DeviceInfo& device) {
    const unsigned threads = run.words < std::int64_t{256} * device.sms ? 64 : 256;
    const std::int64_t blocks = kit::divide_up(run.words, threads * straight_batch(run, device));
    return {.grid = dim3(static_cast<unsigned>(blocks)), .block = dim3(threads), .dependent = true};
}
void launch_straight(const Copy& op, const CopyPlan& plan, Context& context) {
    const Straight run = straight_of(op, plan);
    const bool one = straight_batch(run, context.info()) == 1;
    kit::launch("copy_run", one ? &copy_run<1> : &copy_run<4>, straight_shape(run, context.info()),
                context.stream(), run);
}

void launch_words(const Copy& op, const CopyPlan& plan, Context& context) {
    const kit::RowTiles t = tiles(plan, context.info());
    const Run run = run_of(op, plan);
    const auto with_word = [&](auto* type) {
        using Word = std::remove_pointer_t<decltype(type)>;
        kit::launch("copy_words", copy_words<Word>, t.shape(), context.stream(), run, t);
    };
    switch (plan.word) {
        case 16: return with_word(static_cast<uint4*>(nullptr));
        case 8: return with_word(static_cast<uint2*>(nullptr));
        case 4: return with_word(static_cast<unsigned*>(nullptr));
        case 2: return with_word(static_cast<unsigned short*>(nullptr));
        default: return with_word(static_cast<unsigned char*>(nullptr));
    }
}

Turn turn_of(const Copy& op, const CopyPlan& plan) {
    const int across = plan.across;
    return {.x = op.x.data,
            .out = op.out.data,
            .down = plan.size[0],
            .across = plan.size[across],
            .x_pitch = plan.x[0],
            .out_pitch = plan.out[across],
            .tiles_down = static_cast<unsigned>(kit::divide_up(plan.size[0], kTile)),
            .tiles_across = static_cast<unsigned>(kit::divide_up(plan.size[across], kTile)),
            .others = walk(plan, across)};
}

std::int64_t tile_count(const CopyPlan& plan) {
    return kit::divide_up(plan.size[0], kTile) * kit::divide_up(plan.size[plan.across], kTile) *
           (outer(plan) / plan.size[plan.across]);
}

void launch_tiles(const Copy& op, const CopyPlan& plan, Context& context) {
    const Turn turn = turn_of(op, plan);
    const kit::LaunchShape shape{
        .grid = dim3(static_cast<unsigned>(tile_count(plan))), .block = dim3(256), .dependent = true};
    plan.word == 2 ? kit::launch("copy_tiles", copy_tiles<unsigned short>, shape, context.stream(), turn)
                   : kit::launch("copy_tiles", copy_tiles<unsigned>, shape, context.stream(), turn);
}

// Two views whose rows are contiguous.
void launch_vectors(const Copy& op, const CopyPlan& plan, Context& context) {
    using kit::bf16, kit::half, kit::Types;
    const std::int64_t rows = outer(plan);
    const auto view = [&](const Tensor& t, const std::int64_t* stride) {
        const std::int64_t shape[] = {rows, plan.size[0]},
                           strides[] = {rows > 1 ? stride[1] : plan.size[0], 1};
        return Tensor(t.data, t.dtype, shape, strides, t.device);
    };
    const kit::RowTiles t = tiles(plan, context.info());
    const kit::VectorRows x = kit::input_rows(view(op.x, plan.x), 8, context.info()),
                          out = kit::vector_rows(view(op.out, plan.out), 8);
    const auto go = [&](auto* in, auto* to) {
        kit::launch("convert",
                    convert<std::remove_pointer_t<decltype(in)>, std::remove_pointer_t<decltype(to)>>,
                    t.shape(), context.stream(), x, out, t);
    };
    const bool known =
        kit::whole_vectors(t, 8, {x, out}) &&
        kit::with_types<Types<float, bf16>, Types<float, half>, Types<bf16, float>, Types<half, float>,
                        Types<bf16, half>, Types<half, bf16>>(x.dtype, out.dtype, [&](auto types) {
            go(static_cast<typename decltype(types)::In*>(nullptr),
               static_cast<typename decltype(types)::Out*>(nullptr));
        });
    if (!known) go(static_cast<kit::Any*>(nullptr), static_cast<kit::Any*>(nullptr));
}

void launch_elements(const Copy& op, const CopyPlan& plan, Context& context) {
    const kit::RowTiles t = tiles(plan, context.info());
    kit::launch("convert_elements", convert_elements, t.shape(), context.stream(), run_of(op, plan), t,
                op.x.dtype, op.out.dtype);
}

void launch_plan(const Copy& op, const CopyPlan& plan, Context& context) {
    switch (plan.way) {
        case Way::words: return launch_words(op, plan, context);
        case Way::tiles: return launch_tiles(op, plan, context);
        case Way::vectors: return launch_vectors(op, plan, context);
        default: return launch_elements(op, plan, context);
    }
}

// The elements [begin, end) of two single runs.
Copy part(const Copy& op, std::int64_t begin, std::int64_t end) {
    const auto piece = [&](const Tensor& t) {
        return t ? Tensor(t.as<char>() + bytes(t.dtype, begin), t.dtype, {end - begin}, t.device) : t;
    };
    return {.x = piece(op.x), .out = piece(op.out), .value = op.value};
}

void launch(const Copy& op, Context& context) {
    const CopyPlan plan = plan_copy(op);
    if (is_straight(plan)) return launch_straight(op, plan, context);
    const std::int64_t end = op.out.numel(), whole = end - plan.tail;
    if (plan.tail == 0 || whole == 0) return launch_plan(op, plan, context);
    // A single run: the few elements behind its whole words are a launch of their own.
    for (const Copy& one : {part(op, 0, whole), part(op, whole, end)})
        launch_plan(one, plan_copy(one), context);
}

const char* decline(const Copy& op, const DeviceInfo&) {
    const CopyPlan plan = plan_copy(op);
    return plan.way == Way::tiles && tile_count(plan) >> 31 != 0 ? "2^31 tiles or more" : nullptr;
}

std::string config(const Copy& op, const DeviceInfo& device) {
    const CopyPlan plan = plan_copy(op);
    if (is_straight(plan)) {
        const Straight run = straight_of(op, plan);
        const kit::LaunchShape shape = straight_shape(run, device);
        const std::string edge =
            run.head + run.tail > 0 ? std::to_string(run.head + run.tail) + " bytes and " : "";
        return "one run, " + edge + "words of 16, " + std::to_string(straight_batch(run, device)) +
               " a thread, threads=" + std::to_string(shape.block.x) +
               " blocks=" + std::to_string(shape.grid.x);
    }
    const std::string end = plan.tail > 0 ? ", then " + std::to_string(plan.tail) + " elements" : "";
    switch (plan.way) {
        case Way::words:
            return "words of " + std::to_string(plan.word) + ", " + tiles(plan, device).describe() + end;
        case Way::tiles: return "tiles of 64x64, blocks=" + std::to_string(tile_count(plan));
        case Way::vectors: return "converted vectors, " + tiles(plan, device).describe() + end;
        default: return "converted elements, " + tiles(plan, device).describe();
    }
}

const RegisterImplementations<Copy> kKernels{kit::kTarget, {{"strides", decline, config, launch}}};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
