#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>
#include <optional>
#include <system_error>

#include <nlohmann/json.hpp>

#include <halfeven/executable.hpp>
#include <halfeven/halfeven.hpp>

#include "cli/check.hpp"
#include "cli/commands.hpp"
#include "cli/engine.hpp"
#include "cli/files.hpp"
#include "cli/inputs.hpp"
#include "cli/npy.hpp"
#include "cli/output.hpp"
#include "cli/table.hpp"
#include "cli/values.hpp"

namespace halfeven::cli {
namespace {

using Json = nlohmann::ordered_json;

struct RunArguments {
  std::string model;
  InputArguments inputs;
  std::string mean;
  std::string std;
  std::string size;
  std::string layout = "nchw";
  std::string channels;
  std::string fit = "stretch";
  std::string contract = "exact";
  std::string backend = "auto";
  EngineOptions engine;
  std::string output_dir;
  std::string hash_file;
  bool json = false;
  bool check = false;
};

std::int64_t parse_side(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1) {
    throw Error(ErrorCode::usage, "--size takes HEIGHTxWIDTH, 48x192 say");
  }
  return value;
}

// "0.5" or "0.485,0.456,0.406"; nothing for an option that is not given.
std::vector<double> parse_numbers(const std::string& text, std::string_view option) {
  std::vector<double> values;
  const char* position = text.data();
  const char* const end = position + text.size();
  while (position != end) {
    double value = 0;
    const auto [next, error] = std::from_chars(position, end, value);
    const bool separated = next == end || (*next == ',' && next + 1 != end);
    if (error != std::errc() || !separated) {
      throw Error(ErrorCode::usage, fmt::format("{} takes a number, or several as in 0.5,0.4,0.5", option));
    }
    values.push_back(value);
    position = next == end ? end : next + 1;
  }
  return values;
}

ImageOptions image_options(const RunArguments& arguments) {
  ImageOptions options;
  options.mean = parse_numbers(arguments.mean, "--mean");
  options.std = parse_numbers(arguments.std, "--std");
  options.layout = arguments.layout == "nhwc" ? Layout::nhwc : Layout::nchw;
  options.fit = arguments.fit == "pad" ? Fit::pad : Fit::stretch;
  if (arguments.channels == "rgb") options.channels = Channels::rgb;
  if (arguments.channels == "bgr") options.channels = Channels::bgr;
  if (arguments.channels == "gray") options.channels = Channels::gray;
  if (!arguments.size.empty()) {
    const std::size_t x = arguments.size.find('x');
    options.height = parse_side(std::string_view(arguments.size).substr(0, x));
    options.width = parse_side(x == std::string::npos ? "" : std::string_view(arguments.size).substr(x + 1));
  }
  return options;
}

// {"name": ["float32", [1, 2], "16 hex digits"], ...}, sorted by name, a tensor a line.
class HashList {
 public:
  void add(const std::string& name, const Tensor& tensor) {
    lines_[name] = Json::array({type_name(tensor.dtype()), tensor.shape(), hash(tensor)});
  }

  std::string text() const {
    const auto dump = [](const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); };
    std::string result = "{";
    for (const auto& [name, line] : lines_) {
      result += fmt::format("{}\n{}: {}", result.size() > 1 ? "," : "", dump(name), dump(line));
    }
    return result + "\n}\n";
  }

 private:
  std::map<std::string, Json> lines_;
};

// Numbers as JSON has them; NaN and infinities, which it has not, as strings.
Json json_element(const Tensor& tensor, std::size_t index) {
  const std::string text = format_element(tensor, index);
  return Json::accept(text) ? Json::parse(text) : Json(text);
}

struct Output {
  std::string name;
  Tensor tensor;
  std::string file;  // empty: not saved
};

