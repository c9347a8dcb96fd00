// Running and timing the encoder.
#include "pipelines/pi05/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "io/safetensors.h"
#include "weft/graph.h"
#include "weft/roofline.h"

namespace weft {
namespace {

// The centre of an image, `side` pixels high and wide.
Image centre(Image image, std::int64_t side) {
    if (side == 0) return image;
    if (side > image.height || side > image.width) {
        throw Error(ErrorCode::invalid_argument, "pi05-encoder", "crop",
                    fmt::format("{} pixels from an image of {} x {}", side, image.height, image.width));
    }
    const std::int64_t top = (image.height - side) / 2, left = (image.width - side) / 2;
    Image part{side, side, {}};
    for (std::int64_t y = top; y < top + side; ++y) {
        const auto row = image.pixels.begin() + 3 * (y * image.width + left);
        part.pixels.insert(part.pixels.end(), row, row + 3 * side);
    }
    return part;
}

std::vector<float> to_host(const Tensor& tensor) {
    std::vector<std::byte> raw(static_cast<std::size_t>(bytes(tensor.dtype, tensor.numel())));
    copy_bytes(raw.data(), kCpu, tensor.data, tensor.device, raw.size());
    std::vector<float> values(static_cast<std::size_t>(tensor.numel()));
    for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<float>(load_element(tensor.dtype, raw.data(), static_cast<std::int64_t>(i)));
    }
    return values;
}

std::vector<double> time_replays(Context& context, const Graph& graph, int repeats) {
    for (int i = 0; i < std::min(repeats, 5); ++i) graph.replay();
    std::vector<double> samples;
    for (int i = 0; i < repeats; ++i) samples.push_back(time_us(context, [&] { graph.replay(); }));
    std::sort(samples.begin(), samples.end());
    return samples;
}

// Each label's calls of all layers alone in a graph: the time that the forward pass spends on them, without
// the overlap of dependent launches.
std::vector<LabelTime> by_label(const Steps& steps, Context& context, int repeats) {
    std::vector<LabelTime> labels;
    for (const Step& step : steps.all()) {
        auto it = std::find_if(labels.begin(), labels.end(),
                               [&](const LabelTime& t) { return t.label == step.label && t.op == step.op; });
        if (it == labels.end()) {
            labels.push_back({.label = step.label,
                              .op = step.op,
                              .implementation = step.implementation(),
                              .config = step.config,
                              .math = step.work.math});
            it = labels.end() - 1;
        }
        ++it->calls;
        it->floor_us += floor_us(step.work, context.info());
        it->bytes += step.work.bytes;
        it->flops += step.work.flops;
    }
    for (LabelTime& label : labels) {
        if (repeats == 0) continue;
        const Graph graph(context, [&] {
            for (const Step& step : steps.all()) {
                if (step.label == label.label && step.op == label.op) step.run();
            }
        });
        label.us = quantile(time_replays(context, graph, repeats), 0.5);
    }
    return labels;
}

void write_results(const SessionOptions& options, const Encoder& encoder, SessionResult& result) {
    const std::int64_t shape[] = {encoder.tokens(), result.config.width};
    const NamedTensor tensors[] = {
        {"embeddings", Tensor(result.embeddings.data(), DType::fp32, shape)},
        {"output", Tensor(result.output.data(), DType::fp32, shape)},
    };
    write_safetensors(options.out, tensors,
                      {{"pipeline", "pi05-encoder"}, {"dtype", std::string(name(options.dtype))}});
}

void run_embedding(const Steps& steps) {
    for (const Step& step : steps.all()) {
        if (step.label == "embed") step.run();
    }
}

void measure(const SessionOptions& options, const Steps& steps, Context& context, SessionResult& result) {
    const Graph graph(context, [&] { steps.run(); });
    graph.replay();
    synchronize(context.device(), context.stream());
    const auto outside = std::count_if(steps.all().begin(), steps.all().end(), [](const Step& s) {
        return s.label == "embed" || s.label == "final norm";
    });
    if (graph.launches() > 0) {
        result.launches_per_layer =
            static_cast<double>(graph.launches() - outside) / static_cast<double>(result.config.layers);
    }
    if (options.repeats > 0) result.samples_us = time_replays(context, graph, options.repeats);
}

GemmaConfig config_of(const Checkpoint& checkpoint, const SessionOptions& options) {
    GemmaConfig config = gemma_config(checkpoint);
    if (options.layers > 0) config.layers = std::min(config.layers, options.layers);
    return config;
}

}  // namespace

std::vector<LabelTime> plan_session(const SessionOptions& options, const DeviceInfo& device) {
    const Checkpoint checkpoint(options.checkpoint);
    const GemmaConfig config = config_of(checkpoint, options);
    Context context(kEmulator);
    context.set_info(device);
    const GemmaWeights weights = GemmaWeights::load(checkpoint, config, options.dtype, kEmulator);
    const Image image = centre(read_ppm(options.image), options.crop);
    const EncoderShape shape{options.views, image.height, image.width,
                             static_cast<std::int64_t>(options.prompt.size())};
    const Encoder encoder(config, shape, weights, context);
    return by_label(encoder.steps(Precision::full), context, 0);
}

SessionResult run_session(const SessionOptions& options, const std::function<void(const std::string&)>& say) {
    const Checkpoint checkpoint(options.checkpoint);
    SessionResult result;
    result.config = config_of(checkpoint, options);
    const OwnedStream stream(options.device);
    Context context(options.device, stream.get());
    for (const std::string& name : options.avoid) context.avoid(name);
    context.set_tuning(true);  // once, before the capture

    say(fmt::format("loading {} layers as {} on {}", result.config.layers, name(options.dtype),
                    context.info().name));
    GemmaWeights weights = GemmaWeights::load(checkpoint, result.config, options.dtype, options.device);
    Image image = centre(read_ppm(options.image), options.crop);
    const EncoderShape shape{options.views, image.height, image.width,
                             static_cast<std::int64_t>(options.prompt.size())};
    Encoder encoder(result.config, shape, weights, context);
    encoder.set_input(image, options.prompt);
    result.tokens = encoder.tokens();
    if (options.precision == Precision::fp8) {
        say("calibrating: one pass that records each GEMM input's largest magnitude");
        weights.quantize(context);
        encoder.calibrate();
    }

    say(fmt::format("running {} tokens", result.tokens));
    const Steps steps = encoder.steps(options.precision);
    run_embedding(steps);
    synchronize(context.device(), context.stream());
    result.embeddings = to_host(encoder.embeddings());
    steps.run();  // plans and scratch find their size before the capture
    synchronize(context.device(), context.stream());
    if (options.repeats > 0 || options.device.type == DeviceType::cuda)
        measure(options, steps, context, result);
    result.output = to_host(encoder.output());
    result.labels = by_label(steps, context, options.repeats);
    if (!options.out.empty()) write_results(options, encoder, result);
    return result;
}

double quantile(const std::vector<double>& sorted, double share) {
    return sorted.empty()
               ? 0
               : sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1) + 0.5)];
}

Closeness closeness(const std::vector<float>& result, const std::vector<float>& reference) {
    double difference = 0, dot = 0, a = 0, b = 0;
    for (std::size_t i = 0; i < reference.size(); ++i) {
        const double x = result[i], y = reference[i];
        difference += (x - y) * (x - y);
        dot += x * y;
        a += x * x;
        b += y * y;
    }
    return {std::sqrt(difference / b), dot / std::sqrt(a * b)};
}

}  // namespace weft
