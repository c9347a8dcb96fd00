// The header of a safetensors file: its JSON, and what must hold between it and the data.
#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "io/io_error.h"
#include "io/safetensors.h"

namespace weft {
namespace {

constexpr std::uint64_t kLongestHeader = 100'000'000;  // the limit of the format's own reader
constexpr std::uint64_t kLengthBytes = 8;

struct FormatDType {
    std::string_view name;
    int bits;
    std::optional<DType> dtype;
};
constexpr std::array kFormatDTypes{
    FormatDType{"F32", 32, DType::fp32},
    FormatDType{"BF16", 16, DType::bf16},
    FormatDType{"F16", 16, DType::fp16},
    FormatDType{"F8_E4M3", 8, DType::fp8_e4m3},
    FormatDType{"F8_E5M2", 8, DType::fp8_e5m2},
    FormatDType{"I8", 8, DType::int8},
    FormatDType{"I32", 32, DType::int32},
    FormatDType{"I64", 64, DType::int64},
    FormatDType{"U8", 8, DType::uint8},
    // Legal in a file beside tensors that weft reads; an error only when asked for.
    FormatDType{"BOOL", 8, {}},
    FormatDType{"F4", 4, {}},
    FormatDType{"F6_E2M3", 6, {}},
    FormatDType{"F6_E3M2", 6, {}},
    FormatDType{"F8_E8M0", 8, {}},
    FormatDType{"F8_E4M3FNUZ", 8, {}},
    FormatDType{"F8_E5M2FNUZ", 8, {}},
    FormatDType{"I16", 16, {}},
    FormatDType{"U16", 16, {}},
    FormatDType{"U32", 32, {}},
    FormatDType{"U64", 64, {}},
    FormatDType{"F64", 64, {}},
    FormatDType{"C64", 64, {}},
};

const FormatDType* find_dtype(std::string_view name) {
    const auto* it = std::ranges::find(kFormatDTypes, name, &FormatDType::name);
    return it == kFormatDTypes.end() ? nullptr : &*it;
}

// Follows the parser's events through the only structure that a header may have; the first event out of
// place ends the parse. No tree is built, so nesting and size cost nothing that the file does not contain.
class HeaderEvents {
   public:
    using Json = nlohmann::json;

    bool null() { return unexpected("null"); }
    bool boolean(bool) { return unexpected("a boolean"); }
    bool number_integer(Json::number_integer_t) { return unexpected("a negative number"); }
    bool number_float(Json::number_float_t, const std::string& text) {
        return unexpected("the number " + quote(text) + ", no 64-bit integer");
    }
    bool binary(Json::binary_t&) { return unexpected("binary data"); }

    bool number_unsigned(Json::number_unsigned_t value) {
        if (state_ == State::in_shape) {
            if (value > static_cast<std::uint64_t>(INT64_MAX)) return unexpected("a number beyond 2^63 - 1");
            entry_.shape.push_back(static_cast<std::int64_t>(value));
            return true;
        }
        if (state_ == State::in_offsets) {
            if (offsets_ == 2) return fail("tensor {}: data_offsets has more than two numbers");
            (offsets_++ == 0 ? entry_.begin : entry_.end) = value;
            return true;
        }
        return unexpected("a number");
    }

    bool string(std::string& value) {
        if (state_ == State::want_dtype) {
            entry_.format_dtype = value;
            state_ = State::in_tensor;
            return true;
        }
        if (state_ == State::want_metadata_value) {
            header.metadata[key_] = value;
            state_ = State::in_metadata;
            return true;
        }
        return unexpected("the string " + quote(value));
    }

    bool key(std::string& value) {
        if (state_ == State::in_header) return header_key(value);
        if (state_ == State::in_metadata) {
            if (header.metadata.contains(value))
                return fail("__metadata__ has the key " + quote(value) + " twice");
            key_ = value;
            state_ = State::want_metadata_value;
            return true;
        }
        return tensor_key(value);
    }

    bool start_object(std::size_t) {
        switch (state_) {
            case State::start: state_ = State::in_header; return true;
            case State::want_metadata: state_ = State::in_metadata; return true;
            case State::want_tensor: state_ = State::in_tensor; return true;
            default: return unexpected("an object");
        }
    }