Json to_json(const Output& output) {
  const Range range = find_range(output.tensor);
  Json json = {{"name", output.name}, {"type", type_name(output.tensor.dtype())}, {"shape", output.tensor.shape()}};
  json["min"] = range.numbers > 0 ? json_element(output.tensor, range.min_index) : Json();
  json["max"] = range.numbers > 0 ? json_element(output.tensor, range.max_index) : Json();
  if (range.nans > 0) json["nans"] = range.nans;
  json["hash"] = hash(output.tensor);
  if (!output.file.empty()) json["file"] = output.file;
  return json;
}

std::string range_text(const Tensor& tensor) {
  const Range range = find_range(tensor);
  std::string text = range.numbers == 0 ? "-"
                                        : fmt::format("{} .. {}", format_element(tensor, range.min_index),
                                                      format_element(tensor, range.max_index));
  if (range.nans > 0) text += fmt::format(" ({} NaN)", range.nans);
  return text;
}

Json to_json(const CheckResult& check) {
  Json json = {{"passed", check.passed()},
               {"repeated_on_threads", check.repeat_threads},
               {"different_bits", check.repeat_same_form ? Json(check.repeat.bits) : Json()},
               {"bits", check.repeat.total_bits}};
  Json& other = json[std::string(to_string(check.other))];
  if (!check.other_error.empty()) {
    other["error"] = check.other_error;
  } else if (!check.other_same_form) {
    other["error"] = "a type or shape differs";
  } else {
    other["different_values"] = check.other_difference.values;
    other["values"] = check.other_difference.total_values;
    other["largest_difference"] =
        std::isfinite(check.other_difference.largest) ? Json(check.other_difference.largest) : Json();
  }
  return json;
}

void report(const RunArguments& arguments, const std::vector<Output>& outputs,
            const std::optional<CheckResult>& check) {
  if (arguments.json) {
    Json json = {{"contract", arguments.contract}, {"backend", arguments.backend}, {"outputs", Json::array()}};
    for (const Output& output : outputs) json["outputs"].push_back(to_json(output));
    if (check) json["check"] = to_json(*check);
    print(json);
    return;
  }
  Table table({"output", "type", "shape", "range", "hash"});
  for (const Output& output : outputs) {
    table.add({printable(output.name), type_name(output.tensor.dtype()), to_string(output.tensor.shape()),
               range_text(output.tensor), hash(output.tensor)});
  }
  print(table.text());
  if (check) print(printable(check->text()) + "\n");
}

// The model on integer kernels, for the shapes at hand. The model is let go if nobody else needs it.
std::vector<Tensor> run_kernels(Model model, const NamedTensors& inputs, const RunArguments& arguments) {
  check_inputs(model, inputs, warn);  // a missing input is its own fault, where compile() would blame a shape
  CompileOptions options = compile_options(arguments.engine);
  options.backend = arguments.backend;
  for (const auto& [name, tensor] : inputs) options.shapes[name] = tensor.shape();
  return Context(Executable::compile(std::move(model), options)).run(inputs);
}

// Whether kernels are to compute: asked for, or possible where the choice is left open.
bool wants_kernels(const RunArguments& arguments) {
  if (arguments.backend == "reference") return false;
  const bool possible = arguments.contract == "exact" && arguments.hash_file.empty();
  if (!possible && arguments.backend == "cpu") {
    throw Error(ErrorCode::usage,
                "--backend cpu computes the exact contract and keeps no intermediate tensors: leave out "
                "--contract onnx-float32 and --dump-hashes, or take --backend reference");
  }
  return possible;
}

