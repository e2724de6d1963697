#include "cli/shapes.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include <halfeven/error.hpp>

#include "cli/files.hpp"

namespace halfeven::cli {

std::map<std::string, Shape> parse_shapes(const std::vector<std::string>& texts) {
  std::map<std::string, Shape> shapes;
  for (const std::string& text : texts) {
    const auto refuse = [&] {
      return Error(ErrorCode::usage, fmt::format("--shape takes NAME=1x3x224x224, not '{}'", printable(text)));
    };
    const std::size_t at = text.rfind('=');  // names may hold one
    if (at == std::string::npos || at == 0) throw refuse();
    Shape shape;
    const char* position = text.data() + at + 1;
    const char* const end = text.data() + text.size();
    while (position != end) {
      std::int64_t dimension = 0;
      const auto [next, error] = std::from_chars(position, end, dimension);
      if (error != std::errc() || dimension < 0 || (next != end && (*next != 'x' || next + 1 == end))) throw refuse();
      shape.push_back(dimension);
      position = next == end ? end : next + 1;
    }
    shapes[text.substr(0, at)] = std::move(shape);
  }
  return shapes;
}

void require_known_shape(const ValueInfo& input, const Shape& shape, const std::string& options) {
  if (std::any_of(shape.begin(), shape.end(), [](std::int64_t d) { return d < 0; })) {
    throw Error(ErrorCode::usage, fmt::format("input '{}' has unknown dimensions: give {} {}=1x3x224x224", input.name,
                                              options, input.name));
  }
}

}  // namespace halfeven::cli
