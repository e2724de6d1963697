// Context::run takes no memory once it has run: every operator new of this executable is counted.
#include <atomic>
#include <cstdlib>
#include <new>

#include <gtest/gtest.h>

#include <halfeven/executable.hpp>

#include "support/files.hpp"

namespace {
std::atomic<std::size_t> allocations{0};

void* take(std::size_t n, std::size_t align) {
  ++allocations;
  void* p = align > alignof(std::max_align_t) ? std::aligned_alloc(align, (n + align - 1) / align * align)
                                              : std::malloc(n == 0 ? 1 : n);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}
}  // namespace

void* operator new(std::size_t n) { return take(n, 1); }
void* operator new[](std::size_t n) { return take(n, 1); }
void* operator new(std::size_t n, std::align_val_t a) { return take(n, static_cast<std::size_t>(a)); }
void* operator new[](std::size_t n, std::align_val_t a) { return take(n, static_cast<std::size_t>(a)); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }

namespace halfeven::test {
namespace {

// Runs the model of `folder` on the inputs of `inputs`; false if the interpreter has a step in it.
bool runs_without_allocation(const Model& model, const std::filesystem::path& folder, const std::string& what) {
  const NamedTensors named = load_inputs(model, folder);
  CompileOptions options;
  options.threads = 2;
  for (const auto& [name, tensor] : named) options.shapes[name] = tensor.shape();
  const Executable executable = Executable::compile(model, options);
  for (const PlanStep& s : executable.plan().steps) {
    if (s.kernel == "reference") return false;
  }
  Context context(executable);
  const auto wanted = context.run(named);
  std::vector<TensorView> inputs;
  std::vector<NamedView> named_inputs;
  for (const ValueInfo& v : model.inputs()) {
    const auto at = named.find(v.name);
    inputs.push_back(at == named.end() ? TensorView() : TensorView(at->second));
    if (at != named.end()) named_inputs.push_back({at->first, inputs.back()});
  }
  std::vector<std::vector<std::byte>> memory;
  std::vector<MutableTensorView> outputs;
  std::vector<NamedMutableView> named_outputs;
  const auto infos = model.outputs();
  memory.reserve(wanted.size());
  for (std::size_t k = 0; k < wanted.size(); ++k) {
    memory.emplace_back(wanted[k].bytes().size());
    outputs.push_back({wanted[k].dtype(), wanted[k].shape(), memory.back()});
    named_outputs.push_back({infos[k].name, outputs.back()});
  }
  context.run(inputs, outputs);
  const std::size_t before = allocations;
  for (int repeat = 0; repeat < 3; ++repeat) {
    context.run(inputs, outputs);
    context.run(named_inputs, named_outputs);
  }
  EXPECT_EQ(allocations - before, 0U) << what;
  for (std::size_t k = 0; k < wanted.size(); ++k) {
    EXPECT_TRUE(std::equal(memory[k].begin(), memory[k].end(), wanted[k].data())) << what;
  }
  return true;
}

TEST(Allocation, IsCounted) {
  const std::size_t before = allocations;
  const auto p = std::make_unique<int>(3);
  EXPECT_EQ(allocations - before, 1U);
}

TEST(Allocation, CasesRunWithout) {
  int ran = 0;
  for (const auto& folder : folders_in(std::filesystem::path(HALFEVEN_TEST_DATA) / "cases")) {
    if (std::filesystem::exists(folder / "expected_error.txt")) continue;
    ran += runs_without_allocation(Model::load(folder / "model.onnx"), folder, folder.string()) ? 1 : 0;
  }
  std::cout << ran << " cases have a kernel for every step\n";
  EXPECT_GT(ran, 3);
}

TEST(Allocation, NetworksRunWithout) {
  for (const char* name : {"resnet50_bank.u8s8pc", "mobilenetv2_bank.u8s8pc"}) {
    const auto folder = std::filesystem::path(HALFEVEN_SHARED) / "models" / name;
    if (!std::filesystem::exists(folder)) continue;
    if (!runs_without_allocation(Model::load(folder / "model.onnx"), folder / "case0", name)) {
      std::cout << name << " has steps without a kernel\n";
    }
  }
}

}  // namespace
}  // namespace halfeven::test
