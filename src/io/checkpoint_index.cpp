// The index of a sharded checkpoint: which file holds which tensor.
#include <nlohmann/json.hpp>

#include "io/io_error.h"
#include "io/safetensors.h"

namespace weft {
namespace {

// Picks weight_map out of the parser's events and passes over everything else.
class IndexEvents {
   public:
    using Json = nlohmann::json;

    bool null() { return scalar(); }
    bool boolean(bool) { return scalar(); }
    bool number_integer(Json::number_integer_t) { return scalar(); }
    bool number_unsigned(Json::number_unsigned_t) { return scalar(); }
    bool number_float(Json::number_float_t, const std::string&) { return scalar(); }
    bool binary(Json::binary_t&) { return scalar(); }
    bool string(std::string& value) { return in_map() ? place(value) : scalar(); }
    bool start_array(std::size_t) { return open(false); }
    bool end_array() { return close(); }
    bool start_object(std::size_t) { return open(true); }
    bool end_object() { return close(); }

    bool key(std::string& value) {
        if (depth_ == 1) map_next_ = value == "weight_map";
        if (map_next_ && found) return fail("has 'weight_map' twice");
        if (in_map()) tensor_ = value;
        return true;
    }

    bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) {
        return fail(fmt::format("the JSON is malformed at byte {}", position));
    }

    std::map<std::string, std::string> files;
    std::string error;
    bool found = false;

   private:
    bool in_map() const { return map_depth_ == depth_ && depth_ > 0; }

    bool open(bool object) {
        if (in_map()) return fail(fmt::format("tensor {}: expected the name of a file", quote(tensor_)));
        if (depth_ == 0 && !object) return fail("expected an object");
        if (map_next_ && !object) return fail("'weight_map': expected an object");
        ++depth_;
        if (map_next_) {
            map_next_ = false;
            found = true;
            map_depth_ = depth_;
        }
        return true;
    }

    bool close() {
        if (map_depth_ == depth_) map_depth_ = 0;
        --depth_;
        return true;
    }

    bool scalar() {
        if (in_map()) return fail(fmt::format("tensor {}: expected the name of a file", quote(tensor_)));
        if (depth_ == 0) return fail("expected an object");
        if (map_next_) return fail("'weight_map': expected an object");
        return true;
    }

    bool place(const std::string& file) {
        // A bare name only: an index must not lead out of its folder.
        constexpr std::string_view kSeparators("/\0", 2);
        if (file.empty() || file == "." || file == ".." ||
            file.find_first_of(kSeparators) != std::string::npos) {
            return fail(fmt::format("tensor {}: {} is not the bare name of a file beside the index",
                                    quote(tensor_), quote(file)));
        }
        if (!files.emplace(tensor_, file).second) return fail(fmt::format("has {} twice", quote(tensor_)));
        return true;
    }

    bool fail(std::string message) {
        error = std::move(message);
        return false;
    }

    std::string tensor_;
    std::int64_t depth_ = 0, map_depth_ = 0;
    bool map_next_ = false;
};

}  // namespace

std::map<std::string, std::string> parse_checkpoint_index(std::string_view json,
                                                          const std::string& file_name) {
    IndexEvents events;
    if (!nlohmann::json::sax_parse(json.begin(), json.end(), &events))
        fail_io("{}: {}", file_name, events.error);
    if (!events.found) fail_io("{}: has no 'weight_map'", file_name);
    return std::move(events.files);
}

}  // namespace weft
