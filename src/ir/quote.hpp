// Names from a file, made fit for a message.
#pragma once

#include <string>
#include <string_view>

namespace halfeven::ir {

/// `name` in single quotes. Control characters, quotes, backslashes and bytes that are not UTF-8 print as \xNN; a long
/// name is cut and ends in "...".
std::string quote(std::string_view name);

/// The same without the quotes around it: for operators and domains.
std::string printable(std::string_view name);

}  // namespace halfeven::ir