    bool end_object() {
        if (state_ == State::in_tensor) {
            for (const auto& [field, seen] :
                 {std::pair{"dtype", dtype_}, {"shape", shape_}, {"data_offsets", ranges_}}) {
                if (!seen) return fail(std::string("tensor {}: has no ") + field);
            }
            if (offsets_ != 2) return fail("tensor {}: data_offsets has fewer than two numbers");
            header.entries.push_back(std::move(entry_));
        }
        state_ = state_ == State::in_header ? State::done : State::in_header;
        return true;
    }

    bool start_array(std::size_t) {
        if (state_ == State::want_shape) {
            state_ = State::in_shape;
        } else if (state_ == State::want_offsets) {
            state_ = State::in_offsets;
        } else {
            return unexpected("an array");
        }
        return true;
    }

    bool end_array() {
        state_ = State::in_tensor;
        return true;
    }

    bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) {
        error = fmt::format("the header's JSON is malformed at byte {} of it", position);
        return false;
    }

    SafetensorsHeader header;
    std::string error;

   private:
    enum class State {
        start,
        in_header,
        want_metadata,
        in_metadata,
        want_metadata_value,
        want_tensor,
        in_tensor,
        want_dtype,
        want_shape,
        in_shape,
        want_offsets,
        in_offsets,
        done,
    };

    bool header_key(const std::string& value) {
        if (!names_.insert(value).second) return fail(quote(value) + " appears twice in the header");
        if (value == "__metadata__") {
            state_ = State::want_metadata;
            return true;
        }
        entry_ = {};
        entry_.name = value;
        dtype_ = shape_ = ranges_ = false;
        offsets_ = 0;
        state_ = State::want_tensor;
        return true;
    }

    bool tensor_key(const std::string& value) {
        bool* seen = nullptr;
        if (value == "dtype") {
            seen = &dtype_;
            state_ = State::want_dtype;
        } else if (value == "shape") {
            seen = &shape_;
            state_ = State::want_shape;
        } else if (value == "data_offsets") {
            seen = &ranges_;
            state_ = State::want_offsets;
        } else {
            return fail("tensor {}: unknown field " + quote(value));
        }
        if (*seen) return fail("tensor {}: has " + value + " twice");
        *seen = true;
        return true;
    }

    const char* wanted() const {
        switch (state_) {
            case State::start: return "an object";
            case State::want_metadata: return "__metadata__: expected an object of strings";
            case State::want_metadata_value: return "__metadata__: expected a string";
            case State::want_tensor: return "tensor {}: expected an object";
            case State::want_dtype: return "tensor {}: dtype: expected a string";
            case State::want_shape: return "tensor {}: shape: expected an array of sizes";
            case State::in_shape: return "tensor {}: shape: expected a size";
            case State::want_offsets: return "tensor {}: data_offsets: expected an array of two numbers";
            case State::in_offsets: return "tensor {}: data_offsets: expected a number of bytes";
            default: return "expected nothing more";
        }
    }

    bool unexpected(const std::string& got) { return fail(std::string(wanted()) + ", got " + got); }

    // "{}" in `message` becomes the tensor's name.
    bool fail(std::string message) {
        const auto hole = message.find("{}");
        if (hole != std::string::npos) message.replace(hole, 2, quote(entry_.name));
        error = std::move(message);
        return false;
    }