int run(const RunArguments& arguments) {
  if (arguments.engine.threads < 0) throw Error(ErrorCode::usage, "--threads takes 0 or more");
  InputArguments input_arguments = arguments.inputs;
  input_arguments.image_options = image_options(arguments);
  InterpretOptions options;
  options.contract = *parse_contract(arguments.contract);
  options.threads = arguments.engine.threads;

  Model model = Model::load(std::filesystem::path(arguments.model));
  const std::vector<ValueInfo> infos = model.outputs();
  for (const std::string& warning : model.warnings()) warn(warning);
  const NamedTensors inputs = load_inputs(model.inputs(), input_arguments);

  HashList hashes;
  std::vector<Output> outputs;
  std::optional<CheckResult> check;
  {
    ProgressLine progress("running");
    options.progress = [&](std::size_t done, std::size_t total) { progress.update(done, total); };
    options.warn = [&](const std::string& message) {
      progress.clear();
      warn(message);
    };
    if (!arguments.hash_file.empty()) {
      options.tap = [&](const std::string& name, const Tensor& tensor) { hashes.add(name, tensor); };
    }
    const std::optional<Model> checked = arguments.check ? std::optional(model) : std::nullopt;
    const std::vector<Tensor> tensors =
        wants_kernels(arguments) ? run_kernels(std::move(model), inputs, arguments) : interpret(model, inputs, options);
    for (std::size_t i = 0; i < tensors.size(); ++i) outputs.push_back({infos.at(i).name, tensors[i], {}});
    if (checked) {
      ProgressLine checking("checking");
      check = cross_check(*checked, inputs, tensors, options.contract, arguments.engine.threads,
                          [&](std::size_t done, std::size_t total) { checking.update(done, total); });
    }
  }

  if (!arguments.output_dir.empty()) {
    const std::filesystem::path folder(arguments.output_dir);
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) {
      throw Error(ErrorCode::other, fmt::format("cannot make the folder {}: {}", in_quotes(folder), error.message()));
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const std::filesystem::path file = folder / fmt::format("output_{}.npy", i);
      save_npy(file, outputs[i].tensor);
      outputs[i].file = file.string();
    }
  }
  if (!arguments.hash_file.empty()) write_file(arguments.hash_file, hashes.text());
  report(arguments, outputs, check);
  return check && !check->passed() ? static_cast<int>(ErrorCode::check_failed) : 0;
}

}  // namespace

Command add_run(CommandLine& line) {
  auto arguments = std::make_shared<RunArguments>();
  RunArguments& a = *arguments;
  Options options = line.add("run", "Run a model on given inputs");
  options.operand("MODEL", a.model, "ONNX file");
  options.list("-i,--input", "[NAME=]FILE", a.inputs.files, ".npy, .npz or .pb; without NAME the next free input");
  options.option("-o,--output-dir", "DIR", a.output_dir, "write output_0.npy, output_1.npy ... here");
  options.option("--contract", "NAME", a.contract, "how results are rounded (default exact)",
                 {"exact", "onnx-float32"});
  options.option(
      "--backend", "NAME", a.backend,
      "auto (default): integer kernels where there are any, else the interpreter; cpu; reference: the interpreter",
      {"auto", "reference", "cpu"});
  add_engine_options(options, a.engine);
  options.flag("--json", a.json, "print JSON instead of a table");
  options.option("--dump-hashes", "FILE", a.hash_file, "write type, shape and hash of every computed tensor as JSON");
  options.flag("--check", a.check,
               "run again on the interpreter, on one thread (a different bit: exit code 1), and by the other contract");

  options.heading("Pictures (value = (x / 255 - mean) / std; uint8 inputs take x)");
  options.list("--image", "[NAME=]FILE", a.inputs.images, "PNG or JPEG; may be given several times, as --input");
  options.option("--mean", "A[,B,C]", a.mean, "one, or one per channel as the model takes them (default 0)");
  options.option("--std", "A[,B,C]", a.std, "likewise (default 1)");
  options.option("--layout", "NAME", a.layout, "order of dimensions (default nchw)", {"nchw", "nhwc"});
  options.option("--channels", "NAME", a.channels, "what the model takes (default: gray for one channel, else rgb)",
                 {"rgb", "bgr", "gray"});
  options.option("--resize", "NAME", a.fit, "pad: keep the aspect, 0 at the right or bottom (default stretch)",
                 {"stretch", "pad"});
  options.option("--size", "HxW", a.size, "height and width where the model leaves them open");
  return [arguments] { return run(*arguments); };
}

}  // namespace halfeven::cli