    State state_ = State::start;
    SafetensorsEntry entry_;
    std::string key_;
    std::unordered_set<std::string> names_;
    bool dtype_ = false, shape_ = false, ranges_ = false;
    int offsets_ = 0;
};

// Bytes of the tensor by its dtype and shape. The product of the sizes, zeros left out, must fit as well:
// strides are made of it.
std::uint64_t stated_bytes(const SafetensorsEntry& entry, int bits, const std::string& file_name) {
    std::int64_t product = bits;
    bool empty = false;
    for (const std::int64_t size : entry.shape) {
        if (size == 0) {
            empty = true;
        } else if (__builtin_mul_overflow(product, size, &product)) {
            fail_io("{}: tensor {}: shape {} of {} overflows 64 bits", file_name, quote(entry.name),
                    shape_text(entry.shape), entry.format_dtype);
        }
    }
    if (empty) return 0;
    if (product % 8 != 0) {
        fail_io("{}: tensor {}: shape {} of {} does not fill whole bytes", file_name, quote(entry.name),
                shape_text(entry.shape), entry.format_dtype);
    }
    return static_cast<std::uint64_t>(product) / 8;
}

void check_entry(SafetensorsEntry& entry, std::uint64_t data_bytes, const std::string& file_name) {
    const FormatDType* const format = find_dtype(entry.format_dtype);
    if (format == nullptr) {
        fail_io("{}: tensor {}: unknown dtype {}", file_name, quote(entry.name), quote(entry.format_dtype));
    }
    entry.dtype = format->dtype;
    if (entry.begin > entry.end) {
        fail_io("{}: tensor {}: data_offsets [{}, {}] end before they begin", file_name, quote(entry.name),
                entry.begin, entry.end);
    }
    if (entry.end > data_bytes) {
        fail_io(
            "{}: tensor {}: data_offsets [{}, {}] reach beyond the {} bytes of data; the file is truncated",
            file_name, quote(entry.name), entry.begin, entry.end, data_bytes);
    }
    const std::uint64_t expected = stated_bytes(entry, format->bits, file_name);
    if (entry.end - entry.begin != expected) {
        fail_io("{}: tensor {}: {} of shape {} has {} bytes, data_offsets [{}, {}] have {}", file_name,
                quote(entry.name), entry.format_dtype, shape_text(entry.shape), expected, entry.begin,
                entry.end, entry.end - entry.begin);
    }
}

void check_coverage(std::vector<SafetensorsEntry>& entries, std::uint64_t data_bytes,
                    const std::string& file_name) {
    std::ranges::sort(entries, [](const auto& a, const auto& b) {
        return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
    });
    std::uint64_t covered = 0;
    for (const SafetensorsEntry& entry : entries) {
        if (entry.begin != covered) {
            fail_io("{}: tensor {}: begins at byte {} of the data, expected {}: {}", file_name,
                    quote(entry.name), entry.begin, covered,
                    entry.begin < covered ? "tensors overlap" : "there is a gap");
        }
        covered = entry.end;
    }
    if (covered != data_bytes) {
        fail_io("{}: the tensors cover {} bytes of data, the file has {}", file_name, covered, data_bytes);
    }
}

}  // namespace

std::optional<DType> safetensors_dtype(std::string_view format_dtype) {
    const FormatDType* const format = find_dtype(format_dtype);
    return format == nullptr ? std::nullopt : format->dtype;
}

std::optional<std::string_view> safetensors_name(DType dtype) {
    for (const FormatDType& format : kFormatDTypes) {
        if (format.dtype == dtype) return format.name;
    }
    return std::nullopt;
}

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file, const std::string& file_name) {
    if (file.size() < kLengthBytes) {
        fail_io("{}: {} bytes are too few for a safetensors file", file_name, file.size());
    }
    std::uint64_t length = 0;
    for (std::uint64_t i = 0; i < kLengthBytes; ++i) length |= static_cast<std::uint64_t>(file[i]) << (8 * i);
    if (length > kLongestHeader) {
        fail_io("{}: states a header of {} bytes, more than {}; not a safetensors file", file_name, length,
                kLongestHeader);
    }
    if (length > file.size() - kLengthBytes) {
        fail_io("{}: states a header of {} bytes, but only {} follow; the file is truncated", file_name,
                length, file.size() - kLengthBytes);
    }
    const auto* const text = reinterpret_cast<const char*>(file.data()) + kLengthBytes;
    if (length == 0 || text[0] != '{') fail_io("{}: the header does not begin with '{{'", file_name);
    HeaderEvents events;
    if (!nlohmann::json::sax_parse(text, text + length, &events)) fail_io("{}: {}", file_name, events.error);
    SafetensorsHeader header = std::move(events.header);
    header.data_start = kLengthBytes + length;
    const std::uint64_t data_bytes = file.size() - header.data_start;
    for (SafetensorsEntry& entry : header.entries) check_entry(entry, data_bytes, file_name);
    check_coverage(header.entries, data_bytes, file_name);
    return header;
}

}  // namespace weft
